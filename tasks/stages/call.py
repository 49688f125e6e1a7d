"""Calls of functions on workers: their names in `metrics.parquet`, and their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

Result = TypeVar("Result")


class Limits(NamedTuple):
    """Settings of the cluster that bound a call: s, and s for each second of audio."""

    item: float
    factor: float

    def of_audio(self, seconds: float) -> float:
        """Deadline of a call that handles so much audio, s."""
        return self.item + self.factor * seconds


#: (limits, whether the call's items run one by one, its arguments) -> its deadline, wall seconds.
Deadline = Callable[[Limits, bool, tuple[Any, ...]], float]

CORPUS, SHARD_EACH = 600.0, 30.0  # s of a call on many shards, at least, and of each shard


def of_item(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    """For a call that handles one item."""
    return limits.item


def of_shards(shards: int) -> Deadline:
    """For a call on all rows of so many shards: a short time for one item must not end it. Applying
    rules to a shard of 24 h takes seconds, and planning a million clips 12 s."""
    return lambda limits, isolated, args: max(limits.item, CORPUS) + SHARD_EACH * shards


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A function for a worker, its stage and its step, and its deadline, at which its worker is
    restarted. Its arguments and its result survive pickling."""

    stage: str
    step: str
    work: Callable[..., Result]
    deadline: Deadline = of_item
