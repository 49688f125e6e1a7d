"""Runs on a real Slurm of two nodes: jobs that end are replaced, and what they hold is kept."""

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.faults.command import ROOT, Ended, Site, Started, soon
from tests.helpers import corpus, slurm
from tests.helpers.slurm import Slurm

LACKS = slurm.MISSING or ([] if os.geteuid() == 0 else ["root"])
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(LACKS), reason=f"Slurm cannot be started here: no {', '.join(LACKS)}"),
]
WALLTIME_S = 60  # the least that Slurm knows


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    with slurm.running() as started:
        yield started


@pytest.fixture
def site(tmp_path: Path, cluster: Slurm) -> Site:
    site = Site(tmp_path, "", cluster.environment, history="none")
    (site.gate / "trace").touch()
    return site


def recordings(site: Site, count: int) -> None:
    for number in range(count):
        corpus.add(site.source, number % 10, number, f"r{number:04}.wav")


def settings(site: Site, workers: object, walltime: str = "00:10:00") -> Path:
    """The settings of infra/slurm, for nodes of this machine: a job has one worker, and a shard
    one recording."""
    given = yaml.safe_load((ROOT / "infra/slurm/settings.yaml").read_text())["cluster"]
    options = {
        **given["options"], "walltime": walltime, "cores": 1, "processes": 1, "memory": "1GB",
        "job_extra_directives": [], "shared_temp_directory": str(site.home),
        "local_directory": str(site.home / "local"), "log_directory": str(site.home / "jobs"),
        "job_script_prologue": [f"export DASK_CONFIG={ROOT / 'infra/dask.yaml'}", "trap : TERM"],
        "worker_extra_args": [*given["options"]["worker_extra_args"], "--host", "127.0.0.1"],
        "scheduler_options": {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"},
    }  # fmt: skip
    del options["account"]
    return site.settings(
        "out", cluster={**given, "workers": workers, "options": options}, shard={"hours": 1e-5},
        filter={"filters": [{"use": "tests.plugins.gated_filter"}]},
    )  # fmt: skip


def measured(site: Site) -> int:
    """How often any clip was measured."""
    return len((site.gate / "trace").read_text().splitlines())


def attempts(site: Site) -> int:
    """Calls of `filter` that were begun again."""
    (path,) = (site.home / "out/runs").rglob("metrics.parquet")
    rows = pq.read_table(path, columns=["stage", "attempts"]).to_pylist()
    return sum(row["attempts"] - 1 for row in rows if row["stage"] == "filter")


def is_over(cluster: Slurm, job: str) -> bool:
    return job not in cluster.jobs()


def done(run: Started, seconds: float = 240) -> Ended:
    ended = run.end(seconds)
    assert ended.code == 0, ended.stderr
    return ended


@pytest.mark.nightly
def test_a_job_that_is_told_to_end_ends_its_call_and_is_replaced(
    site: Site, cluster: Slurm
) -> None:
    recordings(site, 4)
    hold = site.gate / "filter-0.4.hold"
    hold.touch()
    with site.start("run", settings(site, 1), "--json") as run:
        assert soon((site.gate / "filter-0.4.held").exists), run.stderr()
        (job,) = cluster.jobs("running")
        cluster("scancel", job)
        time.sleep(3)
        assert cluster.jobs("completing") == [job], "it has a call"
        hold.unlink()
        ended = done(run)
    assert measured(site) == 4, "nothing was computed twice"
    assert attempts(site) == 0
    assert "1 job ended; replaced" in ended.stderr
    assert ended.result["deaths"] == {"deaths": 0, "timeouts": 0, "isolated": 0}
    assert soon(lambda: not cluster.jobs()), "nothing is left in the queue"


@pytest.mark.nightly
def test_a_call_that_takes_too_long_for_a_job_that_ends_is_no_fault_of_its_shard(
    site: Site, cluster: Slurm
) -> None:
    recordings(site, 3)
    hold = site.gate / "filter-0.4.hold"
    hold.touch()
    with site.start("run", settings(site, 1), "--json") as run:
        for _ in range(3):  # three deaths would have its items run one by one
            assert soon((site.gate / "filter-0.4.held").exists), run.stderr()
            (site.gate / "filter-0.4.held").unlink()
            (job,) = cluster.jobs("running")
            began = time.monotonic()
            cluster("scancel", job)
            assert soon(partial(is_over, cluster, job), 40, every=0.2)
            assert time.monotonic() - began < 25
        hold.unlink()
        ended = done(run)
    assert ended.stderr.count("was told to leave and did not end its call; it runs again") == 3
    assert ended.result["deaths"] == {"deaths": 0, "timeouts": 0, "isolated": 0}
    assert measured(site) == 3 + 3


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_run_of_ten_walltimes_ends_by_itself(site: Site, cluster: Slurm) -> None:
    clips, pace = 110, 4
    recordings(site, clips)
    (site.gate / "pace").write_text(str(pace))
    seen: set[str] = set()
    began = time.monotonic()
    with site.start("run", settings(site, 2, "00:01:00"), "--json") as run:
        while run.process.poll() is None:
            seen |= {*cluster.jobs("running")}
            time.sleep(1)
        done(run)
    assert time.monotonic() - began > 4 * WALLTIME_S
    assert len(seen) >= 10
    assert measured(site) == clips + attempts(site), "the calls that were cut, and no other"
    assert attempts(site) <= 2
