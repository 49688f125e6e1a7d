"""The clips of a recording vote on its language; whom they overrule is heard again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus
from tests.plugins import guessing_asr
from uttermill.tasks import pipeline
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.scoring.speech_by_language import SURE
from uttermill.tasks.settings import Plugin, TranscribeSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import annotated, manifest, recipe, text_values
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.shard_store.utterance import (
    SURE_SECONDS,
    UNHEARD,
    Utterance,
    Vote,
    is_surer,
    vote_of,
)
from uttermill.tasks.stages import stage, transcribe

GUESSING = {"use": "tests.plugins.guessing_asr"}


def row(code: str | None, probability: float = 0.5, text: str = "words") -> Any:
    return {"detected_language": code, "detected_probability": probability, "text": text}


def test_certainty_is_the_mean_probability_over_time() -> None:
    vote = vote_of([(row("en", 0.9), 10.0), (row("cy", 0.3), 2.0), (row("en"), 1.0)])
    assert vote is not None
    assert vote.language == "en"
    assert vote.shares == {"cy": pytest.approx(0.6 / 13), "en": pytest.approx(9.5 / 13)}


@pytest.mark.parametrize(
    "clips",
    [
        [],
        [(row("en"), 5.0)] * 2,
        [(row(None), 5.0)] * 9,
        [(row("en", text=" "), 5.0)] * 9,
        [({"text": "of a recogniser without detection"}, 5.0)] * 9,
    ],
)
def test_too_few_have_no_vote(clips: Any) -> None:
    assert vote_of(clips) is None


def test_music_has_no_language() -> None:
    vote = vote_of([(row("en", 0.4), 5.0)] * 9)
    assert vote is not None
    assert vote.shares == {"en": pytest.approx(0.4)}
    assert vote.language is None


def test_half_and_half_is_no_majority() -> None:
    vote = vote_of([(row("en", 0.9), 5.0), (row("de", 0.9), 5.0)] * 4)
    assert vote is not None
    assert vote.language is None
    assert not vote.overrules(row("de"), 1.0)


def test_strong_evidence_stands() -> None:
    vote = Vote({"cy": 0.1, "en": 0.9})
    assert vote.overrules(row("cy", 0.5), 20.0)
    assert vote.overrules(row("cy", SURE), SURE_SECONDS - 0.1)
    assert not vote.overrules(row("cy", SURE), SURE_SECONDS)
    assert not vote.overrules(row("en", 0.1), 1.0)


def test_a_recording_may_have_a_second_language_in_short_clips() -> None:
    english, russian = [(row("en", 0.95), 6.0)] * 6, (row("ru", 0.95), 3.0)
    one, two = (vote_of([*english, *[russian] * n]) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert one.overrules(*russian)
    assert not two.overrules(*russian)
    assert not two.overrules(row("ru", 0.6), 2.0)
    assert two.overrules(row("ru", 0.4), 2.0)
    hours = vote_of([*english * 20, *[russian] * 2])
    assert hours is not None
    assert hours.overrules(*russian), "two guesses in an hour are no language"


def segmented(tmp: Path, **transcribe: Any) -> Any:
    """One recording of 10 s whose segments are four of 2 s and two of 0.8 s."""
    wav = tmp / "in" / "long.wav"
    wav.parent.mkdir()
    sf.write(wav, corpus.speech(1, 12.0, 16000), 16000, "PCM_16")
    kaldi = tmp / "kaldi"
    kaldi.mkdir()
    (kaldi / "wav.scp").write_text(f"long {wav}\n")
    spans = [(0.0, 2.0), (2.0, 4.0), (4.0, 4.8), (5.0, 7.0), (7.0, 7.8), (8.0, 10.0)]
    lines = [f"u{n} long {start} {end}\n" for n, (start, end) in enumerate(spans)]
    (kaldi / "segments").write_text("".join(lines))
    return corpus.job(
        tmp,
        sources=[{"kind": "kaldi", "path": str(kaldi), "name": "c"}],
        filter={"segmenter": {"use": "given"}},
        transcribe={"backend": GUESSING, **transcribe},
    )


def published(job: Any) -> list[dict[str, Any]]:
    version, _ = corpus.run(job)
    rows = corpus.utterances(version.path)
    return sorted(rows, key=lambda r: r["start"])


def test_clips_that_are_overruled_are_heard_again(tmp_path: Path) -> None:
    job = segmented(tmp_path)
    rows = published(job)
    assert [r["language"] for r in rows] == ["en"] * 6
    assert [r["detected_language"] for r in rows] == ["en", "en", "cy", "en", "cy", "en"]
    assert {r["text"] for r in rows} == {"some words in en"}
    assert rows[2]["language_probability"] is None  # it was told
    assert rows[0]["language_vote"] == pytest.approx(0.97 * 8 / 9.6)
    _, counts = corpus.run(job)
    assert counts["transcribe"] == (0, 6)


@pytest.mark.parametrize(
    ("own", "other", "stays"),
    [(-0.2, -0.8, True), (-0.2, -0.25, False), (-0.8, -0.2, False), (None, -0.2, False)],
)
def test_a_text_in_the_recordings_language_is_better_unless_it_is_less_sure(
    own: float | None, other: float, stays: bool
) -> None:
    texts: list[Any] = [
        {"avg_logprob": own, "text": "cywir", "language": "cy"},
        {"avg_logprob": other, "text": "right", "language": "en"},
    ]
    assert is_surer(*texts) == stays


def test_a_text_in_its_languages_script_is_better() -> None:
    right: Any = {"avg_logprob": -0.9, "text": "Привет.", "language": "ru"}
    wrong: Any = {"avg_logprob": -0.1, "text": "Привет.", "language": "en"}
    assert is_surer(right, wrong)
    assert not is_surer(wrong, right)


def test_a_surer_text_in_its_own_language_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word in another language is written by its sound in the recording's."""
    monkeypatch.setattr(guessing_asr, "GUESSED_LOGPROB", -0.05)
    job = segmented(tmp_path, verdicts=[{"use": "empty_text"}])
    rows = published(job)
    assert [r["language"] for r in rows] == ["en", "en", "cy", "en", "cy", "en"]
    assert rows[2]["text"] == "some words in cy"
    assert rows[2]["language_probability"] == 0.6  # the vote says nothing for it
    assert rows[2]["language_vote"] == pytest.approx(0.6 * 1.6 / 9.6)
    (shard,) = manifest.shards(job.out)
    view = prune._View(
        prune.KeptSettings(job, recipe.weights_of(job.transcribe.recognisers)), shard, None
    )
    assert len(view.transcripts) == 8
    assert view.transcripts.keys() <= view.wanted_texts, "prune keeps both texts of a clip"
    _, counts = corpus.run(job)
    assert counts["transcribe"] == (0, 6)


