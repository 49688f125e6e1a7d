"""The limit that holds is found in the control groups, v1 and v2, nested, in namespaces."""

import gc
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import bombs, corpus, sounding
from uttermill.tasks.base import memory_limits
from uttermill.tasks.base.memory_limits import Limit
from uttermill.tasks.base.process_memory import importing
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.recording.limits import FREE_SECONDS, Limits
from uttermill.tasks.settings.job import Job

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


# Limits on the length of a recording and on what its bytes expand to; both are thresholds.


#: r09 has 2.2 s, r08 2.0 s; the rest less.
TWO_SECONDS = 1.9 / 3600


def job(tmp: Path, out: Path | None = None, **limits: float) -> Job:
    source = {"kind": "folder", "path": str(tmp / "in"), "name": "c", "expect_broken": True}
    package = {"max_removed_fraction": 1.0}
    return corpus.job(tmp, out=out or tmp / "out", filter=limits, sources=[source], package=package)


def outcomes(out: Path) -> list[tuple[Any, ...]]:
    rows = corpus.ledger(out / "datasets/latest")
    return sorted(tuple(map(str, row.values())) for row in rows)


def failed(out: Path) -> dict[str, tuple[Any, ...]]:
    rows = corpus.ledger(out / "datasets/latest")
    names = ("stage", "reason", "value", "threshold", "samples")
    return {
        row["recording"]: tuple(row[name] for name in names)
        for row in rows
        if row["outcome"] == "failed"
    }


def mp3s(folder: Path, count: int) -> None:
    """Of 1, 2, 3 ... s: the header of an MP3 from FFmpeg counts nothing that is believed."""
    folder.mkdir(parents=True)
    for number in range(count):
        sound = sounding.sound(16_000, 1, number + 1.0)
        data = sounding.by_ffmpeg("mp3", "libmp3lame", 16_000, sound)
        (folder / f"r{number}.mp3").write_bytes(data)


def test_a_header_that_says_too_much_is_enough(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in")
    published, counts = corpus.run(job(tmp_path, max_hours=TWO_SECONDS))
    assert counts["filter"] == (8, 2)
    assert failed(tmp_path / "out") == {
        f"c/r{n:02d}.wav": ("filter", "too_long", corpus.seconds_of(n) / 3600, TWO_SECONDS, 0)
        for n in (8, 9)
    }
    assert verify(published.path) == []
    rows = corpus.ledger(published.path)
    detail = next(row["detail"] for row in rows if row["recording"] == "c/r09.wav")
    assert detail.endswith("cut it into parts, or raise filter.max_hours")


def test_what_shows_while_decoding_is_stopped_there(tmp_path: Path) -> None:
    mp3s(tmp_path / "in", 4)
    limit = 2.5 / 3600
    corpus.run(job(tmp_path, max_hours=limit))
    past = int(limit * 3600 * 16_000) + 1
    assert failed(tmp_path / "out") == {
        f"c/r{n}.mp3": ("filter", "too_long", past / 16_000 / 3600, limit, past) for n in (2, 3)
    }


@pytest.mark.parametrize("make", [mp3s, corpus.make])
@pytest.mark.nightly
def test_another_limit_decodes_what_was_refused_and_nothing_else(tmp_path: Path, make: Any) -> None:
    """Raised, lowered, and raised to where it was: always what a run from scratch publishes."""
    make(tmp_path / "in", 4)
    seconds = (1.05, 2.05, 1.05, 3.05)
    if make is corpus.make:  # 0.4, 0.6, 0.8 and 1 s
        seconds = (0.5, 0.7, 0.5, 0.9)
    work = []
    for number, limit in enumerate(seconds):
        once = job(tmp_path, out=tmp_path / f"fresh{number}", max_hours=limit / 3600)
        corpus.run(once)
        _, counts = corpus.run(job(tmp_path, max_hours=limit / 3600))
        work.append(counts["filter"][0])
        assert outcomes(tmp_path / "out") == outcomes(once.out)
    assert work == ([1, 1, 0, 1] if make is corpus.make else [4, 3, 0, 2])


def test_silence_beyond_all_encoders_expands_too_much(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    corpus.add(tmp_path / "in", 1)
    bomb = b"".join(bombs.flac(0.18, stated=False))
    (tmp_path / "in" / "bomb.flac").write_bytes(bomb)
    corpus.run(job(tmp_path))
    past = int(FREE_SECONDS * 16_000) + 1
    assert failed(tmp_path / "out") == {
        "c/bomb.flac": ("filter", "expands", past * 2 / len(bomb), 3000.0, past)
    }


@pytest.mark.parametrize(
    ("kind", "channels"), [("flac", 2), ("vorbis", 2), ("opus", 2), ("wavpack", 1), ("m4a", 1)]
)
def test_no_silence_that_an_encoder_writes_expands_too_much(kind: str, channels: int) -> None:
    """WavPack's is the densest: 2,343 at 16 kHz, mono, over ten minutes."""
    silence = np.zeros((20 * 48_000, channels), np.float32)
    if kind in sounding.SNDFILE:
        data = sounding.by_sndfile(*sounding.SNDFILE[kind], 48_000, silence)
    else:
        container, codec, _ = sounding.FFMPEG[kind]
        data = sounding.by_ffmpeg(container, codec, 48_000, silence)
    assert silence.size * 2 / len(data) < 3000
    limits = Limits(48.0, 3000.0)
    hours = 100 * len(silence)  # as if it went on like this
    assert limits.of_decoded(48_000, channels, 100 * len(data), hours) is None


def test_a_short_clip_may_expand_as_it_likes() -> None:
    limits = Limits(48.0, 3000.0)
    free = int(FREE_SECONDS * 8000)
    assert limits.of_decoded(8000, 1, 100, free) is None
    assert limits.of_decoded(8000, 1, 100, free + 1) is not None


def test_a_length_that_ffmpeg_estimates_refuses_nothing() -> None:
    limits = Limits(48.0, 3000.0)
    assert limits.of_header("mp3/mp3float", 16_000, 1, 1 << 20, 1e6) is None
    assert limits.of_header("flac/pcm_16", 16_000, 1, 1 << 30, 1e6) is not None


# What saves memory and time of a process keeps nothing that a later run leaves behind.


def test_a_block_that_imports_nothing_hides_no_garbage() -> None:
    before = gc.get_freeze_count()
    for _ in range(3):
        with importing():
            cycle: list[object] = []
            cycle.append(cycle)
    assert gc.get_freeze_count() == before
    assert gc.isenabled()
