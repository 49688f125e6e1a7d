"""Splits and weights: nobody on two sides, nobody changes sides, and hours near what was asked."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import corpus, fuzz
from uttermill.flows import checks
from uttermill.flows import settings as flow_settings
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.base.schema import SPLITS
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.publish import foreseen, leaks
from uttermill.tasks.publish.choosing import components, next_version, split_input, splits
from uttermill.tasks.publish.choosing.components import SplitTable
from uttermill.tasks.publish.corpus import rejections
from uttermill.tasks.publish.upkeep.verify import split_faults, verify
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.storage import tables

Clip = tuple[str, str, str | None, str, float]  # id, recording, speaker, samples, seconds
NOTHING = SPLITS.empty_table()


def table(clips: list[Clip], texts: dict[str, str] | None = None) -> pa.Table:
    """Rows of `utterances.parquet`, in the order given; the dataset is `c`. `texts` by id."""
    texts = texts or {}
    return pa.table(
        {
            "id": pa.array([c[0] for c in clips], pa.string()),
            "dataset": pa.array(["c"] * len(clips), pa.string()),
            "recording": pa.array([f"c/{c[1]}" for c in clips], pa.string()),
            "channel": pa.array([None] * len(clips), pa.int32()),
            "source_id": pa.array([f"key-{c[0]}" for c in clips], pa.string()),
            "speaker": pa.array([c[2] for c in clips], pa.string()),
            "sha256": pa.array([c[3] for c in clips], pa.string()),
            "num_samples": pa.array([round(c[4] * 100) for c in clips], pa.int64()),
            "sample_rate": pa.array([100] * len(clips), pa.int32()),
            "split": pa.array(["train"] * len(clips), pa.string()),
            "normalised": pa.array([texts.get(c[0]) for c in clips], pa.string()),
        }
    )


def asked(**package: Any) -> PackageSettings:
    return PackageSettings.model_validate(package)


class Assigned(NamedTuple):
    """A `SplitAssignment` whose files were read."""

    names: list[str]
    joins: dict[int, str]  # by the number of the clip, in the order of ids
    table: pa.Table
    lists: JsonObject
    notes: list[str]


def sides(
    clips: list[Clip],
    before: pa.Table = NOTHING,
    texts: dict[str, str] | None = None,
    **package: Any,
) -> tuple[dict[str, str], Assigned]:
    """Split of each clip by id ('' where it is dropped), and everything else; three clips come at a
    time."""
    rows, settings = table(clips, texts), asked(**package)
    with split_input.Candidates(settings) as held:
        for at in range(0, len(rows), 3):
            some = rows.slice(at, 3)
            numbers = np.arange(at, at + len(some), dtype=np.int32)
            held.add(some, numbers, np.zeros(len(some), bool))
        held.finish()
        found = splits.assign(settings, held, held.order, parts_of(before))
        whole = pa.concat_tables(found.table()).combine_chunks()
        ids = rows["id"].take(held.order).to_pylist()
    where = dict(zip(ids, [found.names[n] if n >= 0 else "" for n in found.split], strict=True))
    joins = dict(zip(found.joining.tolist(), found.joins.to_pylist(), strict=True))
    return where, Assigned(found.names, joins, whole, found.lists, found.notes)


def parts_of(table: pa.Table) -> SplitTable:
    """A table in parts of five rows."""

    def parts(columns: list[str]) -> Iterator[pa.Table]:
        return (table.slice(at, 5).select(columns) for at in range(0, max(len(table), 1), 5))

    return parts


def faults_of(rows: pa.Table, table: pa.Table, disjoint: list[str] | None = None) -> list[str]:
    columns = leaks.columns(rows.column_names)
    return split_faults(lambda: parts_of(rows)(columns), parts_of(table), disjoint)


def singles(count: int, seconds: float = 10.0) -> list[Clip]:
    return [(f"u{n:04d}", f"r{n:04d}", None, f"pcm{n}", seconds) for n in range(count)]


def hours(clips: list[Clip], where: dict[str, str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for clip in clips:
        found[where[clip[0]]] += clip[4] / 3600
    return found


@pytest.mark.nightly
def test_fractions_and_hours_are_met() -> None:
    clips = singles(2000)
    where, found = sides(clips, splits={"dev": 0.05, "test": {"hours": 0.5}})
    got = hours(clips, where)
    assert got["dev"] == pytest.approx(0.05 * 2000 * 10 / 3600, abs=10 / 3600)
    assert got["test"] == pytest.approx(0.5, abs=10 / 3600)
    assert found.notes == []
    assert found.table.num_rows == 2 * 2000
    other, _ = sides(clips, splits={"dev": 0.05, "test": {"hours": 0.5}}, seed=1)
    assert other != where


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12])
def test_few_speakers_fill_every_split_and_leave_train_the_most(count: int) -> None:
    clips: list[Clip] = [
        (f"u{n:03d}", f"r{n:03d}", f"s{n % count}", f"p{n}", 60.0) for n in range(10 * count)
    ]
    where, found = sides(clips, splits={"dev": 0.05, "test": 0.05})
    got = hours(clips, where)
    assert set(got) == ({"train", "dev", "test"} if count > 2 else {"train", "dev"})
    assert got["train"] == max(got.values())
    assert bool(found.notes) == (count < 10), "a split far from what was asked for is said"
    assert all("package.disjoint: [recording, audio] lets" in note for note in found.notes)


def test_a_corpus_without_clips_misses_no_split() -> None:
    _, found = sides([], splits={"dev": 0.05, "test": {"hours": 2}})
    assert found.notes == []


def test_one_group_is_train() -> None:
    where, found = sides([("u1", "r", "s", "p", 9.0)], splits={"dev": 0.5})
    assert where == {"u1": "train"}
    assert "split dev has 0.0000 h" in found.notes[0]


def test_hours_never_take_more_than_half() -> None:
    clips = singles(100)
    where, _ = sides(clips, splits={"dev": {"hours": 2}, "test": {"hours": 6}})
    got = hours(clips, where)
    whole = sum(got.values())
    assert got["train"] == pytest.approx(whole / 2, abs=20 / 3600)
    assert got["test"] == pytest.approx(3 * whole / 8, abs=20 / 3600)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (("a", "r1", "s", "p1", 1.0), ("b", "r2", "s", "p2", 1.0), True),  # a speaker
        (("a", "r1", "s", "p1", 1.0), ("b", "r1", "t", "p2", 1.0), True),  # a recording
        (("a", "r1", "s", "p1", 1.0), ("b", "r2", "t", "p1", 1.0), True),  # equal samples
        (("a", "r1", None, "p1", 1.0), ("b", "r2", None, "p2", 1.0), False),  # nobody known
        (("a", "r1", "", "p1", 1.0), ("b", "r2", "", "p2", 1.0), False),
    ],
)
def test_what_is_never_parted(one: Clip, other: Clip, together: bool) -> None:
    """Twenty such pairs, which have nothing in common."""

    def again(clip: Clip, number: int) -> Clip:
        name, recording, speaker, samples, seconds = clip
        return (f"{name}{number}", f"{recording}-{number}", speaker and f"{speaker}-{number}",
                f"{samples}-{number}", seconds)  # fmt: skip

    pairs = [(again(one, number), again(other, number)) for number in range(20)]
    where, _ = sides([clip for pair in pairs for clip in pair], splits={"dev": 0.5})
    assert {*where.values()} == {"train", "dev"}
    apart = sum(where[left[0]] != where[right[0]] for left, right in pairs)
    assert (apart == 0) == together


def test_a_newcomer_that_joins_two_sides_is_dropped() -> None:
    clips: list[Clip] = [(f"u{n:02d}", f"r{n:02d}", f"s{n % 10}", f"p{n}", 5.0) for n in range(40)]
    where, found = sides(clips, splits={"dev": 0.3})
    dev = next(c for c in clips if where[c[0]] == "dev")
    train = next(c for c in clips if where[c[0]] == "train")
    new: list[Clip] = [
        ("n1", "new1", dev[2], "q1", 5.0),  # one new recording of speakers of both sides
        ("n2", "new1", train[2], "q2", 5.0),
        ("n3", train[1], dev[2], "q3", 5.0),  # a speaker in a recording of the other side
        ("n4", "new4", "new", train[3], 5.0),  # a copy takes a new speaker along
        ("n5", "new5", "new", "q5", 5.0),
        ("n6", "new6", dev[2], train[3], 5.0),  # a copy of a clip on the other side
    ]
    then, again = sides([*clips, *new], found.table, splits={"dev": 0.3})
    assert {k: then[k] for k in where} == where
    assert [then[n] for n in ("n1", "n2", "n3", "n4", "n5", "n6")] == [
        "", "", "", "train", "train", "",
    ]  # fmt: skip
    told = {list(then)[row]: why for row, why in again.joins.items()}
    assert set(told) == {"n1", "n2", "n3", "n6"}
    assert "speaker in dev" in told["n3"]
    assert "recording in train" in told["n3"]
    names = set(again.table["name"].to_pylist())
    assert "c/new5" in names
    assert "c/new1" not in names, "what is dropped is on no side"
    assert sides([*clips, *new], again.table, splits={"dev": 0.3})[0] == then


GROWTH = st.lists(  # versions, each of some clips out of a small world
    st.sets(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 12)), max_size=14
    ),
    min_size=2, max_size=5,
)  # fmt: skip


def clip_of(recording: int, speaker: int, samples: int) -> Clip:
    who = f"s{speaker}" if speaker else None
    return (
        f"{recording}-{speaker}-{samples}", f"r{recording}", who, f"p{samples}",
        1.0 + (recording + 3 * samples) % 7,
    )  # fmt: skip


@fuzz.cases(15)
@given(GROWTH, st.integers(0, 3), st.randoms(use_true_random=False))
@pytest.mark.nightly
def test_random_growth(versions: list[set[tuple[int, int, int]]], seed: int, random: Any) -> None:
    """Nobody on two sides within a version, no id in two splits over all versions, and a clip that
    was published is never dropped for the splits' sake."""
    package: dict[str, Any] = {"splits": {"dev": 0.2, "test": {"hours": 0.002}}, "seed": seed}
    before = NOTHING
    ever: dict[str, str] = {}
    last: set[str] = set()
    for version in versions:
        clips = [clip_of(*numbers) for numbers in sorted(version)]
        where, found = sides(clips, before, **package)
        mixed = random.sample(clips, len(clips))
        other, _ = sides(mixed, before, **package)
        assert other == where, "the order of the rows shows through"
        kept = [c for c in clips if where[c[0]]]
        assert last & set(where) <= {c[0] for c in kept}
        published = table(kept).set_column(
            9, "split", pa.array([where[c[0]] for c in kept], pa.string())
        )
        assert faults_of(published, found.table) == []
        for column in (1, 2, 3):
            on: dict[Any, set[str]] = defaultdict(set)
            for clip in kept:
                if clip[column] is not None:
                    on[clip[column]].add(where[clip[0]])
            assert all(len(each) == 1 for each in on.values())
        for clip in kept:
            assert ever.setdefault(clip[0], where[clip[0]]) == where[clip[0]]
        if kept:
            again, stays = sides(kept, found.table, **package)
            assert again == {c[0]: where[c[0]] for c in kept}
            assert stays.table.equals(found.table)
        before, last = found.table, {c[0] for c in kept}


