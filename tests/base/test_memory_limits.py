"""The limit that holds is found in the control groups, v1 and v2, nested, in namespaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from uttermill.tasks.base import memory_limits
from uttermill.tasks.base.memory_limits import Limit

V1 = "32 31 0:29 {top} {place} rw,relatime - cgroup cgroup rw,{controllers}\n"
V2 = "41 31 0:38 {top} {place} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
NONE = 9223372036854771712  # v1's number for no limit
MEMORY = "/sys/fs/cgroup/memory"
UNIFIED = "/sys/fs/cgroup"


def tree(root: Path, cgroup: str, mounts: str, files: Mapping[str, str | int]) -> Path:
    """A machine's /proc and its groups' files."""
    known = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": mounts, **files}
    for name, text in known.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n" if isinstance(text, int) else text)
    return root


def v1(top: str = "/", place: str = MEMORY) -> str:
    cpu = V1.format(top="/", place="/sys/fs/cgroup/cpu", controllers="cpu,cpuacct")
    return cpu + V1.format(top=top, place=place, controllers="memory")


def v2(top: str = "/", place: str = UNIFIED) -> str:
    return V2.format(top=top, place=place)


CASES: dict[str, tuple[str, str, dict[str, str | int], Limit]] = {
    "v1, the leaf": (
        "9:cpu,cpuacct:/other\n4:memory:/slurm/job_7\n0::/\n", v1(),
        {f"{MEMORY}/memory.limit_in_bytes": NONE, f"{MEMORY}/slurm/memory.limit_in_bytes": NONE,
         f"{MEMORY}/slurm/job_7/memory.limit_in_bytes": 650},
        Limit(650, "memory.limit_in_bytes of the cgroup /slurm/job_7"),
    ),
    "v1, above the leaf": (
        "4:memory:/slurm/job_7/step_0\n", v1(),
        {f"{MEMORY}/slurm/job_7/step_0/memory.limit_in_bytes": NONE,
         f"{MEMORY}/slurm/job_7/memory.limit_in_bytes": 900},
        Limit(900, "memory.limit_in_bytes of the cgroup /slurm/job_7"),
    ),
    "v1, above what a container sees": (
        "4:memory:/\n", v1(),
        {f"{MEMORY}/memory.limit_in_bytes": NONE,
         f"{MEMORY}/memory.stat": "cache 1\nhierarchical_memory_limit 700\n"},
        Limit(700, "the memory limit above the cgroup /"),
    ),
    "v1, a container without a namespace": (
        "4:memory:/docker/abc\n", v1("/docker/abc"),
        {f"{MEMORY}/memory.limit_in_bytes": 800},
        Limit(800, "memory.limit_in_bytes of the cgroup /docker/abc"),
    ),
    "v1, mounted over another": (
        "4:memory:/lab\n", v1() + v1("/lab"),
        {f"{MEMORY}/memory.limit_in_bytes": 500, f"{MEMORY}/lab/memory.limit_in_bytes": 1},
        Limit(500, "memory.limit_in_bytes of the cgroup /lab"),
    ),
    "v2, systemd": (
        "0::/user.slice/run-1.scope\n", v2(),
        {f"{UNIFIED}/user.slice/memory.max": "max\n",
         f"{UNIFIED}/user.slice/run-1.scope/memory.max": 600,
         f"{UNIFIED}/user.slice/run-1.scope/memory.high": "max\n"},
        Limit(600, "memory.max of the cgroup /user.slice/run-1.scope"),
    ),
    "v2, throttled above": (
        "0::/a/b\n", v2(),
        {f"{UNIFIED}/a/memory.high": 400, f"{UNIFIED}/a/memory.max": 500,
         f"{UNIFIED}/a/b/memory.max": "max\n"},
        Limit(400, "memory.high of the cgroup /a"),
    ),
    "v2, in a namespace": (
        "0::/\n", v2(), {f"{UNIFIED}/memory.max": 300},
        Limit(300, "memory.max of the cgroup /"),
    ),
    "v2, a namespace whose mount is older": (
        "0::/\n", v2("/../.."), {f"{UNIFIED}/memory.max": 350},
        Limit(350, "memory.max of the cgroup /../.."),
    ),
    "hybrid: v1 has the memory": (
        "4:memory:/a\n0::/user.slice\n", v1() + v2(place="/sys/fs/cgroup/unified"),
        {f"{MEMORY}/a/memory.limit_in_bytes": 250},
        Limit(250, "memory.limit_in_bytes of the cgroup /a"),
    ),
    "hybrid: v2 has the memory": (
        "4:cpu:/a\n0::/b\n", v1() + v2(place="/sys/fs/cgroup/unified"),
        {f"{MEMORY}/memory.limit_in_bytes": 1, "/sys/fs/cgroup/unified/b/memory.max": 240},
        Limit(240, "memory.max of the cgroup /b"),
    ),
    "mounted elsewhere, with a space": (
        "0::/a\n", v2(place=r"/run/my\040groups"), {"/run/my groups/a/memory.max": 200},
        Limit(200, "memory.max of the cgroup /a"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_least_on_the_way_up_holds(tmp_path: Path, case: str) -> None:
    cgroup, mounts, files, limit = CASES[case]
    assert memory_limits.of_run(tree(tmp_path, cgroup, mounts, files)) == limit


def test_without_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    unlimited: dict[str, str | int] = {f"{MEMORY}/memory.limit_in_bytes": NONE}
    for files in ({}, unlimited):
        found = memory_limits.of_run(tree(tmp_path, "4:memory:/\n", v1(), files))
        assert found.source == "the machine's memory"
        assert found.bytes > 1 << 28
    assert memory_limits.groups(tmp_path / "nowhere") == []


def test_kills_are_counted_in_every_group(tmp_path: Path) -> None:
    files: dict[str, str | int] = {
        f"{MEMORY}/a/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        f"{MEMORY}/memory.oom_control": "oom_kill 1\n",
        "/sys/fs/cgroup/unified/b/memory.events": "low 0\noom 9\noom_kill 20\n",
        "/proc/vmstat": "nr_free_pages 7\noom_kill 100\n",
    }
    mounts = v1() + v2(place="/sys/fs/cgroup/unified")
    root = tree(tmp_path, "4:memory:/a\n0::/b\n", mounts, files)
    assert memory_limits.kills(root) == 124
    assert memory_limits.kills(tmp_path / "nowhere") == 0


def test_limits_of_a_process_are_read() -> None:
    script = (
        "import resource; from uttermill.tasks.base import memory_limits as m\n"
        "for kind in (resource.RLIMIT_RSS, resource.RLIMIT_DATA):\n"
        "    resource.setrlimit(kind, (10**8, resource.getrlimit(kind)[1]))\n"
        "print(m.of_process(resource.RLIMIT_DATA), *m.of_run())\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "100000000 100000000 ulimit -m"
