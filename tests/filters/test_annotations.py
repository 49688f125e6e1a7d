"""Annotations: what plug-ins say of a clip that is no number, from the plug-in to a version."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.plugins import tagging
from uttermill.flows import checks
from uttermill.tasks import plugins
from uttermill.tasks.api import Array, Event, Events, Label, Vector
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.plugins import annotation_kinds
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest

USE = "tests.plugins.tagging"
LARGE = ("tagging_voice", "tagging_level", "tagging_sounds", "moods_words")


def asked(home: Path, *publish: str, tags: Any = (), moods: Any = (), **package: Any) -> Job:
    """A job with the two plug-ins of these tests."""
    tagging = {"use": USE, "measured": str(home / "measured"), **dict(tags)}
    verdicts = [{"use": "tests.plugins.moods", **dict(moods)}]
    transcribe = {"backend": {"use": "fake"}, "verdicts": verdicts}
    package = {"publish": publish, "max_failed_fraction": 1.0, **package}
    return corpus.job(home, filter=corpus.filters(tagging), transcribe=transcribe, package=package)


def table(version: Path) -> list[dict[str, Any]]:
    rows = corpus.utterances(version)
    return sorted(rows, key=lambda row: row["id"])


def measured(home: Path) -> int:
    return len((home / "measured").read_text().splitlines())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 3)
    return tmp_path


def test_kinds_keep_their_values_exactly() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Label("x", ("a b", "ü")), "ü"),
        (Label("x"), "any text"),
        (Vector("x", 3), [1, 2.5, -3]),
        (Array("x", 10.0), np.linspace(0, 1, 20)),
    ]
    for kind, value in pairs:
        checked = kind.checked(value, 2.0)
        again = kind.decoded(kind.encoded(checked))
        assert np.array_equal(again, np.asarray(value, np.float32) if kind.large else value)
        assert pa.array([again], kind.type).to_pylist()[0] is not None
    events = Events("x", ("a", "b"))
    given = [Event(1.0, 2.01, "b", 0.5), ("0", 1, "a", None)]
    checked_events = events.checked(given, 2.0)
    assert checked_events == [Event(0.0, 1.0, "a"), Event(1.0, 2.0, "b", 0.5)]
    assert events.decoded(events.encoded(checked_events)) == [
        {"start": 0.0, "end": 1.0, "label": "a", "score": None},
        {"start": 1.0, "end": 2.0, "label": "b", "score": 0.5},
    ]


def test_a_version_has_labels_always_and_large_ones_where_asked(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    rows = table(one.path)
    assert {row["tagging_length"] for row in rows} == {"short", "long"}
    assert {row["moods"] for row in rows} <= {"even", "odd"}
    assert not {*LARGE} & {*rows[0]}
    for row in rows:  # shares of events are columns like any
        seconds = row["end"] - row["start"]
        assert row["tagging_sounds_start"] == pytest.approx(0.05 / seconds)
        assert row["tagging_sounds_loud_part"] == pytest.approx(0.15 / seconds)
    assert "tagging_peak" in rows[0]
    two, counts = corpus.run(asked(home, *LARGE))
    assert all(counts[stage][0] == 0 for stage in ("filter", "resample", "transcribe"))
    rows = table(two.path)
    for row in rows:
        assert len(row["tagging_voice"]) == 3
        assert row["tagging_level"] is None or len(row["tagging_level"]) == 10
        assert [event["label"] for event in row["tagging_sounds"]] == ["start", "Loud part"]
        words = [event["label"] for event in row["moods_words"]]
        assert words == row["text"].lower().split()
    field = pq.read_schema(two.path / "utterances.parquet").field("tagging_level")
    assert field.type == pa.list_(pa.float32())
    assert field.metadata[b"rate"] == b"10"
    assert verify(one.path) == verify(two.path) == []


def test_nothing_is_measured_twice_and_a_night_adds_what_is_new(home: Path) -> None:
    corpus.run(asked(home, *LARGE))
    assert measured(home) == 3
    _, counts = corpus.run(asked(home, *LARGE))
    assert {stage: computed for stage, (computed, _) in counts.items()} == dict.fromkeys(counts, 0)
    corpus.add(home / "in", 3)
    three, counts = corpus.run(asked(home, *LARGE))
    assert counts["filter"] == (1, 3)
    assert measured(home) == 4
    assert len(table(three.path)) == 4
    assert verify(three.path) == []


def test_a_part_with_annotations_alone_is_needed(home: Path) -> None:
    """Parts of a filter that was added later stay, when obsolete ones are removed."""
    job = asked(home)
    plain = replace(job, filter=corpus.job(home, filter=corpus.filters()).filter)
    corpus.run(plain)
    corpus.run(job)
    [shard] = manifest.shards(job.out)
    parts = manifest.read(job.out, "filter", shard)
    for part in parts:
        sets = {name for pairs in part.table["prints"].to_pylist() for name, _ in pairs or ()}
        assert sets <= prune._of([USE])
    unneeded = prune.find_unneeded(job.out, shard, [prune.KeptSettings(job, "")], None)
    assert not {part.path for part in parts} & {*unneeded.manifests}
    unneeded = prune.find_unneeded(job.out, shard, [prune.KeptSettings(plain, "")], None)
    assert {part.path for part in parts[1:]} <= {*unneeded.manifests}


@pytest.mark.parametrize(
    "limit", [{"allowed_length": ["short"]}, {"max_sounds_share": {"start": 0.1}}]
)
def test_limits_are_free_and_what_if_tells_them(home: Path, limit: dict[str, Any]) -> None:
    corpus.run(asked(home))
    job = asked(home, tags=limit)
    _, told = what_if.kept(asked(home), job)
    one, counts = corpus.run(job)
    assert measured(home) == 3
    assert counts["filter"] == (0, 3)
    rows = table(one.path)
    assert 0 < len(rows) < 3
    assert told["items"] == len(rows)
    ledger = corpus.ledger(one.path)
    [reason] = {row["reason"] for row in ledger if row["outcome"] == "dropped"}
    assert reason in ("wrong_tagging_length", "high_tagging_sounds_start")


def test_a_label_on_text_is_judged(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    moods = {row["moods"] for row in table(one.path)}
    kept = sorted(moods)[0]
    two, counts = corpus.run(asked(home, moods={"allowed": [kept]}))
    assert {row["moods"] for row in table(two.path)} == {kept}
    assert counts["transcribe"][0] == 0


@pytest.mark.parametrize("fault", [*tagging.WRONG, "lacking"])
def test_a_wrong_value_is_loud_and_names_the_plugin(home: Path, fault: str) -> None:
    with pytest.raises(RunError, match=r"the filter tests\.plugins\.tagging gives .*tagging_"):
        corpus.run(asked(home, tags={"fault": fault}))


def test_a_wrong_value_of_a_plugin_on_text_is_loud(home: Path) -> None:
    with pytest.raises(RunError, match=r"plug-in on text tests\.plugins\.moods .*moods_words.*-1"):
        corpus.run(asked(home, moods={"fault": True}))


@pytest.mark.full
def test_open_labels_on_text_are_masked_like_texts(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    corpus.listed(tmp_path / "in", 1, tmp_path / "list.jsonl", r00="my phone number 212 555 0134")
    source = {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "language": "en"}
    verdicts = [{"use": "tests.plugins.moods"}]
    published = []
    for chosen in (verdicts, [*verdicts, {"use": "pii"}]):
        job = corpus.job(
            tmp_path,
            sources=[source],
            transcribe={"backend": {"use": "fake"}, "verdicts": chosen},
            package={"publish": ["moods_words"]},
        )
        one, _ = corpus.run(job)
        [row] = table(one.path)
        published.append([event["label"] for event in row["moods_words"]])
    assert published[0] == ["my", "phone", "number", "212", "555", "0134"]
    assert published[1][:3] == published[0][:3]
    assert not {*published[1]} & {"212", "555", "0134"}


def refused(home: Path, *publish: str, **changes: Any) -> str:
    corpus.make(home / "in", 1)
    filters = [{"use": USE, **changes}]
    wishes = corpus.wishes(home, filter={"filters": filters}, package={"publish": [*publish]})
    with pytest.raises(ConfigError) as error:
        checks.check_wishes(wishes)
    return str(error.value)


def test_settings_that_name_nothing_are_refused(tmp_path: Path) -> None:
    assert "nothing gives 'voices'; it may name speaker_embedding" in refused(tmp_path, "voices")
    assert "turns needs a diarizer" in refused(tmp_path, "turns")
    wrong = refused(tmp_path, max_sounds_share={"music": 0.5})
    assert "no label 'music' with a share; start, Loud part" in wrong


@pytest.mark.parametrize(
    ("declared", "word"),
    [({"text": Label("x")}, "'text'"), ({"a b": Label("x")}, "'a b'"),
     ({"turns": Label("x")}, "'turns'"),
     ({"tagging_peak": Label("x")}, "'tagging_peak'")],
)  # fmt: skip
def test_annotations_have_names_of_their_own(
    declared: dict[str, Label], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tagging, "ANNOTATIONS", declared)
    plugins.Shelf.load.cache_clear()
    try:
        with pytest.raises(ConfigError, match=word):
            plugins.FILTERS.load(USE)
    finally:
        plugins.Shelf.load.cache_clear()


def names(declared: Sequence[str], use: str) -> dict[str, tuple[str, ...]]:
    return annotation_kinds.limits(use, {name: Label("x") for name in declared})


def test_limits_are_called_after_the_annotation() -> None:
    assert names(["tags"], "my.tags") == {"tags": ("allowed",)}
    assert names(["other"], "my.tags") == {"other": ("allowed",)}
    assert names(["tags_a", "tags", "b"], "tags") == {
        "tags_a": ("allowed_a",), "tags": ("allowed",), "b": ("allowed_b",)
    }  # fmt: skip
    assert annotation_kinds.limits("tags", {"tags": Events("x", ("a",))}) == {
        "tags": ("min_share", "max_share")
    }


@pytest.mark.full
def test_stored_labels_of_another_recipe_do_not_count(home: Path) -> None:
    corpus.run(asked(home))
    one, counts = corpus.run(asked(home, tags={"long": 0.01}))
    assert counts["filter"] == (3, 0)
    assert {row["tagging_length"] for row in table(one.path)} == {"long"}


@pytest.mark.full
def test_settings_tell_what_is_published(home: Path) -> None:
    one, _ = corpus.run(asked(home))
    two, _ = corpus.run(asked(home, "moods_words"))
    told = [
        json.loads((v.path / "dataset.json").read_text())["settings"]["package"] for v in (one, two)
    ]
    assert [each["publish"] for each in told] == [[], ["moods_words"]]
