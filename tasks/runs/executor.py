"""Interfaces of a run: Executor (runs calls) and Observer (is told of steps)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ..settings.job import Cost, Done, Job
from ..stages import stage
from ..stages.call import Call, CostMeter, Result
from .results import Published, Sharded

Step = TypeVar("Step", Sharded, Done, Published)
Chain = Callable[[str], list[Done]]  # of a shard


class Executor(Protocol):
    """Runs work on workers. Arguments and results survive pickling."""

    def call(self, call: Call[Result], *args: object) -> Result:
        """Run `call.work(*args)` somewhere."""

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        """Run one stage for one shard of so much audio, surviving crashes and hangs."""

    def map(self, call: Call[Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        """Run `call.work` for each tuple of arguments, results in order."""

    def chains(self, shards: Sequence[str], chain: Chain) -> list[list[Done]]:
        """Run `chain` for each shard, many at once if there is room; they begin in this order, and
        the results have it."""

    def listing(self, job: Job) -> Path:
        """A scratch folder that all workers see."""


class Here:
    """Everything in this process: for tests, debuggers and notebooks."""

    def call(self, call: Call[Result], *args: object) -> Result:
        return call.work(*args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        return stage.run(name, job, shard)

    def map(self, call: Call[Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        return [self.call(call, *arguments) for arguments in args]

    def chains(self, shards: Sequence[str], chain: Chain) -> list[list[Done]]:
        return [chain(shard) for shard in shards]

    def listing(self, job: Job) -> Path:
        return job.out / "manifests" / ".listing"


class Observer:
    """Is told of every step of a run; this one only lets the steps run, one after another. Seconds
    are seconds of audio."""

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        """Run a step, inside whatever shows it, and return its result."""
        return work()

    def chains(self, shards: Mapping[str, float]) -> AbstractContextManager[Sequence[str]]:
        """Inside, the chains of these shards run; yields them in the order in which to begin.
        `shards`: seconds of audio of each, those that are best begun first."""
        return nullcontext([*shards])

    def sharded(self, sharding: Sharded) -> None:
        """The shard stage has ended."""

    def start(self, stage: str, total_seconds: float) -> None:
        """A stage begins, or has a new total."""

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None:
        """A stage has advanced. Workers report what they compute themselves."""

    def finish(self, stage: str) -> None:
        """A stage has ended."""


class WorkersNeeded(Exception):
    """A run that began in one process has work for workers."""


class LastBegun(Observer):
    stage, seconds = "", 0.0

    def start(self, stage: str, total_seconds: float) -> None:
        self.stage, self.seconds = stage, total_seconds


class Alone(Here):
    """Executor of a run that begins in this process, and ends there if nothing has to be computed.

    Whatever decodes, measures or transcribes raises WorkersNeeded, as does packaging more than
    `most_seconds` of audio, by what `begun` has heard. `ran` is told of each call.
    """

    def __init__(
        self, most_seconds: float, begun: LastBegun, ran: Callable[[Call[Any], Cost], None]
    ) -> None:
        self._most, self._begun, self._ran = most_seconds, begun, ran

    def call(self, call: Call[Result], *args: object) -> Result:
        if self._begun.stage != "package" or self._begun.seconds > self._most:
            raise WorkersNeeded
        with CostMeter() as meter:
            result = call.work(*args)
        self._ran(call, meter.cost)
        return result

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        raise WorkersNeeded

    def listing(self, job: Job) -> Path:
        assert job.scratch is not None
        return job.scratch / "listing"
