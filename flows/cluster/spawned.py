"""The main module of Dask's spawned workers: our first code that runs there, before Dask's own
imports; `tasks.preload` comes second."""

from ...tasks.base.process_memory import search_seldom

search_seldom()
