"""Workers that begin before the run has read its settings: which runs have them, that they are the
cluster's workers, and that none outlives the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.faults.command import soon
from uttermill.flows.cluster import early
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.tasks.base import environment

HELD = """
import sys, time
from uttermill.flows.cluster import early
if __name__ == "__main__":
    with early.workers(None, sys.argv[1], ["cluster.workers=2"]):
        print(*(waiting.process.pid for waiting in early.waiting), flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize(
    ("text", "sets", "number"),
    [
        ("{out: OUT, cluster: {workers: 3}}", [], 3),
        ("{out: OUT, cluster: {workers: 3}}", ["cluster.workers=2", "filter.use=[}"], 2),
        ("{out: OUT, cluster: {kind: address, address: x}}", [], 0),
        ("{out: OUT}", ["cluster.kind=class"], 0),
        ("{out: 's3://bucket/out', cluster: {workers: 3}}", [], 0),
        ("{out: OLD, cluster: {workers: 3}}", [], 0),
        ("{cluster: {workers: 3}}", [], 0),
        ("[a list]", [], 0),
        ("{", [], 0),
    ],
)
def test_the_first_run_into_an_out_begins_its_local_workers(
    text: str, sets: list[str], number: int, tmp_path: Path
) -> None:
    (tmp_path / "old/manifests").mkdir(parents=True)
    settings = tmp_path / "settings.yaml"
    settings.write_text(text.replace("OUT", f"{tmp_path}/new").replace("OLD", f"{tmp_path}/old"))
    assert early.count(str(settings), None, sets) == number


def test_they_become_the_workers_with_what_the_run_asks_for(tmp_path: Path) -> None:
    settings = ClusterSettings(workers=1, memory_limit="2GB")
    with early.workers(None, f"{tmp_path}/out", ["cluster.workers=2"]):
        begun = {waiting.process.pid for waiting in early.waiting}
        with Cluster(settings, tmp_path / "scratch", engines={"json": "loads"}) as cluster:
            (pid,) = cluster.client.run(os.getpid).values()
            (engines,) = cluster.client.run(environment.engines).values()
            assert pid in begun
            assert engines == {"json": "loads"}
            assert not any(psutil.pid_exists(other) for other in begun - {pid})
    assert not psutil.pid_exists(pid)


def test_a_killed_one_is_replaced_by_another(tmp_path: Path) -> None:
    settings = ClusterSettings(workers=1, memory_limit="2GB")
    with early.workers(None, f"{tmp_path}/out", ["cluster.workers=1"]):
        (begun,) = early.waiting
        pid = begun.process.pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with Cluster(settings, tmp_path / "scratch", engines={}) as cluster:
            assert pid not in cluster.client.run(os.getpid).values()


def test_none_outlives_a_run_that_is_refused_or_killed(tmp_path: Path) -> None:
    with early.workers(None, f"{tmp_path}/a", ["cluster.workers=1"]):
        refused = [waiting.process.pid for waiting in early.waiting]
    assert len(refused) == 1
    assert not psutil.pid_exists(refused[0])

    script = tmp_path / "held.py"
    script.write_text(HELD)
    command = [sys.executable, str(script), f"{tmp_path}/b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout
        assert run.stderr
        pids = [*map(int, run.stdout.readline().split())]
        run.kill()
        assert len(pids) == 2
        soon(lambda: not any(map(psutil.pid_exists, pids)))
        assert not run.stderr.read()  # they end without a word
