"""Results of a run's steps, and the counts that a run adds up from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..accounting.broken import BrokenCount, Unreachable
from ..base.json_types import Arrived, Balance, JsonObject, Summary
from ..settings.job import Done
from ..shard_store.index import Index
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
