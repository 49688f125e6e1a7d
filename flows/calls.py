"""How the pipeline's calls get to the workers: `OnCluster` is its Caller, under guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flows import remote
from flows.cluster import Cluster, ClusterSettings
from flows.fleet import CPU, GPU
from flows.runner import Guard, map_chains
from tasks import gpu
from tasks.job import Done, Job


class OnCluster:
    """Sends work to the cluster; a call that nothing else needs a worker for stays here."""

    def __init__(self, cluster: Cluster, settings: ClusterSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.guard = Guard(cluster, self._deadline)

    def _deadline(self, seconds: float, isolated: bool) -> float:
        """Wall seconds that a call may take for so much audio."""
        shared = self.settings.item_timeout + self.settings.timeout_factor * seconds
        # One by one, each item may use up its own timeout; the isolation itself enforces that.
        return shared * 100 if isolated else shared

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        # A run with nothing to do starts no worker.
        if not self.cluster.started:
            return work(*args)
        return self._on_worker(work, args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        # A stage that wants a GPU goes to whoever is there where no worker has one.
        kind = GPU if GPU in self.cluster.kinds and name in gpu.stages(job) else CPU
        what = f"{name} of {shard}"
        done: Done = self.guard.run(
            remote.work, name, job, shard, seconds_of_audio=seconds, name=what, kind=kind
        )
        return done

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        call = partial(self._on_worker, work)
        return map_chains(args, call, self.cluster.count(CPU), self.guard.cancel)

    def _on_worker(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return self.guard.run(
            work, *args, seconds_of_audio=3600.0, isolate_kw=None, name=work.__name__
        )
