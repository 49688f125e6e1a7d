"""Shows the steps of a run as progress bars, and runs the chains of its shards on threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from flows.progress import Progress
from flows.run import items
from flows.run.caller import ClusterCaller
from tasks.callers import Chain, Step
from tasks.job import Done, Job
from tasks.results import Sharded


class Shown:
    """The observer of a run without Prefect. Files that the sources left aside are listed in
    `folder`, if it is given."""

    most_shards = 100

    def __init__(
        self, job: Job, caller: ClusterCaller, progress: Progress, folder: Path | None = None
    ) -> None:
        self.caller, self.folder = caller, folder
        self.start, self.advance, self.finish = progress.start, progress.advance, progress.finish

    @property
    def task_runs(self) -> int:
        """How many Prefect was told of."""
        return 0

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        return work()

    def chains(self, shards: Mapping[str, float], chain: Chain) -> list[list[Done]]:
        return self.caller.chains(list(shards), chain)

    def sharded(self, found: Sharded) -> None:
        if self.folder is not None:
            items.write_left_aside(self.folder, found.left)
