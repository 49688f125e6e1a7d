"""The explorer: a page on loopback to search a corpus, listen to it and correct it."""

from tasks import lean

# DuckDB's binding prints at the end of the process whatever of it no search for garbage removed.
lean.search_at_exit()
