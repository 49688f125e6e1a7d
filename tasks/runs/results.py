"""Results of a run's steps, and the counts that a run adds up from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tasks.accounting.broken import BrokenCount, Unreachable
from tasks.base.json_types import JsonObject
from tasks.settings.job import Done
from tasks.shard_store.index import Index
from tasks.stages.contract import STAGES
from tasks.stages.listing.skipped import LeftAsides


@dataclass(slots=True)
class Sharded:
    """Result of the shard stage: shards with recordings, longest first, and what it skipped."""

    shards: list[str]
    done: Done
    index: Index
    ignored: dict[str, int] = field(default_factory=dict)
    left: LeftAsides = field(default_factory=LeftAsides)
    seconds: dict[str, float] = field(default_factory=dict)  # audio of each shard by header
    listed: BrokenCount = field(default_factory=BrokenCount)  # of sources that must not be broken
    unreachable: dict[str, Unreachable] = field(default_factory=dict)  # by dataset


@dataclass(slots=True)
class Published:
    """The version that holds today's data; `new` if this run made it."""

    path: Path
    new: bool
    summary: JsonObject
    done: Done
    walls: dict[str, float] = field(default_factory=dict)  # s of each step
    written: int = 0  # output shards that were written: one a tar in most formats
    linked: int = 0  # and those whose files are linked from the previous version
    balance: JsonObject = field(default_factory=dict)


class Totals:
    """Counts of a run, stage by stage, as `run --json` gives them."""

    def __init__(self) -> None:
        counts = ("shards_run", "shards_reused", "items_computed", "items_reused")
        self.stages: dict[str, JsonObject] = {
            name: {**dict.fromkeys(counts, 0), "seconds": 0.0} for name in STAGES
        }

    def add(self, done: Done) -> None:
        entry = self.stages[done.stage]
        entry["shards_run" if done.ran else "shards_reused"] += 1
        entry["items_computed"] += done.computed
        entry["items_reused"] += done.reused
        entry["seconds"] = round(entry["seconds"] + done.wall, 3)
