"""Runs in a control group that allows less memory than the machine has, as Slurm's `--mem` and
systemd's `MemoryMax` make them: for real, by a group of cgroup v1."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.command import Ended, Site, soon
from tests.helpers import corpus

GROUPS = Path("/sys/fs/cgroup/memory")
LIMIT = "memory.limit_in_bytes"
COUNT = 20
MIB = 1 << 20

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.cluster,
    pytest.mark.skipif(
        not ((GROUPS / LIMIT).is_file() and os.access(GROUPS, os.W_OK) and os.geteuid() == 0),
        reason="needs root, and the memory controller of cgroup v1 at /sys/fs/cgroup/memory",
    ),
]

Within = Callable[[int, Path], Ended]


@pytest.fixture
def within(bare: Site) -> Iterator[Within]:
    """Runs settings in a group two levels down; its parent allows so many MiB."""
    above = GROUPS / f"uttermill-{uuid4().hex}"
    leaf = above / "step"
    leaf.mkdir(parents=True)

    def run(mib: int, settings: Path) -> Ended:
        (above / LIMIT).write_text(str(mib * MIB))
        with bare.start("run", settings, "--json") as started:
            (leaf / "cgroup.procs").write_text(str(started.pid))
            return started.end()

    yield run
    assert soon(lambda: not (leaf / "cgroup.procs").read_text())
    for group in (leaf, above):
        (group / "memory.force_empty").write_text("0")
        group.rmdir()


def nothing_failed(ended: Ended) -> bool:
    """Of all clips, most of which are packaged: some are too short."""
    utterances = ended.result["utterances"]
    assert utterances["in"] == COUNT
    assert utterances["packaged"] > COUNT / 2
    return bool(utterances["failed"] == 0)


def test_fewer_workers_than_wished_where_no_more_fit(bare: Site, within: Within) -> None:
    corpus.make(bare.source, COUNT)
    backend = {"use": "tests.plugins.heavy_asr", "takes": 300, "says": 300}
    settings = bare.settings("out", transcribe={"backend": backend}, cluster={"workers": 4})
    ended = within(1000, settings)
    assert ended.code == 0, ended.stderr
    assert "cluster.workers is 4, but 1 fit into 1.05 GB" in ended.stderr
    assert nothing_failed(ended)
    assert ended.result["deaths"] == {"deaths": 0, "timeouts": 0, "isolated": 0}


def test_what_the_kernel_kills_is_no_fault_of_the_items(bare: Site, within: Within) -> None:
    """The recogniser takes more than it says: two workers are too many, and one fits."""
    corpus.make(bare.source, COUNT)
    backend = {"use": "tests.plugins.heavy_asr", "takes": 300}
    chosen = {"cluster": {"workers": 2}, "shard": {"hours": 0.004}}
    ended = within(800, bare.settings("out", transcribe={"backend": backend}, **chosen))
    assert ended.code == 0, ended.stderr
    assert ended.result["deaths"]["deaths"], "control: it was too much for two"
    assert nothing_failed(ended)


def test_a_machine_that_is_too_small_ends_the_run_and_the_next_one_heals(
    bare: Site, within: Within
) -> None:
    corpus.make(bare.source, COUNT)
    backend = {"use": "tests.plugins.heavy_asr", "takes": 900}
    chosen = {"cluster": {"workers": 2, "memory_limit": "2GB"}, "shard": {"hours": 0.004}}
    settings = bare.settings("out", transcribe={"backend": backend}, **chosen)
    ended = within(620, settings)
    assert ended.code == 1
    assert "something kills this run's processes (signal 9)" in ended.error
    assert "0.65 GB (memory.limit_in_bytes of the cgroup /" in ended.error
    assert nothing_failed(bare.done(settings))
