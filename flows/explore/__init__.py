"""The explorer: a page on loopback to search a corpus, listen to it and correct it."""

from tasks.base import process_memory

# DuckDB's binding prints at the end of the process whatever of it no search for garbage removed.
process_memory.search_at_exit()
