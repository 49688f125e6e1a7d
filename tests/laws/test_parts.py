"""A large version: tables in parts, planned in pieces. The threshold is lowered here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.base import shelves
from uttermill.tasks.publish import previous_version
from uttermill.tasks.publish.ledger import layout as ledger_layout
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.publish.writing import table_parts
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.shard_store.manifest import shards
from uttermill.tasks.storage import versions

FEW = {"table_rows": 2, "tar_hours": 2.0 / 3600, "max_removed_fraction": 1.0}
TABLES = ("utterances.parquet", "ledger.parquet")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("parts")
    corpus.make(tmp / "in", 16)
    (tmp / "in" / "copy.wav").write_bytes((tmp / "in" / "r01.wav").read_bytes())
    (tmp / "in" / "broken.wav").write_bytes(b"RIFF")
    return tmp


@pytest.fixture
def home(source: Path, tmp_path: Path) -> Path:
    shutil.copytree(source / "in", tmp_path / "in")
    return tmp_path


def job(home: Path, out: str = "out", **changes: Any) -> Any:
    package = {**FEW, "max_failed_fraction": 1.0, **changes.pop("package", {})}
    chosen = {"filter": corpus.filters({"use": "duplicate"}, min=0.8), **changes}
    return corpus.job(home, out=home / out, package=package, **chosen)


def rows(version: Path, name: str) -> pa.Table:
    return pq.read_table(version / name)


def test_a_folder_of_parts_is_read_as_one_table(home: Path) -> None:
    many, counts = corpus.run(job(home))
    one, counts_of_one = corpus.run(job(home, "one", package={"table_rows": 1000}))
    assert (
        counts["package"] == counts_of_one["package"] == (many.summary["utterances"]["packaged"], 0)
    )
    for name in TABLES:
        assert (one.path / name).is_file()
        assert len(list((many.path / name).iterdir())) > 2
        assert rows(many.path, name).schema == rows(one.path, name).schema
    assert rows(many.path, TABLES[0]).equals(rows(one.path, TABLES[0])), "tars have one order"
    by = [(name, "ascending") for name in ("recording", "start", "end", "utterance")]
    assert rows(many.path, TABLES[1]).sort_by(by).equals(rows(one.path, TABLES[1]).sort_by(by))
    described: list[Any] = [versions.described(v.path) for v in (many, one)]
    assert [each["tables"]["one_file_up_to_rows"] for each in described] == [2, 1000]
    for name in ("utterances", "seconds", "reasons", "hours", "splits", "durations", "balance"):
        assert described[0][name] == described[1][name]
    others = [
        {k: v for k, v in corpus.content(v.path).items() if k.startswith("wenet/")}
        for v in (many, one)
    ]
    assert others[0] == others[1]
    assert verify(many.path) == []


@pytest.mark.full
def test_the_recordings_of_a_portion_do_not_depend_on_work_shards(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = corpus.run(job(home))
    monkeypatch.setattr(shard_batches, "AT_ONCE", 2)
    small = job(home, "small", shard={"settle_seconds": 0, "hours": 1.0 / 3600})
    second, _ = corpus.run(small)
    assert len(shards(small.out)) > 8
    assert corpus.content(first.path) == corpus.content(second.path)


@pytest.mark.full
def test_a_night_links_the_parts_that_stay(home: Path) -> None:
    one, _ = corpus.run(job(home))
    corpus.add(home / "in", 20)
    two, counts = corpus.run(job(home))
    assert counts["package"][0] == 1
    then, now = (
        {p.name: p.stat().st_ino for p in (v.path / TABLES[0]).iterdir()} for v in (one, two)
    )
    assert len(then.items() - now.items()) <= 1, "only the last one was not full"
    assert len(now) in (len(then), len(then) + 1)
    again = job(home, "again")
    shutil.rmtree(again.out, ignore_errors=True)
    (home / "in" / "r20.wav").rename(home / "r20.wav")
    corpus.run(again)
    (home / "r20.wav").rename(home / "in" / "r20.wav")
    assert corpus.content(corpus.run(again)[0].path) == corpus.content(two.path)
    assert verify(two.path) == []


@pytest.mark.full
@pytest.mark.parametrize(
    "package", [tiers.nightly({}), {"splits": {"test": 0.3}, "weights": {"c": 0.8}}]
)
def test_growing_and_shrinking_in_all_formats(home: Path, package: dict[str, Any]) -> None:
    chosen = {**package, "formats": shelves.names("formats")}
    for step in range(4):
        if step == 1:
            corpus.add(home / "in", 21)
        if step == 2:
            (home / "in" / "r03.wav").unlink()
        if step == 3:
            for number in (5, 6, 7, 8):
                (home / "in" / f"r{number:02d}.wav").unlink()
        many, _ = corpus.run(job(home, package=chosen))
        one, _ = corpus.run(job(home, "one", package={**chosen, "table_rows": 1000}))
        assert verify(many.path) == []
        left, right = corpus.content(many.path), corpus.content(one.path)
        skipped = (*TABLES, "dataset.json", "README.md", "croissant.json")  # of settings and tables
        for content in (left, right):
            for name in [n for n in content if n.startswith(skipped)]:
                del content[name]
        assert left == right
        assert rows(many.path, TABLES[0]).equals(rows(one.path, TABLES[0]))


@pytest.mark.full
def test_without_what_is_noted_the_bytes_are_the_same(home: Path) -> None:
    """The notes on the newest version only save reading it."""
    for out in ("out", "bare"):
        corpus.run(job(home, out))
    corpus.add(home / "in", 22)
    shutil.rmtree(previous_version.home(home / "bare"))
    shutil.rmtree(shard_batches.home(home / "bare"))
    two, bare = (corpus.run(job(home, out))[0] for out in ("out", "bare"))
    assert corpus.content(two.path) == corpus.content(bare.path)
    assert bare.linked == two.linked


@pytest.mark.full
def test_growing_beyond_the_threshold(home: Path) -> None:
    """A version of single files is followed by one of parts, and the other way round."""
    small = job(home, package={"table_rows": 1000})
    corpus.run(small)
    corpus.add(home / "in", 24)
    many, counts = corpus.run(job(home))
    assert (many.path / TABLES[0]).is_dir()
    assert counts["package"][0] == 1, "tars stay"
    assert verify(many.path) == []
    corpus.add(home / "in", 25)
    one, counts = corpus.run(small)
    assert (one.path / TABLES[0]).is_file()
    assert counts["package"][0] == 1
    assert verify(one.path) == []


@pytest.mark.full
def test_a_recording_that_left_stays_in_the_ledger(home: Path) -> None:
    corpus.run(job(home))
    for number in (2, 9):
        (home / "in" / f"r{number:02d}.wav").unlink()
    two, _ = corpus.run(job(home))
    ledger = rows(two.path, "ledger.parquet").to_pylist()
    gone = [row["recording"] for row in ledger if row["reason"] == "source_removed"]
    assert sorted(gone) == ["c/r02.wav", "c/r09.wav"]
    corpus.add(home / "in", 26)
    three, _ = corpus.run(job(home, package={"table_rows": 1000}))
    ledger = rows(three.path, "ledger.parquet").to_pylist()
    assert sorted(r["recording"] for r in ledger if r["reason"] == "source_removed") == gone


def test_sizes() -> None:
    assert [ledger_layout.count_for(n, 100) for n in (0, 100, 101, 200, 201, 801)] == [
        1, 1, 2, 2, 4, 16,
    ]  # fmt: skip
    assert table_parts.tars_of_part(PackageSettings()) == 128
    assert table_parts.tars_of_part(PackageSettings(tar_hours=100.0)) == 1
