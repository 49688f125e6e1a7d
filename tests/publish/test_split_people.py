"""Who speaks in a window of a dialogue, beside its main speaker, is on one side of a split too."""

from typing import Any

import pyarrow as pa
import pytest

from tests.helpers import tiers
from tests.publish.test_splits import Clip, faults_of, parts_of, sides, singles, table
from uttermill.tasks.publish import leaks

WINDOWS: dict[str, tuple[str | None, ...]] = {
    "wa": ("anna", "bert"),
    "wb": ("carl", "bert", "anna"),
    "wc": (None, "dora", "carl"),
}
CLIPS: list[Clip] = [
    *(("w" + n, f"talk-{n}", WINDOWS["w" + n][0], f"pcm-{n}", 30.0) for n in "abc"),
    ("alone", "talk-d", "dora", "pcm-d", 30.0),
    *singles(40),
]


def with_turns(clips: list[Clip]) -> pa.Table:
    """The rows of clips; those of WINDOWS have turns."""
    turns = [
        [{"speaker": name, "start": 0.0} for name in WINDOWS.get(clip[0], ()) if name]
        for clip in clips
    ]
    kind = pa.list_(pa.struct({"speaker": pa.string(), "start": pa.float64()}))
    return table(clips).append_column("turns", pa.array(turns, kind))


def with_split(clips: list[Clip], where: dict[str, str]) -> pa.Table:
    rows = with_turns(clips)
    split = pa.array([where.get(clip[0], "train") for clip in clips])
    return rows.set_column(rows.schema.get_field_index("split"), "split", split)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sides` takes clips with turns."""
    monkeypatch.setattr("tests.publish.test_splits.table", lambda clips, texts: with_turns(clips))


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("disjoint", [None, ["speaker"]])
@pytest.mark.nightly
def test_all_who_talk_together_are_on_one_side(disjoint: list[str] | None) -> None:
    for seed in range(4):
        where, assigned = sides(CLIPS, splits={"dev": 0.3}, disjoint=disjoint, seed=seed)
        assert len({where[clip] for clip in (*WINDOWS, "alone")}) == 1
        assert {*where.values()} == {"dev", "train"}
        names = {row["name"] for row in assigned.table.to_pylist() if row["kind"] == "speaker"}
        assert names >= {"c/anna", "c/bert", "c/carl", "c/dora"}
    control = {
        len({sides(CLIPS, splits={"dev": 0.3}, disjoint=["recording"], seed=seed)[0][clip]
             for clip in WINDOWS}) for seed in range(4)
    }  # fmt: skip
    assert control != {1}


@pytest.mark.full
@pytest.mark.parametrize(
    "disjoint", tiers.few([["speaker"], ["text"], ["speaker", "text"], []], ["speaker", "text"])
)
def test_clips_of_nobody_known_are_in_a_split(disjoint: list[str]) -> None:
    clips = singles(40)
    texts = {clip[0]: f"sentence number {n} of a long list" for n, clip in enumerate(clips[:20])}
    where, assigned = sides(clips, texts=texts, splits={"dev": 0.3}, disjoint=disjoint)
    assert {*where.values()} == {"dev", "train"}
    assert abs([*where.values()].count("dev") - 12) <= 1
    more = singles(60)
    after, _ = sides(more, assigned.table, texts, splits={"dev": 0.3}, disjoint=disjoint)
    assert {name: after[name] for name in where} == where
    assert "" not in after.values()


@pytest.mark.full
@pytest.mark.usefixtures("windows")
def test_a_window_of_people_from_two_sides_is_dropped() -> None:
    clips: list[Clip] = [("alone", "talk-d", "dora", "pcm-d", 30.0), *CLIPS[1:2], *singles(40)]
    seed = next(
        n for n in range(40)
        if len({sides(clips, splits={"dev": 0.5}, seed=n)[0][one] for one in ("wb", "alone")}) == 2
    )  # fmt: skip
    before, assigned = sides(clips, splits={"dev": 0.5}, seed=seed)
    more = [*clips, CLIPS[0], CLIPS[2]]
    after, grown = sides(more, assigned.table, splits={"dev": 0.5}, seed=seed)
    assert {name: after[name] for name in before} == before
    assert after["wa"] == before["wb"], "bert and anna are known"
    assert after["wc"] == "", "dora and carl are on two sides"
    assert [*grown.joins.values()] == ["joins clips of two splits"]
    rows = with_split([clip for clip in more if after[clip[0]]], after)
    assert faults_of(rows, grown.table) == []


@pytest.mark.full
def test_leaks_count_everybody() -> None:
    def split(*dev: str) -> dict[str, Any]:
        rows = with_split(CLIPS, dict.fromkeys(dev, "dev"))
        columns = leaks.columns(rows.column_names)
        return leaks.of_utterances({"train", "dev"}, parts_of(rows)(columns), "256MB", None)

    assert split("alone")["dev"]["speaker"] == 1, "dora talks in a window of train"
    assert split("wa", "u0001")["dev"]["speaker"] == 1, "bert does"
    unknown_in_train, unknown_in_dev = ("wa", "wb", "wc", "alone"), ("u0001",)
    assert split(*unknown_in_train)["dev"]["speaker"] is None, "and not none that is shared"
    assert split(*unknown_in_dev)["dev"]["speaker"] is None


def test_verify_names_whoever_talks_on_two_sides() -> None:
    """bert is the main speaker of no window, and anna of the one in dev."""
    main = {"c/anna": "dev", "c/carl": "train", "c/dora": "train"}
    stated = pa.table({"kind": ["speaker"] * 3, "name": [*main], "split": [*main.values()]})

    rows = with_split(CLIPS, {"wa": "dev"})
    assert faults_of(rows, stated, ["speaker"]) == ["the speaker c/bert is in two splits"]
    assert faults_of(rows, stated, []) == []
    apart = with_split([clip for clip in CLIPS if clip[0] != "wb"], {"wa": "dev"})
    assert faults_of(apart, stated, ["speaker"]) == []
