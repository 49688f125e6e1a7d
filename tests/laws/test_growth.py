"""From version to version: what is written again, what stays, and how even the tars are."""

import json
import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import corpus, tiers
from tests.helpers.published import laid_out
from uttermill.tasks import plugins
from uttermill.tasks.accounting.summary import seconds_of
from uttermill.tasks.publish.output_shards import format_shards, layout
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.storage import queries

TAR = {"tar_hours": 3.0 / 3600}  # so that ten short recordings fill several tars


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve recordings and one version of them in several tars; never changed."""
    tmp = tmp_path_factory.mktemp("growth")
    corpus.make(tmp / "in", 12)
    corpus.run(corpus.job(tmp, package=TAR))
    return tmp


@pytest.fixture
def own(first: Path, tmp_path: Path) -> Path:
    """A copy of it; recordings keep their times."""
    shutil.copytree(first / "in", tmp_path / "in")
    corpus.run(corpus.job(tmp_path, package=TAR))
    return tmp_path


def tars(version: Path) -> dict[str, int]:
    """Inode of each tar."""
    return {p.name: p.stat().st_ino for p in sorted(version.rglob("*.tar"))}


def held(version: Path) -> dict[str, list[str]]:
    """Recordings in each tar."""
    found = defaultdict(list)
    for row in corpus.utterances(version):
        found[row["shard"].rpartition("/")[2]].append(row["recording"])
    return found


def seconds(version: Path) -> list[float]:
    rows = corpus.utterances(version)
    loads: dict[str, float] = defaultdict(float)
    for row in rows:
        loads[row["shard"]] += row["num_samples"] / row["sample_rate"]
    return list(loads.values())


@pytest.mark.nightly
def test_new_recordings_get_tars_of_their_own(own: Path) -> None:
    one = own / "out/datasets/v0001"
    before = tars(one)
    assert len(before) >= 4
    corpus.add(own / "in", 12)
    two, counts = corpus.run(corpus.job(own, package=TAR))
    assert counts["package"] == (1, 12)
    assert (two.written, two.linked) == (1, len(before))
    after = tars(two.path)
    assert before.items() < after.items(), "an old tar was written again"
    assert list(held(two.path).values())[-1] == ["c/r12.wav"]
    rows = pq.read_table(two.path / "utterances.parquet")
    assert rows["generation"].to_pylist() == [1] * 12 + [2]
    assert verify(two.path) == []
    assert verify(one) == []
    # The old version can go; its files live on in the new one.
    shutil.rmtree(one)
    assert verify(two.path) == []


@pytest.mark.full
def test_a_gone_recording_costs_its_tar_only(own: Path) -> None:
    one = own / "out/datasets/v0001"
    before, where = tars(one), held(one)
    name = next(name for name, recordings in where.items() if "c/r03.wav" in recordings)
    (own / "in/r03.wav").unlink()
    two, _ = corpus.run(corpus.job(own, package=TAR))
    after = tars(two.path)
    assert len(where[name]) > 1
    assert {n for n in after if after[n] != before[n]} == {name}
    assert held(two.path)[name] == [r for r in where[name] if r != "c/r03.wav"]
    assert verify(two.path) == []


@pytest.mark.full
def test_an_emptied_tar_leaves_no_gap_in_the_numbers(own: Path) -> None:
    one = own / "out/datasets/v0001"
    before, where = tars(one), held(one)
    name = sorted(where)[1]
    for recording in where[name]:
        (own / "in" / recording.removeprefix("c/")).unlink()
    package = {**TAR, "max_removed_fraction": 1.0}
    two, counts = corpus.run(corpus.job(own, package=package))
    assert counts["package"][0] == 0, "only names moved"
    assert sorted(tars(two.path)) == sorted(before)[:-1]
    assert sorted(tars(two.path).values()) == sorted(i for n, i in before.items() if n != name)
    assert verify(two.path) == []


@pytest.mark.full
def test_a_new_text_rewrites_its_tar_only(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 8)
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    corpus.listed(tmp_path / "in", 8, tmp_path / "list.jsonl")
    corpus.run(corpus.job(tmp_path, sources=source, package=TAR))
    before = tars(tmp_path / "out/datasets/v0001")
    corpus.listed(tmp_path / "in", 8, tmp_path / "list.jsonl", r05="quite other words")
    two, counts = corpus.run(corpus.job(tmp_path, sources=source, package=TAR))
    assert counts["filter"] == counts["resample"] == counts["transcribe"] == (0, 8)
    after = tars(two.path)
    assert [before[n] == after[n] for n in before].count(False) == 1
    assert verify(two.path) == []


@pytest.mark.full
def test_without_hard_links_files_are_copied(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    corpus.add(own / "in", 12)
    two, counts = corpus.run(corpus.job(own, package=TAR))
    assert counts["package"] == (1, 12)
    assert verify(two.path) == []


@pytest.mark.parametrize(
    "change",
    [
        {"rebalance": "full"},
        tiers.nightly({"seed": 1}),
        tiers.nightly({"tar_hours": 2.0 / 3600}),
        {"readers": 3},
    ],
)
@pytest.mark.nightly
def test_a_full_layout_deals_all_anew(own: Path, change: dict[str, Any]) -> None:
    corpus.add(own / "in", 12)
    package = {**TAR, **change}
    two, counts = corpus.run(corpus.job(own, package=package))
    assert counts["package"] == (13, 0)
    fresh, _ = corpus.run(corpus.job(own, out=own / "fresh", package=package))
    assert held(two.path) == held(fresh.path), "the versions before show through"
    loads = seconds(two.path)
    assert max(loads) - min(loads) <= corpus.seconds_of(12)
    if "readers" in change:
        assert len(loads) % 3 == 0
    assert not corpus.run(corpus.job(own, package=package))[0].new


@pytest.mark.nightly
def test_a_split_of_many_tars_has_larger_ones_from_there_on(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are there stay."""
    before = seconds(own / "out/datasets/v0001")
    monkeypatch.setattr(layout, "MOST_TARS", len(before) // 2)
    for number in range(12, 32):
        corpus.add(own / "in", number)
    two, _ = corpus.run(corpus.job(own, package=TAR))
    loads = seconds(two.path)
    assert loads[: len(before)] == before
    added = loads[len(before) :]
    whole = sum(loads) / layout.MOST_TARS
    assert len(added) == round(sum(added) / whole)
    assert min(added) > 3 * max(before)
    fresh, _ = corpus.run(corpus.job(own, out=own / "fresh", package=TAR))
    assert len(seconds(fresh.path)) == layout.MOST_TARS


@pytest.mark.nightly
def test_too_few_clips_for_the_readers_are_no_reason_to_write_all(own: Path) -> None:
    package = {**TAR, "readers": 16}
    corpus.run(corpus.job(own, package=package))
    corpus.add(own / "in", 12)
    _, counts = corpus.run(corpus.job(own, package=package))
    assert counts["package"] == (1, 12)


@pytest.mark.nightly
def test_uneven_readers_are_dealt_anew(own: Path) -> None:
    """Without the limit one reader would get nothing of what was added."""
    package = {**TAR, "readers": 2, "rebalance_above": 0.01}
    corpus.run(corpus.job(own, package=package))
    corpus.add(own / "in", 30)
    loose = corpus.job(own, package={**package, "rebalance_above": 100.0})
    grown, counts = corpus.run(loose)
    uneven = grown.balance["worst_reader_extra_fraction"]
    assert counts["package"][1] == 12
    assert uneven > 0.01
    even, counts = corpus.run(corpus.job(own, package=package))
    assert counts["package"] == (13, 0)
    assert even.balance["worst_reader_extra_fraction"] < uneven
    described = json.loads((even.path / "dataset.json").read_text())
    assert described["balance"] == even.balance


@pytest.mark.full
def test_another_release_of_a_format_is_written_anew(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins.FORMATS.load("wenet"), "VERSION", 99)
    two, counts = corpus.run(corpus.job(own, package=TAR))
    assert two.new
    assert counts["package"] == (12, 0)


def rows_of(lengths: list[int]) -> pa.Table:
    return pa.table(
        {
            "id": [f"u{i:05d}" for i in range(len(lengths))],
            "split": ["train"] * len(lengths),
            "num_samples": pa.array(lengths, pa.int64()),
            "sample_rate": pa.array([100] * len(lengths), pa.int32()),
        }
    )


def published(table: pa.Table, groups: list[layout.ShardClips]) -> pa.Table:
    """The table as it would be published with this layout."""
    order = np.concatenate([g.rows for g in groups])
    shards = [f"{g.split}/{g.number}" for g in groups for _ in g.rows]
    generations = [g.generation for g in groups for _ in g.rows]
    return (
        table.take(order)
        .append_column("shard", pa.array(shards))
        .append_column("generation", pa.array(generations, pa.int32()))
    )


@pytest.mark.full
@hypothesis.settings(deadline=None)  # a busy machine is not a fault of the layout
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=60),
    st.lists(st.integers(1, 3000), max_size=40),
    st.sets(st.integers(0, 59)),
)
def test_a_layout_holds_every_clip_once(then: list[int], new: list[int], gone: set[int]) -> None:
    """And each generation is even: two tars differ by no more than the longest clip."""
    settings = PackageSettings(tar_hours=20 / 3600)
    whole = rows_of([*then, *new])
    before_rows = whole.slice(0, len(then))
    first = laid_out(before_rows, settings, 1)
    before = published(before_rows, first)
    kept = [i for i in range(whole.num_rows) if i not in gone or i >= len(then)]
    if not kept:
        return
    table = whole.take(kept)
    groups = laid_out(table, settings, 2, before, settings.model_dump())
    rows = sorted(int(row) for group in groups for row in group.rows)
    assert rows == list(range(table.num_rows))
    assert [g.number for g in groups] == list(range(len(groups)))
    for some, table_ in ((first, before_rows), ([g for g in groups if g.generation == 2], table)):
        loads = [float(seconds_of(table_)[g.rows].sum()) for g in some]
        longest = max((float(seconds_of(table_)[g.rows].max()) for g in some), default=0)
        assert max(loads, default=0) - min(loads, default=0) <= longest + 1e-9
    now = table.take(np.concatenate([g.rows for g in groups]))
    with queries.tables() as database:
        contents = [
            format_shards.contents(database, [rows], rows.schema, {"f": ["id", "num_samples"]})["f"]
            for rows in (now, before)
        ]
    same = format_shards.same_as(groups, *contents)
    assert [number is not None for number in same] == [g.whole for g in groups]
