"""`dataclass` and `cached_property` for objects of which there is one for each utterance.

Their dataclasses are frozen only to the type checker, because Python sets each field of a
`frozen=True` dataclass by a call, at three times the cost. Its own `cached_property` takes a lock
(until 3.12), which costs more than computing most values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from functools import cached_property as cached_property
else:
    import dataclasses

    class cached_property:
        """`functools.cached_property` without the lock: two threads may both compute a value."""

        def __init__(self, work):
            self.work, self.__doc__ = work, work.__doc__

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.work.__name__] = self.work(instance)
            return value

    def dataclass(*, frozen, slots=False):
        """`dataclasses.dataclass`, with the hash that `frozen` would give."""
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)
