"""Replaces an attribute of a library for a while.

Prefect and Dask have no setting for some of what a run needs. Each such name is private and may
go with an upgrade: `tests/test_private_names.py` lists them all and says which one is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Inside, `owner.name` is `value`; AttributeError when the library has no such name."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
