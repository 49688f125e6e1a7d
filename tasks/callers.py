"""How a run gets work to workers, and who watches it: the two that `pipeline.run` is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tasks.job import Done, Job
from tasks.results import Published, Sharded
from tasks.stages import stage

Step = TypeVar("Step", Sharded, Done, Published)
Chain = Callable[[str], list[Done]]  # of a shard


class Caller(Protocol):
    """Gets work to where it is done. Arguments and results survive pickling."""

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run `work(*args)` somewhere."""

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        """Run one stage for one shard of so much audio, surviving whatever kills it."""

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run `work` for each tuple of arguments, results in order."""

    def listing(self, job: Job) -> Path:
        """A scratch folder that all workers see."""


class Here:
    """Everything in this process: for tests, debuggers and notebooks."""

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        return stage.run(name, job, shard)

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [work(*each) for each in args]

    def listing(self, job: Job) -> Path:
        return job.out / "manifests" / ".listing"


class Observer(Protocol):
    """Is told of every step of a run, and may wrap it. Seconds are seconds of audio."""

    #: More shards than this are too many to show: those that lack nothing get no steps.
    most_shards: int

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        """Run a step and return its result."""

    def chains(self, shards: list[str], chain: Chain) -> list[list[Done]]:
        """Run `chain` for each shard, many at once if there is room; results in order."""

    def sharded(self, found: Sharded) -> None:
        """The shard stage has ended."""

    def start(self, stage: str, total_seconds: float) -> None:
        """A stage begins, or has a new total."""

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None:
        """More of a stage is done. Workers tell of what they compute themselves."""

    def finish(self, stage: str) -> None:
        """A stage has ended."""


class Unobserved:
    """An observer that only lets the steps run, one after another."""

    most_shards = 100

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        return work()

    def chains(self, shards: list[str], chain: Chain) -> list[list[Done]]:
        return [chain(shard) for shard in shards]

    def sharded(self, found: Sharded) -> None: ...

    def start(self, stage: str, total_seconds: float) -> None: ...

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None: ...

    def finish(self, stage: str) -> None: ...