@fuzz.cases(60)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=60), st.floats(0.01, 0.4),
    st.floats(0.01, 0.4),
)  # fmt: skip
def test_hours_are_within_one_group(lengths: list[int], dev: float, test: float) -> None:
    sizes = np.array(lengths, np.int64)
    lacking = np.rint(sizes.sum() * np.array([dev, test, 0])).astype(np.int64)
    found = components.allocate(sizes, lacking, np.zeros(3, np.int64), 2)
    got = np.bincount(found, sizes, 3)
    assert got[2] > 0
    for side in (0, 1):
        if got[2] >= 2 * sizes.max():  # else train could give nothing more
            assert abs(got[side] - lacking[side]) <= sizes.max()


def test_a_table_in_parts_is_written_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 100)
    for rows in (0, 99, 100, 1000, 1001):
        names = [f"name {n * 7919 % 500}" for n in range(rows)]
        columns = [["pcm"] * rows, names, ["dev" if n % 3 else "train" for n in range(rows)]]
        whole = pa.table(columns, schema=SPLITS)
        parts = [whole.slice(at, 37) for at in range(0, max(rows, 1), 37)]
        tables.write_parquet(tmp_path / "parts", parts)
        pq.write_table(whole, tmp_path / "whole", compression="zstd", row_group_size=100)
        assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    default = pq.ParquetFile(tmp_path / "whole").metadata.num_row_groups
    assert default == 11


