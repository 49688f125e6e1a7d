"""The tables of a version: each one file, written whole; row groups of whole tars or recordings."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.accounting.summary import REMOVED
from uttermill.tasks.base import shelves
from uttermill.tasks.base.schema import LEDGER_FILE, UTTERANCES_FILE
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import queries, tables, versions

LOOSE = {"tar_hours": 2.0 / 3600, "max_removed_fraction": 1.0, "max_failed_fraction": 1.0}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("tables")
    corpus.make(tmp / "in", 16)
    (tmp / "in" / "copy.wav").write_bytes((tmp / "in" / "r01.wav").read_bytes())
    (tmp / "in" / "broken.wav").write_bytes(b"RIFF")
    return tmp


@pytest.fixture
def home(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source / "in", tmp_path / "in")
    return tmp_path


def job(home: Path, out: str = "out", **changes: Any) -> Any:
    package = {**LOOSE, **changes.pop("package", {})}
    chosen = {"filter": corpus.filters({"use": "duplicate"}, min=0.8), **changes}
    return corpus.job(home, out=home / out, package=package, **chosen)


def row_groups(path: Path) -> list[pa.Table]:
    with pq.ParquetFile(path) as file:
        return [file.read_row_group(number) for number in range(file.num_row_groups)]


@pytest.mark.nightly
def test_a_row_group_has_whole_tars_or_recordings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = corpus.run(job(home))[0].path
    monkeypatch.setattr(tables, "ROWS", 2)
    monkeypatch.setattr(queries, "AT_ONCE", 3)
    monkeypatch.setattr(queries, "HELD", 0)
    monkeypatch.setattr(queries, "FEW", 0)
    small = corpus.run(job(home, "small"))[0].path
    assert verify(small) == []
    for name, column in ((UTTERANCES_FILE, "shard"), (LEDGER_FILE, "recording")):
        groups = row_groups(small / name)
        assert len(groups) > 2
        assert all(group.num_rows >= 2 for group in groups[:-1])
        for one, other in pairwise(groups):
            assert one[column][-1] != other[column][0]
        assert len(row_groups(whole / name)) == 1
        assert pa.concat_tables(groups).equals(pq.read_table(whole / name))
    described: list[Any] = [versions.described(version) for version in (whole, small)]
    for name in ("utterances", "seconds", "reasons", "hours", "splits", "durations", "balance"):
        assert described[0][name] == described[1][name]


@pytest.mark.parametrize(
    "package", [tiers.nightly({}), {"splits": {"test": 0.3}, "weights": {"c": 0.8}}]
)
@pytest.mark.nightly
def test_growing_and_shrinking_in_all_formats(
    home: Path, monkeypatch: pytest.MonkeyPatch, package: dict[str, Any]
) -> None:
    chosen = {**package, "formats": shelves.names("formats")}
    for step in range(4):
        if step == 1:
            corpus.add(home / "in", 21)
        if step == 2:
            (home / "in" / "r03.wav").unlink()
        if step == 3:
            for number in (5, 6, 7, 8):
                (home / "in" / f"r{number:02d}.wav").unlink()
        with monkeypatch.context() as few:
            few.setattr(tables, "ROWS", 2)
            small, _ = corpus.run(job(home, package=chosen))
        whole, _ = corpus.run(job(home, "whole", package=chosen))
        assert verify(small.path) == []
        assert small.linked == whole.linked
        assert small.linked or not step
        left, right = corpus.content(small.path), corpus.content(whole.path)
        skipped = (UTTERANCES_FILE, LEDGER_FILE, "dataset.json", "croissant.json")  # of the tables
        for content in (left, right):
            for name in [n for n in content if n.startswith(skipped)]:
                del content[name]
        assert left == right


@pytest.mark.nightly
def test_a_ledger_continues_the_one_before(home: Path) -> None:
    """Recordings come, change, leave and come back; the ledger is that of a first version, and a
    row for each recording that has left."""
    aside = home / "aside.wav"
    for night in range(5):
        changes: dict[str, Any] = {}
        if night == 1:
            corpus.add(home / "in", 60)
            (home / "in" / "r05.wav").rename(aside)
        if night == 2:
            corpus.add(home / "in", 7, seed=70)
        if night == 3:
            aside.rename(home / "in" / "r05.wav")
        if night == 4:
            (home / "in" / "r09.wav").unlink()
            changes = {"package": {"weights": {"c": 0.7}}}
        grown, _ = corpus.run(job(home, **changes))
        fresh, _ = corpus.run(job(home, f"fresh{night}", **changes))
        ledger = pq.read_table(grown.path / LEDGER_FILE)
        left = pc.equal(ledger["reason"], REMOVED)
        gone = {1: ["c/r05.wav"], 2: ["c/r05.wav"], 4: ["c/r09.wav"]}.get(night, [])
        assert ledger.filter(left)["recording"].to_pylist() == gone
        assert ledger.filter(pc.invert(left)).equals(pq.read_table(fresh.path / LEDGER_FILE))
        assert verify(grown.path) == []
