"""One speaker over all recordings: linking, names from version to version, caps, and runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from tests.helpers import corpus
from tests.plugins import voiced
from uttermill.tasks.base.schema import SPEAKERS
from uttermill.tasks.publish.choosing import components, next_version
from uttermill.tasks.publish.choosing.components import speakers_in
from uttermill.tasks.publish.corpus import identities
from uttermill.tasks.publish.corpus.identities import VOICES
from uttermill.tasks.publish.upkeep import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.speech import linkage as linking
from uttermill.tasks.storage import queries, sorted_keys, tables

NOTHING = SPEAKERS.empty_table()


# --- linking --------------------------------------------------------------------------------------


def vectors(people: int, count: int, noise: float, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(people, 96))
    who = rng.integers(people, size=count)
    found = centres[who] + noise * rng.normal(size=(count, 96))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32), who


def groups(owner: Any) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(owner == own).tolist()) for own in np.unique(owner)}


@pytest.mark.parametrize(("noise", "least"), [(0.8, 0.5), (1.2, 0.45), (1.6, 0.3)])
def test_linking_is_average_linkage(noise: float, least: float) -> None:
    some, _ = vectors(40, 400, noise)
    expected = fcluster(linkage(some.astype(float), "average", "cosine"), 1 - least, "distance")
    assert groups(linking.linked(some, np.ones(400), least)) == groups(expected)


def test_portions_find_the_same_people(monkeypatch: pytest.MonkeyPatch) -> None:
    some, who = vectors(30, 900, 0.8)
    monkeypatch.setattr(linking, "PORTION", 64)
    monkeypatch.setattr(linking, "BLOCK", 1000)
    assert groups(linking.linked(some, np.ones(900), 0.3)) == groups(who)


def test_equal_vectors_and_few() -> None:
    same = np.ones((5, 3), np.float32) / np.sqrt(3).astype(np.float32)
    assert linking.linked(same, np.ones(5), 0.9).tolist() == [0] * 5
    assert linking.linked(same[:1], np.ones(1), 0.9).tolist() == [0]
    assert linking.linked(same[:0], np.ones(0), 0.9).tolist() == []


def test_known_groups_are_joined_through_others_only() -> None:
    angles = np.radians([0, 40, 20])
    some = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    least = np.cos(np.radians(45))
    assert linking.linked(some[:2], np.ones(2), least, apart=2).tolist() == [0, 1]
    assert linking.linked(some, np.ones(3), least, apart=2).tolist() == [0, 0, 0]


# --- names ----------------------------------------------------------------------------------------


def table(*voices: tuple[str, int, int]) -> pa.Table:
    """Recording, number and person; a voice lasts as long as its recording's name says."""
    return pa.Table.from_pylist(
        [
            {
                "recording": f"c/{name}",
                "number": number,
                "content": f"hash of {name}",
                "seconds": float(name[1:]),
                "vector": voiced.voice(person, int(name[1:])),
            }
            for name, number, person in voices
        ],
        schema=VOICES,
    )


def link(some: pa.Table, before: pa.Table = NOTHING, least: float = 0.5, **how: Any) -> pa.Table:
    return linked([some], before, least, how.get("refit", False))


def linked(some: list[pa.Table], before: pa.Table, least: float, refit: bool) -> pa.Table:
    found = identities.link(lambda: some, lambda: [before], least, "r", refit)
    return pa.concat_tables(found)


def names(found: pa.Table) -> dict[str, str]:
    return {f"{row['recording'][2:]}#{row['number']}": row["speaker"] for row in found.to_pylist()}


FIRST = (("r10", 1, 1), ("r20", 1, 2), ("r20", 2, 1), ("r30", 1, 3))


def test_people_are_found_again_in_any_order() -> None:
    found = link(table(*FIRST))
    called = names(found)
    assert called["r10#1"] == called["r20#2"]
    assert len(set(called.values())) == 3
    assert all(name.startswith("spk_") and len(name) == 20 for name in called.values())
    back = [table(one) for one in FIRST[::-1]]
    again = linked(back, NOTHING, 0.5, False)
    assert again.equals(found)
    assert again.schema.metadata == found.schema.metadata