def test_verify_finds_who_is_on_two_sides() -> None:
    clips: list[Clip] = [("a", "r1", "s", "p1", 1.0), ("b", "r2", "s", "p2", 1.0)]
    _, found = sides(clips, splits={"dev": 0.5})
    parted = table(clips).set_column(9, "split", pa.array(["train", "dev"]))
    faults = faults_of(parted, found.table)
    assert "the speaker c/s is in two splits" in faults
    assert any("differ in the split of a recording" in fault for fault in faults)


def listed(tmp_path: Path, *names: str, name: str = "list.txt") -> str:
    path = tmp_path / name
    path.write_text("".join(f"{n}\n" for n in names))
    return str(path)


@pytest.mark.parametrize("name", ["u0007", "c/r0007", "key-u0007", "s7", "c/s7"])
def test_a_list_names_ids_recordings_keys_or_speakers(tmp_path: Path, name: str) -> None:
    clips: list[Clip] = [(f"u{n:04d}", f"r{n:04d}", f"s{n}", f"p{n}", 1.0) for n in range(20)]
    share = {"list": listed(tmp_path, name, "", "nobody")}
    where, found = sides(clips, splits={"test": share})
    assert [k for k, v in where.items() if v == "test"] == ["u0007"]
    assert "1 of 2 names match no packaged clip: nobody" in found.notes[0]
    assert found.lists["test"]["unmatched_first"] == ["nobody"]