def judged(values: dict[str, Any]) -> str | None:
    found = judge(values, annotated.rules_of("text", (Plugin(use="language"),)))
    return found.reason if found else None


@pytest.mark.parametrize(
    ("contradiction", "logprob", "wer", "reason"),
    [
        (0.97, -0.8, None, "language_contradicted"),
        (0.9, -0.8, None, None),  # weak evidence
        (0.97, -0.3, None, None),  # the stated language makes sense
        (0.97, -0.8, 0.4, None),  # the reference says so
        (None, -0.8, None, None),
    ],
)
def test_a_stated_language_is_contradicted_by_strong_evidence_alone(
    contradiction: float | None, logprob: float, wer: float | None, reason: str | None
) -> None:
    values = {"language_contradiction": contradiction, "avg_logprob": logprob, "wer": wer}
    assert judged({**values, "language_probability": None}) == reason


def test_a_clip_is_as_certain_as_its_recording() -> None:
    recording: Any = {}
    utterance = Utterance("", recording, 0, 1, 1, None, {}, "", UNHEARD, vote=Vote({"en": 0.8}))

    def certainty(language: str, probability: float) -> float | None:
        heard: Any = {"language": language, "language_probability": probability}
        return text_values._language_probability(utterance, heard)

    assert certainty("en", 0.3) == 0.8
    assert certainty("cy", 0.3) == 0.3
    assert certainty("en", 0.99) == 0.99


def test_a_killed_first_round_ends_alike(tmp_path: Path) -> None:
    """The vote waits until every clip of the recording was heard."""
    job = segmented(tmp_path)
    whole = published(job)
    again = replace(job, out=tmp_path / "other")
    listing = again.out / "manifests" / ".listing"
    (shard,) = pipeline.run_shard_stage(again, Executor(), listing).shards
    for name in ("filter", "resample"):
        stage.run(name, again, shard)
    units, _ = transcribe.todo(ShardView(again, shard))
    sink = stage.Sink("transcribe", again, shard)
    for rows in transcribe.compute(units[:4], again):
        sink.add(rows)
    sink.commit()  # a kill after four of six clips
    units, reused = transcribe.todo(ShardView(again, shard))
    assert ([unit.asked.language for unit in units], reused) == ([None, None], 4)
    assert published(again) == whole


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        ({"backend": {"use": "none"}}, 1),
        ({"backend": {"use": "fake"}, "language_by": "clip"}, 1),
        ({"backend": {"use": "fake"}}, 2),
        ({"backends": [{"use": "fake"}, {"use": "fake", "seed": 1}]}, 3),
        (
            {
                "backends": [{"use": "fake"}, {"use": "fake", "seed": 1}],
                "llm_text": {"url": "http://localhost:1", "model": "m"},
            },
            4,
        ),
    ],
)
def test_transcribe_looks_again_only_if_its_answers_ask_for_more(
    settings: dict[str, Any], rounds: int
) -> None:
    job = Job(Path("out"), transcribe=TranscribeSettings(**settings))
    assert transcribe.rounds(job) == rounds
