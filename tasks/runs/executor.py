"""Interfaces: an executor runs calls, an observer hears of steps; `pipeline.run` takes both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from tasks.runs.results import Published, Sharded
from tasks.settings.job import Cost, Done, Job
from tasks.stages import stage
from tasks.stages.cost import CostMeter

Step = TypeVar("Step", Sharded, Done, Published)
Result = TypeVar("Result")
Chain = Callable[[str], list[Done]]  # of a shard


class Caller(Protocol):
    """Runs work on workers. Arguments and results survive pickling."""

    def call(self, work: Callable[..., Result], *args: object) -> Result:
        """Run `work(*args)` somewhere."""

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        """Run one stage for one shard of so much audio, surviving crashes and hangs."""

    def map(self, work: Callable[..., Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        """Run `work` for each tuple of arguments, results in order."""

    def listing(self, job: Job) -> Path:
        """A scratch folder that all workers see."""


class Here:
    """Everything in this process: for tests, debuggers and notebooks."""

    def call(self, work: Callable[..., Result], *args: object) -> Result:
        return work(*args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        return stage.run(name, job, shard)

    def map(self, work: Callable[..., Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        return [work(*each) for each in args]

    def listing(self, job: Job) -> Path:
        return job.out / "manifests" / ".listing"


class Observer(Protocol):
    """Hears of every step of a run, and may wrap it. Seconds are seconds of audio."""

    #: More shards than this are too many to show: those that lack nothing get no steps.
    most_shards: int = 100

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        """Run a step and return its result."""
        return work()

    def chains(self, shards: Mapping[str, float], chain: Chain) -> list[list[Done]]:
        """Run `chain` for each shard, many at once if there is room; results in order. `shards`:
        seconds of audio of each, in the order in which they are best begun."""
        return [chain(shard) for shard in shards]

    def sharded(self, found: Sharded) -> None:
        """The shard stage has ended."""

    def start(self, stage: str, total_seconds: float) -> None:
        """A stage begins, or has a new total."""

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None:
        """A stage has advanced. Workers report what they compute themselves."""

    def finish(self, stage: str) -> None:
        """A stage has ended."""


class Unobserved(Observer):
    """An observer that only lets the steps run, one after another."""

    def sharded(self, found: Sharded) -> None: ...

    def start(self, stage: str, total_seconds: float) -> None: ...

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None: ...

    def finish(self, stage: str) -> None: ...


class WorkersNeeded(Exception):
    """A run that began in one process has work for workers."""


class Alone(Unobserved):
    """Caller and observer of a run that begins in this process, and ends there if nothing has to be
    computed.

    Whatever decodes, measures or transcribes raises WorkersNeeded, as does packaging more than
    `most_seconds` of audio. `ran` is called for each call made here, with its cost.
    """

    def __init__(
        self, most_seconds: float, ran: Callable[[Callable[..., object], Cost], None]
    ) -> None:
        self._most, self._ran = most_seconds, ran
        self._begun = ("", 0.0)  # the stage that was begun last, and how much audio it has

    def start(self, stage: str, total_seconds: float) -> None:
        self._begun = stage, total_seconds

    def call(self, work: Callable[..., Result], *args: object) -> Result:
        name, seconds = self._begun
        if name != "package" or seconds > self._most:
            raise WorkersNeeded
        with CostMeter() as meter:
            result = work(*args)
        self._ran(work, meter.cost)
        return result

    def map(self, work: Callable[..., Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        return [self.call(work, *each) for each in args]

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        raise WorkersNeeded

    def listing(self, job: Job) -> Path:
        assert job.scratch is not None
        return job.scratch / "listing"