def test_a_list_takes_the_whole_group_and_published_clips_stay(tmp_path: Path) -> None:
    clips: list[Clip] = [(f"u{n}", f"r{n}", f"s{n % 4}", f"p{n}", 1.0) for n in range(12)]
    where, found = sides(clips, splits={"test": {"list": listed(tmp_path, "u1")}})
    assert {k for k, v in where.items() if v == "test"} == {"u1", "u5", "u9"}
    late = {"test": {"list": listed(tmp_path, "s2", "s9")}}
    grown = [*clips, ("u99", "r99", "s9", "p99", 1.0)]
    then, again = sides(grown, found.table, splits=late)
    assert then == {**where, "u99": "test"}
    assert "3 of the clips it names" in again.notes[0]


def test_lists_that_cannot_hold_are_refused(tmp_path: Path) -> None:
    clips: list[Clip] = [(f"u{n}", f"r{n}", "s", f"p{n}", 1.0) for n in range(4)]
    one, two = listed(tmp_path, "u1", name="1"), listed(tmp_path, "u2", name="2")
    with pytest.raises(RunError, match="nothing is left for train"):
        sides(clips, splits={"test": {"list": one}})
    with pytest.raises(RunError, match="must be in one split"):
        sides(clips, splits={"test": {"list": one}, "dev": {"list": two}})
    with pytest.raises(ConfigError, match="in the list of dev as well"):
        sides(clips, splits={"test": {"list": one}, "dev": {"list": one}})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("splits", "{dev: 0.5, test: 0.5}", "add up to 1"),
        ("splits", "{train: 0.5}", "what the other splits leave"),
        ("splits", "{a b: 0.5}", "letters, digits"),
        ("splits", "{dev: 2}", "between 0 and 1"),
        ("splits", "{dev: {hours: 2, list: x}}", "between 0 and 1"),
        ("splits", "{dev: {hours: 0}}", "between 0 and 1"),
        ("splits", "{dev: 0.1, Dev: 0.1}", "upper and lower case"),
        ("splits", "0.1", "write {dev"),
        ("weights", "{x: 0}", "leave its source out"),
        ("weights", "{x: 1.5}", "unique"),
        ("weights", "[x]", "write {<dataset>"),
    ],
)
def test_bad_portions_are_one_sentence(tmp_path: Path, key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        flow_settings.read(None, [str(tmp_path)], "o", [f"package.{key}={value}"])
    assert f"package.{key}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_known_early_is_refused_early(tmp_path: Path) -> None:
    corpus.make(source := tmp_path / "in", 1)

    def check(*sets: str) -> None:
        sets = ("transcribe.backend.use=fake", *sets)
        out = str(tmp_path / "out")
        checks.check(flow_settings.read(None, [str(source)], out, sets))

    with pytest.raises(ConfigError, match=r"no such dataset; there are: \w"):
        check("package.weights.nobody=0.5")
    with pytest.raises(ConfigError, match=r"splits\.test\.list.*cannot be read"):
        check("package.splits.test.list=/no/such/list")
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(ConfigError, match="is empty"):
        check(f"package.splits.test.list={tmp_path / 'empty'}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        check(f"package.splits.test.list={tmp_path / 'bytes'}")


def test_paths_of_lists_are_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sets = ["package.splits={dev: 0.1, test: {list: t.txt}}"]
    read = flow_settings.read(None, [str(tmp_path)], "o", sets)
    assert read.model_dump(mode="json")["package"]["splits"] == {
        "dev": 0.1, "test": {"hours": None, "list": str(tmp_path / "t.txt")},
    }  # fmt: skip


def test_a_weight_keeps_its_share_and_raising_it_only_adds() -> None:
    rows = table(singles(4000))
    kept = {}
    for weight in (0.2, 0.5, 1.0):
        draw, limit = split_input.weight_draws(asked(weights={"c": weight, "other": 0.1}), rows)
        out = draw >= limit
        kept[weight] = set(rows["id"].filter(pa.array(~out)).to_pylist())
    assert kept[0.2] < kept[0.5] < kept[1.0]
    assert len(kept[0.2]) == pytest.approx(800, abs=100)
    assert len(kept[1.0]) == 4000


def spoken(tmp: Path, count: int, speakers: int, **more: str) -> list[dict[str, Any]]:
    """A JSONL source of `count` recordings by so many speakers; `r03="s9"` names another one."""
    rows = []
    for number in range(count):
        name = f"r{number:02d}"
        if not (tmp / f"in/{name}.wav").exists():
            corpus.add(tmp / "in", number, name=f"{name}.wav")
        rows.append({"wav": str(tmp / f"in/{name}.wav"), "key": f"k{number}", "txt": "a text",
                     "speaker": more.get(name, f"s{number % speakers}")})  # fmt: skip
    corpus.jsonl(tmp / "list.jsonl", rows)
    return [{"kind": "jsonl", "path": str(tmp / "list.jsonl"), "name": "c"}]


def published(version: Path) -> dict[str, str]:
    rows = corpus.utterances(version)
    return {Path(row["recording"]).stem: row["split"] for row in rows}


@pytest.mark.full
def test_the_whole_line(tmp_path: Path) -> None:
    sources = spoken(tmp_path, 8, 4)
    package = {"splits": {"dev": 0.3}, "tar_hours": 3 / 3600}

    def run(**change: Any) -> tuple[Any, Any]:
        job = corpus.job(tmp_path, sources=sources, package={**package, **change})
        return corpus.run(job)

    one, _ = run()
    where = published(one.path)
    assert set(where.values()) == {"train", "dev"}
    assert verify(one.path) == []
    assert {p.parent.name for p in one.path.rglob("*.tar")} == {"train", "dev"}
    described = json.loads((one.path / "dataset.json").read_text())
    assert "splits.parquet" in described["files"]
    assert set(described["splits"]) == {"train", "dev"}
    assert not run()[0].new
    # A recording that names a speaker of the other side now is dropped; the others stay.
    dev = next(int(name[1:]) for name, split in where.items() if split == "dev")
    train = next(int(name[1:]) for name, split in where.items() if split == "train")
    sources = spoken(tmp_path, 10, 4, r08=f"s{dev % 4}", r09=f"s{train % 4}")
    two, _ = run()
    assert published(two.path) == {**where, "r08": "dev", "r09": "train"}
    sources = spoken(tmp_path, 11, 4, r08=f"s{train % 4}", r09=f"s{train % 4}")
    three, _ = run(max_removed_fraction=0.3)
    assert "r08" not in published(three.path)
    ledger = corpus.ledger(three.path)
    lost = next(row for row in ledger if row["recording"].endswith("r08.wav"))
    assert (lost["outcome"], lost["stage"], lost["reason"]) == (
        "dropped", "package", "split_conflict",
    )  # fmt: skip
    assert verify(three.path) == []
    assert not run()[0].new
    # Dealt anew it has a place again; without splits all is train, and no table is left.
    four, _ = run(resplit=True)
    assert "r08" in published(four.path)
    five, _ = run(splits={})
    assert set(published(five.path).values()) == {"train"}
    assert not (five.path / "splits.parquet").exists()
    assert verify(five.path) == []


@pytest.mark.nightly
def test_shards_and_earlier_versions_do_not_show_through(tmp_path: Path) -> None:
    sources = spoken(tmp_path, 6, 6)
    corpus.run(corpus.job(tmp_path, sources=sources))  # without splits: says nothing
    package = {"splits": {"dev": 0.3, "test": 0.2}, "weights": {"c": 0.8}}
    late_, _ = corpus.run(corpus.job(tmp_path, sources=sources, package=package))
    fresh, _ = corpus.run(
        corpus.job(tmp_path, sources=sources, package=package, out=tmp_path / "fresh",
                   shard={"hours": 0.0001, "settle_seconds": 0.0})
    )  # fmt: skip
    assert published(late_.path) == published(fresh.path)
    for name in ("splits.parquet", "ledger.parquet"):
        assert (late_.path / name).read_bytes() == (fresh.path / name).read_bytes()


@pytest.mark.nightly
def test_the_content_of_a_list_makes_the_version_not_its_place(tmp_path: Path) -> None:
    sources = spoken(tmp_path, 6, 6)
    (tmp_path / "other").mkdir()
    here, there = listed(tmp_path, "k1"), listed(tmp_path / "other", "k1")

    def run(path: str, **package: Any) -> Any:
        package = {"splits": {"test": {"list": path}}, **package}
        return corpus.run(corpus.job(tmp_path, sources=sources, package=package))[0]

    one = run(here)
    assert published(one.path)["r01"] == "test"
    assert here not in (one.path / "dataset.json").read_text()
    assert not run(there).new
    two = run(listed(tmp_path, "k1", "k2"))
    assert two.new
    assert published(two.path)["r02"] == "train", "published there"
    assert published(run(here, resplit=True).path)["r02"] == "test"


@pytest.mark.full
def test_weights_drop_by_a_draw_that_the_ledger_names(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 10)

    def run(weight: float) -> Any:
        return corpus.run(corpus.job(tmp_path, package={"weights": {"c": weight}}))[0]

    some = run(0.5)
    kept = set(published(some.path))
    assert 0 < len(kept) < 10
    rows = [r for r in corpus.ledger(some.path)
            if r["reason"] == "weight"]  # fmt: skip
    assert len(rows) == 10 - len(kept)
    assert all(r["value"] >= r["threshold"] == 0.5 for r in rows)
    assert verify(some.path) == []
    assert not run(0.5).new

    def foreseen(weight: float) -> tuple[int, int]:
        job = corpus.job(tmp_path, package={"weights": {"c": weight}})
        return (what_if.kept(job, job)[0]["items"], what_if.of_shards(job)["items"])

    assert foreseen(0.5) == (len(kept), len(kept))
    foretold = foreseen(0.8)
    more = set(published(run(0.8).path))
    assert more > kept
    assert foretold == (len(more), len(more))


def test_the_share_is_in_the_order_of_ids(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, package={"splits": {"dev": 0.3}, "weights": {"c": 0.5}})
    rows = table(singles(200)).take(np.random.default_rng(0).permutation(200))
    with split_input.Candidates(job.package) as clips:
        clips.add(rows, np.arange(200, dtype=np.int32), np.zeros(200, bool))
        clips.finish()
        shared = next_version.select(job, clips, None)
    assert len(shared.rows) + len(shared.rejected) == 200
    assert set(shared.rejected["reason"].to_pylist()) == {"weight"}
    assert set(shared.names) == {"train", "dev"}
    ids = rows["id"].take(shared.rows).to_pylist()
    assert ids == sorted(ids)


@pytest.mark.nightly
def test_late_verdicts_are_as_if_all_were_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where spans overlap, and a dropped one's samples go to its neighbour."""
    for number in range(4):
        corpus.add(tmp_path / "in", 8, seed=number, name=f"r{number}.wav")
    segments = [(f"r{n}-{at}", f"r{n}", at / 2, at / 2 + (0.8 if n == 1 else 0.5))
                for n in range(4) for at in range(3)]  # fmt: skip
    home = tmp_path / "kaldi"
    home.mkdir()
    lines = {
        "wav.scp": [f"r{n} {tmp_path}/in/r{n}.wav" for n in range(4)],
        "segments": [f"{key} {of} {start:.2f} {end:.2f}" for key, of, start, end in segments],
        "text": [f"{key} words of {key}" for key, *_ in segments],
    }
    for name, content in lines.items():
        (home / name).write_text("".join(f"{line}\n" for line in content))
    job = corpus.job(
        tmp_path, sources=[{"kind": "kaldi", "path": str(home), "name": "c"}],
        filter={"segmenter": {"use": "given"}}, package={"weights": {"c": 0.5}},
        shard={"hours": 0.0005, "settle_seconds": 0.0},
    )  # fmt: skip
    done, _ = corpus.run(job)
    assert verify(done.path) == []
    shards = manifest.shards(job.out)
    found = foretold(job, shards)
    ledger = found[0]
    lost = ledger.filter(pc.equal(ledger["reason"], "weight"))
    assert 0 < lost.num_rows < 12
    overlap = rejections.overlapping(ledger).to_pylist()
    assert len(overlap) == 1
    assert overlap[0] in lost["recording"].to_pylist()
    monkeypatch.setattr(rejections, "overlapping", lambda ledger: pc.unique(ledger["recording"]))
    assert foretold(job, shards) == found


def foretold(job: Job, shards: list[str]) -> tuple[pa.Table, ...]:
    """Ledger, outcomes of utterances, and clips."""
    with foreseen.version(job, shards) as version:
        tables = version.ledger(), version.utterances(["id", "outcome", "reason"])
        return *map(pa.concat_tables, tables), version.clips(["id", "split", "sha256"])


def test_the_channels_of_a_file_stay_together() -> None:
    clips: list[Clip] = [
        (f"{n}-{c}", f"call{n}.wav#{c}", f"spk{n}-{c}", f"{n}{c}", 10.0)
        for n in range(20) for c in (0, 1)
    ]  # fmt: skip
    channels = pa.array([c for _ in range(20) for c in (0, 1)], pa.int32())
    rows = table(clips).set_column(3, "channel", channels)
    with split_input.Candidates(asked(splits={"dev": 0.5})) as held:
        held.add(rows, np.arange(40, dtype=np.int32), np.zeros(40, bool))
        held.finish()
        found = splits.assign(asked(splits={"dev": 0.5}), held, held.order, parts_of(NOTHING))
        ids = rows["id"].take(held.order).to_pylist()
    where = dict(zip(ids, found.split.tolist(), strict=True))
    assert len({*where.values()}) == 2
    assert all(where[f"{n}-0"] == where[f"{n}-1"] for n in range(20))
