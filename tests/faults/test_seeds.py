"""The two faults that this project began with are absent in our workers.

(a) Lazy imports: threads that use librosa's lazy engines first at the same time break the import.
(b) fork: a child of a process that used OpenMP hangs in it, or is ended by it.
"""

import os
import sys
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_limits

from tests.faults import seeds
from tests.helpers import tiers
from uttermill.flows.cluster import local
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.tasks.base import environment
from uttermill.tasks.stages.spawn_check import started_afresh

ROUNDS = 2  # calls of each resampler a thread


@contextmanager
def threaded(workers: int, threads: int, folder: Path) -> Iterator[Any]:
    """A local cluster as ours, but for the number of threads: ours have one."""
    import dask.config
    import distributed

    made: Any = distributed.LocalCluster
    client: Any = distributed.Client
    with (
        local.without_main(),
        dask.config.set(local.merged(local.variables())),
        environment.setting(local.worker_environment(local.variables())),
        made(
            n_workers=workers, threads_per_worker=threads, host="127.0.0.1", memory_limit="4GB",
            dashboard_address=None, scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            local_directory=str(folder), silence_logs=50,
        ) as cluster,
        client(cluster, set_as_default=False) as found,
    ):  # fmt: skip
        yield found


def proven(client: Any, workers: int, threads: int) -> None:
    """Every call of every resampler ends well, on fresh processes, all of them used."""
    calls = range(ROUNDS * len(seeds.LOAD) * workers * threads)
    futures = client.map(seeds.resampled, calls, pure=False, retries=0)
    found = client.gather(futures)
    assert len(found) == len(calls)
    assert all(abs(each["samples"] - 1600) <= 2 for each in found)
    assert all(0.6 < each["level"] < 0.8 for each in found)
    assert all(started_afresh(each["command"]) for each in found)
    processes = {each["pid"] for each in found}
    assert len(processes) == workers
    assert os.getpid() not in processes
    of = Counter(pid for pid, _ in {(each["pid"], each["thread"]) for each in found})
    assert max(of.values()) <= threads


@pytest.mark.cluster
@pytest.mark.parametrize("workers", [2, tiers.nightly(1), tiers.nightly(4)])
@pytest.mark.nightly
def test_our_workers_resample_without_a_failure(workers: int, tmp_path: Path) -> None:
    with threadpool_limits(2):
        seeds.openmp()  # the parent has used OpenMP, as in (b)
    settings = ClusterSettings(workers=workers, memory_limit="4GB")
    with Cluster(settings, tmp_path / "s") as cluster:
        proven(cluster.client, workers, 1)
        futures = [cluster.submit(seeds.openmp) for _ in range(workers * 2)]
        assert all(future.result(timeout=60) for future in futures)
        modules = cluster.client.run(loaded)
    assert all(all(real.values()) for real in modules.values())


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("workers", "threads"),
    [(1, 4), tiers.nightly(1, 2), tiers.nightly(1, 3), tiers.nightly(2, 2), tiers.nightly(4, 4)],
)
@pytest.mark.nightly
def test_with_our_preload_threads_resample_without_a_failure(
    workers: int, threads: int, tmp_path: Path
) -> None:
    with threaded(workers, threads, tmp_path) as client:
        proven(client, workers, threads)


def loaded() -> dict[str, bool]:
    """Whether the lazy engines are modules in this process."""
    names = ("resampy", "samplerate", "soxr", "librosa.core.audio")
    return {name: type(sys.modules.get(name)) is types.ModuleType for name in names}
