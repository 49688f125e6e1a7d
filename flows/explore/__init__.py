"""The explorer: a page on loopback to search a corpus, listen to it and correct it."""

from ...tasks.base import process_memory

# At exit, DuckDB's binding prints each of its objects that was not garbage-collected.
process_memory.search_at_exit()
