"""`plan` says before a run what the run then does, item by item, and which settings cause it."""

import shutil
from collections.abc import Container
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from uttermill.tasks import plugins
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.insight.estimating.expected import Expected
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision

SHARD = {"settle_seconds": 0, "hours": corpus.seconds_of(0) * 4 / 3600}
STAGES = corpus.STAGES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in")
    corpus.run(asked(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `home`, for tests that change nothing there."""
    home = tmp_path_factory.mktemp("kept")
    corpus.make(home / "in")
    corpus.run(asked(home))
    return home


def asked(home: Path, **changes: Any) -> Job:
    return corpus.job(home, **{"shard": SHARD, **changes})


def planned(job: Job, before: Job | None) -> tuple[dict[str, tuple[int, int]], planning.Plan]:
    plan = planning.plan(job, before)
    return {name: (a.compute, a.reuse) for name, a in plan.stages.items()}, plan


def test_nothing_to_do(kept: Path) -> None:
    told, plan = planned(asked(kept), asked(kept))
    assert told == dict.fromkeys(STAGES, (0, 10)) == corpus.run(asked(kept))[1]
    assert plan.changes == []
    assert plan.clips == (10, 10)


SEVERAL = [{"use": "fake"}, {"use": "fake", "seed": 3}]


@pytest.mark.parametrize(
    ("changes", "causes"),
    [
        ({"resample": {"rate": 24000}}, ["resample.rate"]),
        ({"transcribe": {"backend": {"use": "fake", "seed": 3}}}, ["transcribe.backend.seed"]),
        ({"transcribe": {"backend": {"use": "fake"}, "backends": SEVERAL}},
         ["transcribe.backends"]),
        ({"filter": corpus.filters(max=1.1)}, ["filter.filters.duration.max"]),
        ({"filter": corpus.filters({"use": "peak"})}, ["filter.filters.peak"]),
        ({"package": {"formats": ["nemo"]}}, ["package.formats.nemo", "package.formats.wenet"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
@pytest.mark.nightly
def test_a_changed_setting_is_named_and_its_work_counted(
    home: Path, changes: dict[str, Any], causes: list[str]
) -> None:
    then = asked(home, **changes)
    told, plan = planned(then, asked(home))
    assert [change.setting for change in plan.changes] == causes
    assert told == corpus.run(then)[1]
    for name, amount in plan.stages.items():
        assert set(amount.because) <= set(causes), name
        assert bool(amount.compute) == bool(amount.because), name


def test_a_clip_that_a_person_dropped_is_not_expected_again(home: Path) -> None:
    """Whatever another recogniser hears in it."""
    ids = pq.read_table(home / "out/datasets/v0001/utterances.parquet")["id"].to_pylist()
    decision = Decision(ids[0], "drop", when="2026-01-01T00:00:00Z")
    decision_log.append(asked(home).out, [decision])
    then = asked(home, transcribe={"backend": {"use": "fake", "seed": 3}})
    told, plan = planned(then, asked(home))
    assert plan.clips == (10, 9)
    assert told == corpus.run(then)[1]
    assert planned(then, then)[1].clips == (9, 9)


def test_recordings_cut_anew_are_expected_to_give_as_many_clips_as_before(tmp_path: Path) -> None:
    """It expected clips of 10 s."""

    def windows(overlap: float) -> Job:
        simple = {"use": "applio", "mode": "simple", "window_seconds": 1}
        cut = Plugin(**simple, overlap_seconds=overlap)
        limits = {"segmenter": cut, "filters": [{"use": "duration", "min": 0.5}]}
        return corpus.job(tmp_path, filter=limits)

    (tmp_path / "in").mkdir()
    sf.write(tmp_path / "in/long.wav", corpus.speech(1, 20.25, 16000), 16000)
    corpus.run(windows(0))
    told, plan = planned(windows(0.05), windows(0))
    assert plan.clips == (20, 20)
    assert told["transcribe"] == (20, 0)
    assert corpus.run(windows(0.05))[1]["package"] == (21, 0)


def test_of_texts_that_are_made_again_as_many_pass_as_before(home: Path) -> None:
    rows = pq.read_table(home / "out/datasets/v0001/utterances.parquet").to_pylist()
    rates = sorted(len(row["text"]) * row["sample_rate"] / row["num_samples"] for row in rows)
    limit = {"use": "char_rate", "max_alphabetic": (rates[5] + rates[6]) / 2}
    given = {"transcribe": {"backend": {"use": "fake"}, "verdicts": [limit]}}
    passed = len(pq.read_table(corpus.run(asked(home, **given))[0].path / "utterances.parquet"))
    assert 2 < passed < 9
    plan = planned(asked(home, **given, resample={"rate": 8000}), asked(home, **given))[1]
    assert plan.clips == (passed, passed)


@pytest.mark.parametrize("setting", ["max_seconds", "target_seconds"])
def test_no_expected_clip_is_longer_than_its_segmenter_allows(tmp_path: Path, setting: str) -> None:
    expected = Expected(
        corpus.job(tmp_path, filter={"segmenter": {"use": "vad", setting: 4}}), None
    )
    uncut: Any = {"segments": None}
    expected.add(uncut, 600.0, (), again=False)
    assert [each[2:] for each in expected.kept()] == [(150, 600.0)]


def test_a_segment_without_an_end_lasts_to_the_recording_s(tmp_path: Path) -> None:
    expected = Expected(corpus.job(tmp_path, filter={"segmenter": {"use": "given"}}), None)
    rest = dict.fromkeys(("source_id", "text", "speaker", "language", "words"))
    spans = ((1.0, 3.0), (4.0, None))
    given: Any = {**rest, "segments": [{"start": a, "end": b, **rest} for a, b in spans]}
    expected.add(given, 10.0, (), again=False)
    assert [each[2:] for each in expected.kept()] == [(2, 8.0)]


@pytest.mark.full
def test_new_changed_and_removed_recordings(home: Path) -> None:
    for number in (11, 12):
        corpus.add(home / "in", number)
    corpus.add(home / "in", 3, seed=99)
    (home / "in/r05.wav").unlink()
    told, plan = planned(asked(home, package={"max_removed_fraction": 1}), asked(home))
    assert plan.removed == 1
    for name in STAGES[:4]:
        assert told[name] == (3, 8), name
    done = corpus.run(asked(home, package={"max_removed_fraction": 1}))[1]
    assert done == told


@pytest.mark.nightly
def test_a_format_that_goes_writes_no_clip_again(home: Path) -> None:
    both = asked(home, package={"formats": ["nemo", "wenet"]})
    corpus.run(both)
    told, plan = planned(asked(home), both)
    assert told == dict.fromkeys(STAGES, (0, 10))
    assert plan.new, "a version without it is published all the same"
    published, counts = corpus.run(asked(home))
    assert (published.new, counts) == (True, told)
    again, _ = planned(both, asked(home))
    assert again["package"] == corpus.run(both)[1]["package"] == (10, 0), "control: one that comes"


@pytest.mark.nightly
def test_a_moved_recording_is_no_new_one(home: Path) -> None:
    """It is read again, and neither cut nor heard again; its clips have new names."""
    (home / "in/later").mkdir()
    (home / "in/r05.wav").rename(home / "in/later/was-5.wav")
    corpus.add(home / "in", 11)
    told, plan = planned(asked(home), asked(home))
    assert plan.removed == 0
    assert told["shard"] == (2, 9)
    assert {told[name] for name in STAGES[1:4]} == {(1, 10)}
    assert told == corpus.run(asked(home))[1]
    assert planned(asked(home), asked(home))[0] == dict.fromkeys(STAGES, (0, 11))


def test_other_weights_under_equal_settings_are_named(
    kept: Path, monkeypatch: pytest.MonkeyPatch, no_recipe_kept: None
) -> None:
    """A folder of a model whose files were replaced."""
    monkeypatch.setattr(plugins.ASR.load("fake"), "weights", lambda settings: "0123456789abcdef")
    told, plan = planned(asked(kept), asked(kept))
    assert told["transcribe"] == (10, 0)
    assert told["resample"] == (0, 10)
    (change,) = plan.changes
    assert change == ("transcribe.backend", "weights fake", "weights 01234567")
    assert list(plan.stages["transcribe"].because) == ["transcribe.backend"]


def test_other_code_of_a_filter_is_named(
    kept: Path, monkeypatch: pytest.MonkeyPatch, no_recipe_kept: None
) -> None:
    monkeypatch.setattr(plugins.FILTERS.load("duration"), "VERSION", 99)
    told, plan = planned(asked(kept), asked(kept))
    assert told["filter"] == (10, 0)
    assert [change.setting for change in plan.changes] == ["filter.filters.duration"]
    assert list(plan.stages["filter"].because) == ["filter.filters.duration"]


@pytest.mark.nightly
def test_a_change_and_new_recordings_are_both_named(home: Path) -> None:
    corpus.add(home / "in", 11)
    then = asked(home, resample={"rate": 8000})
    told, plan = planned(then, asked(home))
    assert told == corpus.run(then)[1]
    assert list(plan.stages["resample"].because) == ["resample.rate", "sources"]
    assert list(plan.stages["filter"].because) == ["sources"]
    new = corpus.seconds_of(11)
    assert plan.stages["resample"].seconds - plan.again == pytest.approx(new, abs=1e-3)


def test_settings_of_a_run_that_did_not_get_far_are_still_the_cause(kept: Path) -> None:
    """The newest run had other settings, and was interrupted before it converted anything."""
    plan = planned(asked(kept, resample={"rate": 8000}), asked(kept, resample={"rate": 24000}))[1]
    assert list(plan.stages["resample"].because) == ["resample.rate"]


def test_a_killed_run_is_finished_without_a_cause(home: Path) -> None:
    for path in corpus.parts(home / "out", "manifests/transcribe"):
        path.unlink()
    told, plan = planned(asked(home), asked(home))
    assert told["transcribe"] == (10, 0)
    assert plan.changes == []
    assert plan.stages["transcribe"].because == {}


@pytest.mark.nightly
def test_a_removed_copy_is_not_gone(home: Path) -> None:
    """The plan said that the run would refuse, and it published."""
    copied = home / "in/copied.wav"
    shutil.copy(home / "in/r01.wav", copied)
    corpus.run(asked(home))
    copied.unlink()
    strict = asked(home, package={"max_removed_fraction": 0.05})
    assert planned(strict, asked(home))[1].refusal is None
    result, _ = corpus.run(strict)
    assert result.new


@pytest.mark.nightly
def test_settings_of_a_diarizer_are_causes(home: Path) -> None:
    given = asked(home, speakers=Plugin(use="given"))
    told, plan = planned(given, asked(home))
    assert told["filter"] == (10, 0), "cut again, at turns"
    for stage in ("filter", "resample", "transcribe"):
        assert list(plan.stages[stage].because) == ["speakers.use"]
    corpus.run(given)
    longer = Plugin.model_validate({"use": "given", "min_turn_seconds": 0.9})
    plan = planned(asked(home, speakers=longer), given)[1]
    assert list(plan.stages["filter"].because) == ["speakers.min_turn_seconds"]
    back = planned(asked(home), given)[1]
    assert [change.setting for change in back.changes] == ["speakers.use"]


# `plan` counts the clips that package writes again or leaves out where nothing is computed.


HELD = {"package": {"formats": [{"use": "hf_parquet"}]}}
COMPUTED = dict.fromkeys(corpus.STAGES[:-1], (0, 10))


def package_job(corpus_home: Path, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(corpus_home / "all.jsonl"), "name": "c"}
    return corpus.job(corpus_home, sources=[source], **changes)


@pytest.fixture
def corpus_home(tmp_path: Path) -> Path:
    texts = {f"r{n:02d}": f"Reference, number {n}." for n in range(10)}
    corpus.listed(corpus.make(tmp_path / "in"), 10, tmp_path / "all.jsonl", **texts)
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        ({}, {"package": {"weights": {"c": 0.5}}}, range(1, 10)),
        tiers.nightly({"package": {"weights": {"c": 0.5}}}, {}, range(1, 11)),
        tiers.nightly(
            {"package": {"weights": {"c": 0.4}}}, {"package": {"weights": {"c": 0.7}}}, range(1, 10)
        ),
        tiers.nightly({}, {"package": {"splits": {"dev": 0.2}}}, [10]),
        tiers.nightly(
            {"package": {"splits": {"dev": 0.2}}}, {"package": {"splits": {"dev": 0.3}}}, [0]
        ),
        tiers.nightly({}, {"package": {"text_form": "normalised"}}, [10]),
        tiers.nightly({}, {"transcribe": {"text": "asr"}}, [10]),
        ({"filter": corpus.filters({"use": "peak"}), **HELD}, HELD, [10]),  # a format holds them
        tiers.nightly({"filter": corpus.filters({"use": "peak"})}, {}, [0]),
    ],
    ids=[
        *("weight", "no_weight", "more_weight", "splits", "fractions", "text_form", "text"),
        *("measures", "no_measures"),
    ],
)
def test_what_package_alone_changes_is_foreseen(
    corpus_home: Path, before: dict[str, Any], after: dict[str, Any], written: Container[int]
) -> None:
    corpus.run(package_job(corpus_home, **before))
    plan = planning.plan(package_job(corpus_home, **after), package_job(corpus_home, **before))
    package = plan.stages["package"]
    foreseen = {name: (each.compute, each.reuse) for name, each in plan.stages.items()}
    published, done = corpus.run(package_job(corpus_home, **after))
    assert foreseen == done == COMPUTED | {"package": (package.compute, package.reuse)}
    assert plan.clips[1] == published.summary["utterances"]["packaged"]
    assert package.compute in written
    assert bool(package.compute) == bool(package.because)
