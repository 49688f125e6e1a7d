"""Keeps a process lean: without pandas, and without searches for garbage that is not there.

Python searches for garbage after every 700 objects that a module creates, and once more through
all objects when a process ends: a quarter of what a short command costs.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType

#: Python's own thresholds of the garbage collector.
_USUAL = gc.get_threshold()


def without_pandas() -> None:
    """Let pyarrow work without pandas in this process (0.3 s of CPU, 40 MB), as it does where
    pandas is not installed: `to_pandas` fails then. Others may still import pandas.

    Only for processes that are uttermill's own: pyarrow looks for pandas once.
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)


def search_seldom() -> None:
    """Let the garbage collector run seldom while a process starts, until `search_as_usual`."""
    gc.set_threshold(1000 * _USUAL[0], *_USUAL[1:])


def search_as_usual() -> None:
    gc.set_threshold(*_USUAL)


def without_search_at_exit() -> None:
    """Let this process end without a search through all its objects: the system takes their memory
    back. What is to be done at the end is done as ever, by `atexit` and `finally`.

    Call it before anything else registers with `atexit`: those functions run last in, first out.
    """
    atexit.register(gc.freeze)


def search_at_exit() -> None:
    """Take `without_search_at_exit` back: for libraries that look at the end what is left of them,
    and print all that no search has removed, as DuckDB's binding does."""
    atexit.unregister(gc.freeze)
    atexit.unregister(gc.unfreeze)  # of an earlier call
    atexit.register(gc.unfreeze)


@contextmanager
def importing() -> Iterator[None]:
    """For large imports: the garbage collector neither runs meanwhile nor ever scans what they
    create, which lives until the process ends.

    A Prefect server starts with 0.7 s less CPU of 3.6 that way, a flow with 0.2 s of 1.9.
    """
    with uncollected():
        try:
            yield
        finally:
            gc.freeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """The garbage collector does not run meanwhile. For many objects without cycles, such as rows:
    it would scan them all again and again as they become more, for an eighth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
