"""The whole line over sources that mean harm: it ends well, and nothing but OUT was touched."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import fuzz, hostile
from uttermill.tasks.publish.upkeep.verify import verify

ROOT = Path(__file__).parents[2]
DAMAGED = 30
MEMORY = 1 << 30  # bytes: the peak of the whole process, imports of 0.3 GB included


def snapshot(folder: Path, besides: Path) -> dict[str, tuple[Any, ...]]:
    """Every entry under a folder: kind, size, time, content."""
    found = {}
    for above, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if Path(above, name) != besides]
        for name in (*folders, *files):
            path = os.path.join(above, name)
            status = os.lstat(path)
            regular = os.path.isfile(path) and not os.path.islink(path)
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest() if regular else ""
            time = 0 if os.path.isdir(path) and path.endswith("tmp") else status.st_mtime_ns
            found[path] = (status.st_mode, status.st_size, time, content)
    return found


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], bool]:
    """(OUT, the watched process's report, whether all besides OUT is as it was)."""
    home = tmp_path_factory.mktemp("hostile")
    canary = home / "around" / "canary.wav"
    canary.parent.mkdir()
    canary.write_bytes(hostile.wav(99))
    (home / "tmp").mkdir()
    out = home / "out"
    sources = hostile.build(home / "around" / "in", canary, fuzz.count(DAMAGED))
    data = {
        "sources": sources, "out": str(out), "shard": {"settle_seconds": 0},
        # Tars hold one clip's bytes many times: each must be reached.
        "filter": {"segmenter": {"use": "whole"}, "duplicate_files": "keep"},
        "transcribe": {"backend": {"use": "fake"}},
    }  # fmt: skip
    settings = home / "settings.json"
    settings.write_text(json.dumps(data))
    before = snapshot(home, out)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.helpers.hostile", str(settings)],
        cwd=ROOT, timeout=1100, check=False, capture_output=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(home / "around"), "TMPDIR": str(home / "tmp"),
             "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-3000:]
    return out, json.loads(ended.stdout.splitlines()[-1]), snapshot(home, out) == before


@pytest.mark.nightly
def test_nothing_outside_out_is_touched(done: tuple[Path, dict[str, Any], bool]) -> None:
    out, report, untouched = done
    assert untouched
    temporary = f"{out.parent}/tmp"  # also opened itself, for a file without a name
    inside = (f"{out}/", f"{temporary}/")
    away = [
        p
        for p in report["changed"]
        if not p.startswith(inside) and p not in (str(out), temporary, "/dev/null")
    ]
    assert away == []
    assert report["changed"], "the watch saw nothing at all"


@pytest.mark.full
def test_nothing_is_run_unpickled_or_connected_to(done: tuple[Path, dict[str, Any], bool]) -> None:
    assert done[1]["forbidden"] == []


@pytest.mark.full
def test_memory_stays_bounded(done: tuple[Path, dict[str, Any], bool]) -> None:
    assert done[1]["peak"] < MEMORY


@pytest.mark.full
def test_the_books_balance_and_the_good_clips_are_there(
    done: tuple[Path, dict[str, Any], bool],
) -> None:
    out, report, _ = done
    assert verify(Path(report["dataset"])) == []
    ledger = pq.read_table(out / "datasets/latest/ledger.parquet").to_pylist()
    packaged = {row["recording"] for row in ledger if row["outcome"] == "packaged"}
    assert {f"s0/good{n}.wav" for n in range(5)} <= packaged
    assert "s1/evil.tar/good.wav" in packaged
    failed = {row["recording"]: row["reason"] for row in ledger if row["outcome"] == "failed"}
    assert failed["s0/x.wav"] == "unreadable"
    assert "hunter2" not in json.dumps(ledger)


def test_no_listed_file_of_the_system_became_audio(done: tuple[Path, dict[str, Any], bool]) -> None:
    """What a list names may lie anywhere; what is not audio is failed, and pipes are not run."""
    out, _, _ = done
    ledger = pq.read_table(out / "datasets/latest/ledger.parquet").to_pylist()
    reasons = {row["recording"]: row["reason"] for row in ledger if row["outcome"] == "failed"}
    assert {reasons["s2/k0"], reasons["s2/k1"], reasons["s2/k5"]} == {"unsupported"}
    assert reasons["s2/k7"] == "unreadable"  # /dev/zero
