"""The main module of Dask's spawned workers: our first code that runs there, before Dask's own
imports; `tasks.preload` comes second."""

from tasks.lean import search_seldom

search_seldom()
