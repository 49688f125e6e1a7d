"""Interfaces of a run: Executor (runs calls) and Observer (is told of steps); results of its steps,
and the counts that it adds up from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..accounting.broken import BrokenCount, Unreachable
from ..base.json_types import Arrived, Balance, JsonObject, Summary
from ..settings.job import Cost, Done, Job, Spoken
from ..shard_store.index import Index
from ..stages import stage
from ..stages.call import Call, CostMeter, Result
from ..stages.contract import STAGES
from ..stages.listing.skipped import SkippedEntries

NONE = dict.fromkeys(("shards_run", "shards_reused", "items_computed", "items_reused"), 0)


@dataclass(slots=True)
class Sharded:
    shards: list[str]
    done: Done
    index: Index
    ignored: dict[str, int] = field(default_factory=dict)
    skipped: SkippedEntries = field(default_factory=SkippedEntries)
    seconds: dict[str, float] = field(default_factory=dict)  # audio of each shard by header
    listed: BrokenCount = field(default_factory=BrokenCount)  # of sources that must not be broken
    unreachable: dict[str, Unreachable] = field(default_factory=dict)  # by dataset
    stated: list[str] = field(default_factory=list)  # what sources state of their recordings


@dataclass(slots=True)
class Published:
    """The version that holds today's data; `new` if this run made it."""

    path: Path
    new: bool
    summary: Summary
    done: Done
    balance: Balance
    walls: dict[str, float] = field(default_factory=dict)  # s of each step
    written: int = 0  # output shards that were written: one a tar in most formats
    linked: int = 0  # and those whose files are linked from the previous version
    arrived: Arrived | None = None  # by this version; None if no version was made
    restored: list[str] = field(default_factory=list)  # lost files of it that were made again


@dataclass(slots=True)
class Elected:
    """Languages of sources by a vote, other than the job's: clips have to be heard in them before
    a version is published."""

    languages: Spoken
    done: Done


class Totals:
    """Counts of a run, stage by stage, as `run --json` gives them: each shard and item once,
    even if a repair makes the run begin anew."""

    def __init__(self) -> None:
        #: By stage: shards and items that ran or were reused, and seconds of wall clock.
        self.stages: dict[str, JsonObject]
        self.stages = {name: {**NONE, "seconds": 0.0} for name in STAGES}
        self._computed: dict[str, dict[str, int]] = {name: {} for name in STAGES}  # by shard

    def begin_again(self) -> None:
        """All shards are about to be added anew. What was computed stays so; so does its time."""
        for entry in self.stages.values():
            entry.update(NONE)

    def add(self, done: Done) -> None:
        computed = self._computed[done.stage]
        done = done.after(Done(done.stage, done.shard, computed.get(done.shard, 0)))
        if done.computed:
            computed[done.shard] = done.computed
        entry = self.stages[done.stage]
        entry["shards_run" if done.ran else "shards_reused"] += 1
        entry["items_computed"] += done.computed
        entry["items_reused"] += done.reused
        entry["seconds"] = round(entry["seconds"] + done.wall, 3)


Step = TypeVar("Step", Sharded, Done, Published | Elected)
Chain = Callable[[str], list[Done]]  # of a shard


class Executor:
    """Runs work: this one in this process, for tests, debuggers and notebooks; others on workers,
    so arguments and results survive pickling."""

    def call(self, call: Call[Result], *args: object) -> Result:
        """Run `call.work(*args)`."""
        return call.work(*args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        """Run one stage for one shard of so much audio; on workers, surviving crashes and hangs."""
        return stage.run(name, job, shard)

    def map(self, call: Call[Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        """Run `call.work` for each tuple of arguments, results in order."""
        return [self.call(call, *arguments) for arguments in args]

    def chains(self, shards: Sequence[str], chain: Chain) -> list[list[Done]]:
        """Run `chain` for each shard, many at once if there is room; they begin in this order, and
        the results have it."""
        return [chain(shard) for shard in shards]

    def ready(self) -> float:
        """Wait for the workers; how long that took, s."""
        return 0.0


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


class Alone(Executor):
    """Executor of a run that begins in this process, and ends there if nothing has to be computed.

    Whatever decodes, measures or transcribes raises WorkersNeeded, as does packaging more than
    `most_seconds` of audio, by what `begun` has heard. `ran` is told of each call.
    """

    def __init__(
        self, most_seconds: float, begun: LastBegun, ran: Callable[[str, str, Cost], None]
    ) -> None:
        self._most, self._begun, self._ran = most_seconds, begun, ran

    def call(self, call: Call[Result], *args: object) -> Result:
        if self._begun.stage != "package" or self._begun.seconds > self._most:
            raise WorkersNeeded
        with CostMeter() as meter:
            result = call.work(*args)
        self._ran(call.stage, call.step, meter.cost)
        return result

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        raise WorkersNeeded
