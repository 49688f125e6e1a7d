"""The ledger of a large corpus: parts that a night does not touch stay, and parts stay few."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.accounting.summary import REMOVED
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.base.schema import LEDGER, LEDGER_FILE
from uttermill.tasks.corpus import rejections
from uttermill.tasks.publish import previous_version, row_digests
from uttermill.tasks.publish.ledger import layout as ledger_layout
from uttermill.tasks.publish.ledger import rows as ledger_rows
from uttermill.tasks.publish.outcomes import recording_digests
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import versions

FEW = {"table_rows": 12, "max_removed_fraction": 1.0, "max_failed_fraction": 1.0}


def job(home: Path, out: str = "out", **changes: Any) -> Any:
    package = {**FEW, **changes.pop("package", {})}
    chosen = {"filter": corpus.filters({"use": "duplicate"}, min=0.8), **changes}
    return corpus.job(home, out=home / out, package=package, **chosen)


def inodes(version: Path) -> dict[int, str]:
    return {path.stat().st_ino: path.name for path in (version / LEDGER_FILE).iterdir()}


def ledger(version: Path) -> pa.Table:
    by = [(name, "ascending") for name in ("recording", "start", "end", "utterance")]
    return pq.read_table(version / LEDGER_FILE).sort_by(by)


@pytest.mark.full
def test_a_night_writes_what_is_new(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 40)
    one, _ = corpus.run(job(tmp_path))
    then = inodes(one.path)
    assert len(then) > 2
    corpus.add(tmp_path / "in", 50)
    two, _ = corpus.run(job(tmp_path))
    now = inodes(two.path)
    assert then.items() <= now.items()
    [new] = now.keys() - then.keys()
    rows = pq.read_table(two.path / LEDGER_FILE / now[new])
    assert pc.unique(rows["recording"]).to_pylist() == ["c/r50.wav"]
    assert verify(two.path) == []


@pytest.mark.full
def test_parts_hold_what_one_file_holds(tmp_path: Path) -> None:
    """Recordings come, change, leave and come back; thresholds change, notes are lost."""
    corpus.make(tmp_path / "in", 40)
    (tmp_path / "in" / "broken.wav").write_bytes(b"RIFF")
    aside = tmp_path / "aside.wav"
    shorter = corpus.filters({"use": "duplicate"}, min=0.4)
    for night in range(7):
        changes: dict[str, Any] = {}
        if night == 1:
            corpus.add(tmp_path / "in", 60)
            (tmp_path / "in" / "r05.wav").rename(aside)
        if night == 2:
            shutil.copyfile(tmp_path / "in" / "r60.wav", tmp_path / "in" / "r07.wav")
        if night == 3:
            aside.rename(tmp_path / "in" / "r05.wav")
        if night == 4:
            changes = {"filter": shorter}
        if night == 5:
            shutil.rmtree(previous_version.home(tmp_path / "out"))
            corpus.add(tmp_path / "in", 61)
        if night == 6:
            changes = {"package": {"weights": {"c": 0.7}}}
            corpus.add(tmp_path / "in", 62)
        many, _ = corpus.run(job(tmp_path, **changes))
        package = {**changes.pop("package", {}), "table_rows": 10_000}
        one, _ = corpus.run(job(tmp_path, "one", package=package, **changes))
        assert (many.path / LEDGER_FILE).is_dir()
        assert (one.path / LEDGER_FILE).is_file()
        assert ledger(many.path).equals(ledger(one.path)), night
        assert verify(many.path) == []
        if night in (1, 2):
            left = pc.equal(ledger(many.path)["reason"], REMOVED)
            assert pc.sum(left).as_py() == 1


@pytest.mark.full
def test_many_nights_leave_few_parts(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 16)
    written = 0
    before: dict[int, str] = {}
    for night in range(16):
        corpus.add(tmp_path / "in", 16 + night)
        version = corpus.run(job(tmp_path, package={"keep": 2}))[0].path
        now = inodes(version)
        written += sum(
            pq.read_metadata(version / LEDGER_FILE / now[n]).num_rows for n in now.keys() - before
        )
        before = now
    rows = ledger(version).num_rows
    assert rows == 32
    assert len(before) <= 7 + rows // 8, "seven small ones, and full ones"
    assert written < 4 * rows, "each row is written a few times"
    assert len(versions.all_of(tmp_path / "out")) == 2


@pytest.mark.full
def test_a_damaged_part_is_found_when_its_turn_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Size, time and inode are those of what was published: only reading finds it."""
    corpus.make(tmp_path / "in", 40)
    one, _ = corpus.run(job(tmp_path))
    victim = min((one.path / LEDGER_FILE).iterdir())
    told = victim.stat()
    corpus.flip(victim, told.st_size // 2)
    os.utime(victim, ns=(told.st_atime_ns, told.st_mtime_ns))
    corpus.add(tmp_path / "in", 50)
    monkeypatch.setattr(previous_version, "EVERY", 1)
    with pytest.raises(RunError, match=r"part-00000.parquet of v0001 is not the file"):
        corpus.run(job(tmp_path))


def test_joining_keeps_parts_few_and_small() -> None:
    chance = random.Random(3)
    sizes: list[int] = []
    written = 0
    for _ in range(3000):
        sizes.append(chance.randint(1, 40))
        runs = ledger_layout.joined(sizes, 2000)
        assert sorted(index for run in runs for index in run) == [*range(len(sizes))]
        written += sizes[-1] + sum(sum(sizes[n] for n in run) for run in runs if len(run) > 1)
        sizes = [sum(sizes[n] for n in run) for run in runs]
        assert max(sizes) <= 2000
    assert len(sizes) < 4 * 7 + 2 * sum(sizes) / 2000
    assert written < 5 * sum(sizes)
    assert ledger_layout.joined([5000, 5000], 2000) == [[0], [1]]


def test_a_verdict_changes_the_digest_of_its_recording_alone() -> None:
    def row(recording: str, start: float, **more: Any) -> dict[str, Any]:
        told = {"recording": recording, "utterance": f"{recording}{start}", "start": start}
        packaged = {"outcome": "packaged", "stage": "package", "reason": "packaged"}
        return {**dict.fromkeys(LEDGER.names), "overlap_samples": 0, **told, **packaged, **more}

    names = [("a", 0.0), ("a", 1.0), ("b", 0.0), ("c", 0.0)]
    rows = pa.Table.from_pylist([row(*each) for each in names], schema=LEDGER)
    before = recording_digests.of_ledger(rows)
    said = {"outcome": "dropped", "stage": "filter", "reason": "duplicate", "value": 1.0}
    told = [{"id": each, **said} for each in ("a1.0", "b0.0")]
    verdicts = pa.Table.from_pylist(told, schema=rejections.OUTCOMES)
    after = recording_digests.of_ledger(ledger_rows.with_outcomes(rows, verdicts))
    assert before["key"].equals(after["key"])
    keys = recording_digests.keys_of(pa.chunked_array([["a", "b"]])).tolist()
    changed = [
        key
        for key, then, now in zip(
            *(before[n].to_pylist() for n in ("key", "digest")),
            after["digest"].to_pylist(),
            strict=True,
        )
        if then != now
    ]
    assert sorted(changed) == sorted(keys)


def test_a_column_that_is_new_changes_only_the_digests_of_rows_that_hold_something() -> None:
    """So that ledgers of before, which lack it, stay as they are."""
    row = {**dict.fromkeys(LEDGER.names), "recording": "a", "overlap_samples": 0}
    numbers = ((None, None), (None, 0), (None, 1), (1, None), (1, 1))
    parts = [{**row, "track": track, "channel": channel} for track, channel in numbers]
    names = [name for name in LEDGER.names if name not in row_digests.LATER]

    def folded(rows: list[dict[str, Any]], columns: list[str]) -> list[int]:
        table = pa.Table.from_pylist(rows, schema=LEDGER)
        start = np.zeros(len(rows), np.uint64)
        digests: list[int] = row_digests.folded(start, table, columns).tolist()
        return digests

    plain = folded(parts[:1], names)
    assert folded(parts[:1], LEDGER.names) == plain
    assert len({*folded(parts, LEDGER.names)}) == len(parts)