def test_names_stay_as_the_corpus_grows() -> None:
    first = link(table(*FIRST))
    # Longer recordings come: names would be others if all were named anew.
    grown = table(*FIRST, ("r90", 1, 1), ("r80", 1, 2), ("r70", 1, 4))
    second = names(link(grown, first))
    assert names(first).items() <= second.items()
    assert second["r90#1"] == second["r10#1"]
    assert second["r80#1"] == second["r20#1"]
    assert second["r70#1"] not in names(first).values()
    assert names(link(grown))["r90#1"] != second["r90#1"]


def test_names_come_back_with_their_recordings() -> None:
    first = link(table(*FIRST))
    without = link(table(*FIRST[:3]), first)
    assert names(without) == names(first)
    assert names(link(table(*FIRST), without)) == names(first)


def at(name: str, degrees: float) -> dict[str, Any]:
    """The voice of a recording of so many seconds as its name says, in this direction."""
    vector = np.zeros(192, "<f2")
    vector[:2] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return {"recording": f"c/{name}", "number": 1, "content": name,
            "seconds": float(name[1:]), "vector": vector.tobytes()}  # fmt: skip


def test_of_people_who_become_one_the_longest_keeps_the_name(tmp_path: Path) -> None:
    apart = [at("r10", 0), at("r20", 50)]
    least = float(np.cos(np.radians(40)))
    first = link(pa.Table.from_pylist(apart, schema=VOICES), least=least)
    assert len(set(names(first).values())) == 2
    between = pa.Table.from_pylist([*apart, at("r30", 24)], schema=VOICES)
    second = names(link(between, first, least))
    assert set(second.values()) == {names(first)["r20#1"]}
    # Who is published stays together, although the third left; a refit looks anew.
    path = tmp_path / "speakers.parquet"
    tables.write_parquet(path, [link(between, first, least)])
    [published] = tables.row_groups(path, SPEAKERS.names)
    third = link(pa.Table.from_pylist(apart, schema=VOICES), published, least)
    assert set(names(third).values()) == {names(first)["r20#1"]}
    anew = link(pa.Table.from_pylist(apart, schema=VOICES), third, least, refit=True)
    assert names(anew)["r20#1"] == names(first)["r20#1"]
    assert names(anew)["r10#1"] != names(anew)["r20#1"]


def test_another_threshold_links_anew_and_keeps_names_where_most_is() -> None:
    first = link(table(*FIRST))
    strict = link(table(*FIRST), first, 0.99)
    assert len(set(names(strict).values())) == 4
    assert names(strict)["r20#2"] == names(first)["r20#2"]  # 20 s of 30 s
    assert names(strict)["r20#1"] == names(first)["r20#1"]
    assert names(link(table(*FIRST), strict)) == names(first)


def test_equal_recordings_have_the_same_voices() -> None:
    some = table(*FIRST).to_pylist()
    twin = {**some[0], "recording": "d/copy"}
    found = link(pa.Table.from_pylist([*some, twin], schema=VOICES))
    called = {row["recording"]: row["speaker"] for row in found.to_pylist() if row["number"] == 1}
    assert called["d/copy"] == called["c/r10"]
    first = link(table(*FIRST))
    assert names(link(pa.Table.from_pylist([*some, twin], schema=VOICES), first)).items() >= (
        names(first).items()
    )


