"""The main module of Dask's spawned workers: the first code of ours that runs there, before Dask's
own imports. `tasks.preload` is the second."""

from __future__ import annotations

from tasks.lean import search_seldom

search_seldom()