@pytest.mark.parametrize("seed", range(6))
def test_nothing_depends_on_how_much_is_in_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)

    def night(low: int, count: int) -> list[pa.Table]:
        found = []
        for part in range(4):
            names = [f"r{int(n) + 1}" for n in rng.permutation(99)[: count // 4]]
            some = table(*((name, 1, int(rng.integers(5))) for name in names)).to_pylist()
            for row in some:
                row["recording"] += f"-{low}-{part}"
                row["content"] = f"{rng.integers(low, low + count)}"  # some are copies
            found.append(pa.Table.from_pylist(some, schema=VOICES))
        return found

    first, more = night(0, 80), night(40, 40)
    whole = linked(first, NOTHING, 0.5, False)
    later = linked([*first[1:], *more], whole, 0.5, False)
    monkeypatch.setattr(queries, "AT_ONCE", 7)
    monkeypatch.setattr(queries, "FEW", 0)
    assert linked(first, NOTHING, 0.5, False).equals(whole, check_metadata=True)
    again = linked([*first[1:], *more], whole, 0.5, False)
    assert again.equals(later, check_metadata=True)
    assert again["recording"].num_chunks > 4
    by = [("recording", "ascending"), ("number", "ascending")]
    assert later.equals(later.sort_by(by))


def test_a_name_that_somebody_has_is_not_given_again() -> None:
    some = pa.Table.from_pylist([at("r40", 0), at("r30", 30), at("r20", 30)], schema=VOICES)
    first = link(some, least=0.8)
    [name] = set(names(first).values())  # by the voice of r40
    parted = names(link(some, first, 0.9))
    assert parted["r30#1"] == parted["r20#1"] == name
    assert parted["r40#1"] != name


# --- hours ----------------------------------------------------------------------------------------


def clips(count: int, speakers: Sequence[str | None]) -> pa.Table:
    """Clips of 36 s: 0.01 h each."""
    return pa.table(
        {
            "id": [f"u{n:04d}" for n in range(count)],
            "dataset": ["c"] * count,
            "recording": [f"c/r{n}" for n in range(count)],
            "speaker": pa.array([speakers[n % len(speakers)] for n in range(count)], pa.string()),
            "sha256": [f"{n}" for n in range(count)],
            "num_samples": pa.array([36 * 16_000] * count, pa.int64()),
            "sample_rate": pa.array([16_000] * count, pa.int64()),
        }
    )


def over(rows: pa.Table, most: float, there: NDArray[np.bool_] | None = None) -> set[str]:
    none = np.zeros(rows.num_rows, bool)
    speaker = speakers_in(rows).combine_chunks().dictionary_encode().indices.fill_null(-1)
    turns = sorted_keys.draws("0:speaker_hours", rows["id"].to_pylist())
    length = components.microseconds(rows)
    known = none if there is None else there
    out, hours = next_version.over_hours(speaker.to_numpy(), turns, length, known, most)
    assert (hours[out] > most).all()
    return set(rows["id"].filter(pa.array(out)).to_pylist())


def test_hours_of_a_speaker() -> None:
    rows = clips(40, ["a", "b", None, "a"])
    gone = over(rows, 0.05)
    speaker = dict(zip(rows["id"].to_pylist(), rows["speaker"].to_pylist(), strict=True))
    assert [sum(speaker[key] == who for key in gone) for who in ("a", "b", None)] == [15, 5, 0]
    assert over(rows, 0.08) < gone  # a higher cap only adds
    order = np.random.default_rng(0).permutation(40)
    assert over(rows.take(pa.array(order)), 0.05) == gone
    # What is published stays when the corpus grows.
    kept = set(rows["id"].to_pylist()) - gone
    grown = clips(400, ["a", "b", None, "a"])
    there = np.isin(grown["id"].to_numpy(zero_copy_only=False), sorted(kept))
    assert not over(grown, 0.05, there) & {key for key in kept if speaker[key]}


# --- runs -----------------------------------------------------------------------------------------


def recording(folder: Path, number: int, people: tuple[int, int]) -> None:
    """A recording of `1 + number / 10` s in whose halves these people speak."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = corpus.speech(number, 1 + number / 10, 8000)
    samples[0], samples[1] = people[0] / 100, people[1] / 100
    sf.write(folder / f"r{number:02d}.wav", samples, 8000, "PCM_16")


def job(tmp: Path, **changes: Any) -> Any:
    speakers = {"use": "tests.plugins.voiced", "heard": str(tmp / "heard")}
    speakers |= changes.pop("speakers", {})
    how = {"segmenter": {"use": "tests.plugins.stretches"}, "filters": corpus.FILTERS}
    return corpus.job(tmp, filter=how, speakers=Plugin.model_validate(speakers), **changes)


def rows(version: Path) -> list[dict[str, Any]]:
    found = corpus.utterances(version)
    return sorted(found, key=lambda row: (row["recording"], row["start"]))


def speakers_of(version: Path) -> dict[str, str]:
    return {f"{row['recording']} {row['start'] > 0}": row["speaker"] for row in rows(version)}


PEOPLE = {0: (1, 2), 1: (1, 1), 2: (2, 3), 3: (4, 4)}


@pytest.mark.full
def test_one_speaker_over_all_recordings_from_night_to_night(tmp_path: Path) -> None:
    for number, people in PEOPLE.items():
        recording(tmp_path / "in", number, people)
    formats = {"formats": ["wenet", "kaldi"]}
    published, _ = corpus.run(job(tmp_path, package=formats))
    first = speakers_of(published.path)
    assert first["c/r00.wav False"] == first["c/r01.wav False"]
    assert first["c/r00.wav True"] == first["c/r02.wav False"]
    assert len(set(first.values())) == 4
    assert verify.verify(published.path) == []
    whole = pq.read_table(published.path / "speakers.parquet")
    assert whole.schema.names == SPEAKERS.names
    assert set(whole["speaker"].to_pylist()) == set(first.values())
    pairs = (published.path / "kaldi" / "train" / "utt2spk").read_text().split()
    assert set(pairs[1::2]) == set(first.values())
    told = json.loads((published.path / "dataset.json").read_text())
    assert told["speakers"]["count"] == 4
    assert {row["speaker"] for row in told["speakers"]["largest"]} == set(first.values())
    assert "spk_" in (published.path / "README.md").read_text()
    # Other grouping into shards: the same bytes.
    small = {"hours": 0.0004, "settle_seconds": 0.0}
    again, _ = corpus.run(job(tmp_path, package=formats, shard=small, out=tmp_path / "other"))
    assert corpus.content(again.path) == corpus.content(published.path)
    # A night brings longer recordings of two of them, and of somebody else.
    recording(tmp_path / "in", 20, (4, 5))
    recording(tmp_path / "in", 21, (2, 2))
    grown, stages = corpus.run(job(tmp_path, package=formats))
    second = speakers_of(grown.path)
    assert first.items() <= second.items()
    assert second["c/r20.wav False"] == first["c/r03.wav False"]
    assert second["c/r21.wav False"] == first["c/r00.wav True"]
    assert len(set(second.values())) == 5
    assert stages["filter"] == (2, 4)
    assert verify.verify(grown.path) == []


@pytest.mark.full
def test_a_source_that_names_speakers_is_believed(tmp_path: Path) -> None:
    for number, people in PEOPLE.items():
        recording(tmp_path / "in", number, people)
    lines = [
        {"wav": str(tmp_path / "in" / f"r{n:02d}.wav"), "key": f"k{n}", "txt": "a",
         **({"speaker": "ann"} if n == 1 else {})}
        for n in PEOPLE
    ]  # fmt: skip
    listed = tmp_path / "list.jsonl"
    corpus.jsonl(listed, lines)
    asked = job(tmp_path, sources=[{"kind": "jsonl", "path": str(listed), "name": "c"}])
    published, _ = corpus.run(asked)
    called = {Path(row["source_path"]).stem: row["speaker"] for row in rows(published.path)}
    assert called["r01"] == "ann"
    assert called["r00"].startswith("spk_")
    known = pq.read_table(published.path / "speakers.parquet")["recording"].to_pylist()
    assert len(known) == 5
    assert not any("r01" in name for name in known)
    # All are named: nothing is linked, and who was known before stays noted.
    listed.write_text("".join(json.dumps({**x, "speaker": f"p{x['key']}"}) + "\n" for x in lines))
    named, _ = corpus.run(asked)
    assert {row["speaker"] for row in rows(named.path)} == {f"pk{n}" for n in PEOPLE}
    assert pq.read_table(named.path / "speakers.parquet")["recording"].to_pylist() == known
    assert verify.verify(named.path) == []
