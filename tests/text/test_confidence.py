"""The verdict `confidence`: its number from scores, what it drops, and on real speech."""

import sys
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.helpers import corpus, corpus_speech
from tests.helpers.fetched import CORPUS
from tests.text.test_near_texts import ADVERT
from tests.text.test_text import reason
from uttermill.tasks import plugins
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.plugins import loading
from uttermill.tasks.plugins.rules import Rejection, judge
from uttermill.tasks.publish.corpus import ROW, rejections
from uttermill.tasks.publish.corpus.rejections import TranscribedRows
from uttermill.tasks.settings import Plugin
from uttermill.tasks.text import (
    ScoredTranscript,
    char_duration,
    confidence,
    expected_wer,
    language_agrees,
    repeated_text,
)
from uttermill.tasks.text.char_duration import Settings


def value(text: str, seconds: float, **known: float | None) -> float | None:
    heard = ScoredTranscript(text, "asr", seconds, text, **known)  # type: ignore[arg-type]
    return confidence.measure(heard, confidence.Settings())["confidence"]


@pytest.mark.parametrize(
    ("text", "seconds", "known", "expected"),
    [
        ("what was said there", 9.5, {"avg_logprob": -0.4, "no_speech_probability": 0.25},
         -0.4 + log(0.75) + 3 / 20),
        # what is not known says nothing; without the text's own score there is no number
        ("what was said there", 9.5, {"avg_logprob": -0.4}, -0.4 + 3 / 20),
        ("what was said there", 9.5, {"no_speech_probability": 0.25}, None),
        ("what was said there", 9.5, {"avg_logprob": -1.0, "compression_ratio": -1.0}, None),
        # the language is another verdict's
        ("what was said there", 9.5, {"avg_logprob": -0.4, "language_probability": 0.1},
         -0.4 + 3 / 20),
        # the allowance is the word's in a short clip, not in a long one
        ("Seven.", 0.4, {"avg_logprob": -1.0}, -1.0 + 3 / 2),
        ("Seven.", 9.5, {"avg_logprob": -1.0}, -1.0 + 3 / 20),
        ("想听歌曲老男孩", 1.0, {"avg_logprob": -1.0}, -1.0 + 3 / 8),
        # certain that nobody speaks: low, and finite
        ("you", 9.5, {"avg_logprob": -1.0, "no_speech_probability": 1.0}, -1 + log(1e-6) + 3 / 20),
    ],
)  # fmt: skip
def test_the_number(
    text: str, seconds: float, known: dict[str, float], expected: float | None
) -> None:
    found = value(text, seconds, **known)
    assert found == (None if expected is None else pytest.approx(expected))


def test_words_are_those_that_were_heard() -> None:
    """The scores are of the hypothesis, whatever text is packaged."""
    long = "a reference of many more words than anybody heard in this clip here"
    heard = ScoredTranscript(long, "reference", 1.0, "Seven.", long, avg_logprob=-1.0)
    found = confidence.measure(heard, confidence.Settings())["confidence"]
    assert found == pytest.approx(-1.0 + 3 / 3)


@pytest.mark.parametrize(
    ("text", "seconds", "scores", "dropped"),
    [
        # (avg_logprob, no_speech_probability) as Whisper base gave them
        ("I really like that account of himself, better than anything.", 4.8, (-0.22, 0.07),
         False),  # pink noise at 10 dB
        ("How do you like that? I don't think so.", 4.8, (-0.94, 0.31), True),  # at -5 dB
        ("上海新東山走行機換轉", 3.9, (-1.13, 0.29), True),  # white noise at 5 dB
        ("Je ne sais pas ce que tu veux dire, je ne sais pas.", 8.6, (-1.1, 0.32), True),  # babble
        ("1-2-3", 5.0, (-1.21, 0.36), True),  # no speech
        ("Seven.", 0.4, (-0.67, 0.21), False),
        ("7.", 0.4, (-1.28, 0.55), False),
        ("Actualmente hay otro participante en la conferencia.", 4.7, (-0.07, 0.04), False),
    ],
)  # fmt: skip
def test_what_is_dropped(
    text: str, seconds: float, scores: tuple[float, float], dropped: bool
) -> None:
    logprob, no_speech = scores
    heard = ScoredTranscript(
        text, "asr", seconds, text, avg_logprob=logprob, no_speech_probability=no_speech
    )  # fmt: skip
    assert reason(heard, Plugin(use="confidence")) == ("low_confidence" if dropped else None)


@pytest.mark.needs("corpus")
@pytest.mark.nightly
def test_speech_under_loud_noise_is_dropped_and_under_soft_noise_kept() -> None:
    """Three languages through Whisper base and all the defaults, without a reference."""
    from tests.helpers import verdict_listening as listening
    from tests.helpers.verdict_clips import Said, carriers
    from tests.helpers.verdict_sounds import coloured, mixed

    found: dict[float, list[str | None]] = {}
    clips = []
    for number, said in enumerate(carriers(3)):
        noise = coloured(np.random.default_rng(number), len(said.samples), 0.0)
        for snr in (30.0, -7.0):
            loud = mixed(said.samples, noise, snr)
            clips.append(Said(said.name, "mixed", "white", loud, said.language, said.text, snr))
    for row in listening.hear(clips):
        found.setdefault(row.snr or 0, []).append(listening.reason(row.values))
    assert found[30.0] == [None] * 3
    assert None not in found[-7.0]


# The share of words that are probably wrong: no estimate where the scores tell nothing.


def transcript(text: str, logprob: float | None, ratio: float | None = 1.2) -> ScoredTranscript:
    return ScoredTranscript(
        text, "asr", 3.0, hypothesis=text, language="en", avg_logprob=logprob,
        no_speech_probability=0.0, compression_ratio=ratio,
    )  # fmt: skip


def expected(text: str, logprob: float | None, ratio: float | None = 1.2) -> float | None:
    return expected_wer.measure(transcript(text, logprob, ratio), expected_wer.Settings())[
        "expected_wer"
    ]


SENTENCE = "the mayor opened the new bridge"


def test_it_grows_with_the_recognisers_doubt() -> None:
    shares = [expected(SENTENCE, score) for score in (0.0, -0.1, -0.3, -0.6, -1.0, -30.0)]
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    assert shares[0] == pytest.approx(0.034, abs=0.001)
    assert shares[-1] == pytest.approx(1.0)


def test_a_short_text_is_doubted_less() -> None:
    assert (expected("open the door", -0.6) or 0) < (expected(SENTENCE, -0.6) or 0)
    assert reason(transcript("ten of clubs", -0.57), Plugin(use="expected_wer")) is None


@pytest.mark.parametrize(
    ("text", "logprob", "ratio"),
    [("five", -0.9, 1.0), ("oh no", -0.9, 1.0), (SENTENCE, None, 1.2), (SENTENCE, -0.9, None),
     (SENTENCE, -0.9, -1.0), ("", -0.9, 1.0)],
)  # fmt: skip
def test_there_is_no_estimate_without_its_scores_or_of_few_words(
    text: str, logprob: float | None, ratio: float | None
) -> None:
    assert expected(text, logprob, ratio) is None


@pytest.mark.parametrize(("logprob", "dropped"), [(-0.2, False), (-0.4, False), (-0.65, True)])
def test_the_default_limit(logprob: float, dropped: bool) -> None:
    found = reason(transcript(SENTENCE, logprob), Plugin(use="expected_wer"))
    assert found == ("text_doubtful" if dropped else None)


@pytest.mark.parametrize(
    ("probability", "logprob", "no_speech", "dropped"),
    [
        (None, -1.5, 0.5, False),
        (0.25, -1.5, 0.5, False),
        (0.005, -1.5, 0.5, True),
        (0.005, -0.7, 0.05, False),  # sure of its text, and of speech
        (0.0, -1.0, 1.0, True),
    ],
)
def test_words_of_short_clips_have_a_measure_of_their_own(
    probability: float | None, logprob: float, no_speech: float, dropped: bool
) -> None:
    heard = ScoredTranscript(
        "Bye.", "asr", 0.5, "Bye.", avg_logprob=logprob, no_speech_probability=no_speech,
        compression_ratio=1.0, text_probability=probability,
    )  # fmt: skip
    assert reason(heard, Plugin(use="expected_wer")) == ("text_doubtful" if dropped else None)
    evidence = expected_wer.measure(heard, expected_wer.Settings())["expected_wer_evidence"]
    if probability == 0.25:
        assert evidence == pytest.approx(log(0.255) - 1.5 + 2 * log(0.5))


def test_a_text_of_the_source_is_not_judged() -> None:
    """Its real error rate is known."""
    heard = ScoredTranscript(
        SENTENCE, "reference", 3.0, hypothesis="a mare opened no fridge", reference=SENTENCE,
        avg_logprob=-0.9, no_speech_probability=0.0, compression_ratio=1.0, wer=0.8,
    )  # fmt: skip
    estimate = expected_wer.measure(heard, expected_wer.Settings())["expected_wer"]
    assert estimate is not None
    assert estimate > expected_wer.Settings().max  # type: ignore[operator]
    assert reason(heard, Plugin(use="expected_wer")) is None


# Words that are heard in minutes of noise are not packaged.


def reasons(tmp: Path, **limits: Any) -> dict[str, str]:
    """Of noise of 65 s and of 20 s, in which a recogniser hears words."""
    (tmp / "in").mkdir()
    for name, seconds in (("long", 65.0), ("short", 20.0)):
        sf.write(tmp / "in" / f"{name}.wav", corpus.speech(1, seconds, 8000), 8000, "PCM_16")
    job = corpus.job(
        tmp,
        filter=corpus.filters(max=100.0),
        transcribe={
            "backend": {"use": "tests.plugins.guessing_asr"},
            "verdicts": [{"use": "no_speech", **limits}],
        },
    )
    version, _ = corpus.run(job)
    rows = corpus.ledger(version.path)
    return {row["recording"]: row["reason"] for row in rows}


@pytest.mark.parametrize(
    ("limits", "reason"), [({}, "little_speech"), ({"min_recording_speech": None}, "packaged")]
)
def test_a_long_recording_needs_speech(tmp_path: Path, limits: Any, reason: str) -> None:
    assert reasons(tmp_path, **limits) == {"c/long.wav": reason, "c/short.wav": "packaged"}


# The rule on texts that many clips have.


COLUMNS = ("id", "normalised", "seconds", "kept")


def dropped(
    rows: Sequence[tuple[str, str | None, float, bool]],
    published: Sequence[str] = (),
    **settings: Any,
) -> dict[str, tuple[float | None, float | None]]:
    """(value, limit) of each rejected clip, by id."""
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    seen = rejections.TranscribedRows(
        lambda columns: [table.select([*columns])],
        lambda ids: np.isin(ids.to_pylist(), [*published]),
    )
    found, _ = repeated_text.reject(seen, repeated_text.Settings(**settings), {})
    return {rows[at][0]: (no.value, no.threshold) for at, no in found}


def clips(count: int, text: str = ADVERT) -> list[tuple[str, str | None, float, bool]]:
    return [(f"u{n:02d}", text, 2.5, True) for n in range(count)]


def test_more_clips_of_a_text_than_asked_are_dropped() -> None:
    rows = [*clips(5), ("v", "another one", 2.5, True), ("w", None, 2.5, True)]
    assert dropped(rows) == {}, "generous unless asked"
    assert dropped(rows, max_times=3) == {"u03": (4.0, 3.0), "u04": (5.0, 3.0)}
    assert dropped(rows[::-1], max_times=3).keys() == {"u03", "u04"}
    assert dropped(rows, ["u04"], max_times=3).keys() == {"u02", "u03"}, "published ones stay"


def test_clips_that_other_rules_dropped_do_not_count() -> None:
    rows = [(name, text, seconds, name != "u00") for name, text, seconds, _ in clips(4)]
    assert dropped(rows, max_times=2).keys() == {"u03"}


def test_the_limit_may_be_seconds() -> None:
    rows = clips(4)
    assert dropped(rows, max_times=None, max_seconds=5) == {"u02": (7.5, 5.0), "u03": (10.0, 5.0)}
    assert dropped(rows, max_times=None, max_seconds=0).keys() == {"u01", "u02", "u03"}
    both = dropped(rows, max_times=3, max_seconds=5)
    assert both == {"u03": (4.0, 3.0), "u02": (7.5, 5.0)}


@pytest.mark.parametrize("near", [True, False])
def test_near_equal_texts_count_as_one(near: bool) -> None:
    rows = [*clips(2), ("v", f"and {ADVERT}", 2.5, True)]
    assert (dropped(rows, max_times=2, near=near).keys() == {"v"}) is near


@pytest.mark.full
def test_a_run_drops_them_and_a_night_keeps_what_is_published(tmp_path: Path) -> None:
    folder = corpus.make(tmp_path / "in")
    texts = {f"r{n:02d}": f"{ADVERT}, {n % 2}!" for n in range(1, 9, 2)}

    def job(count: int, **settings: Any) -> Any:
        listed = corpus.listed(folder, count, tmp_path / "list.jsonl", **texts)
        sources = [{"kind": "jsonl", "path": str(listed), "name": "c"}]
        rule = Plugin.model_validate({"use": "repeated_text", **settings})
        verdicts = (Plugin(use="empty_text"), rule)
        return corpus.job(tmp_path, sources=sources, transcribe={"verdicts": verdicts})

    def kept(version: Path) -> set[str]:
        texts = corpus.utterances(version)
        return {row["source_id"] for row in texts if ADVERT in row["text"]}

    first = corpus.run(job(6, max_times=2))[0].path
    stays = kept(first)
    assert len(stays) == 2
    ledger = corpus.ledger(first)
    lost = [row for row in ledger if row["reason"] == "repeated_text"]
    assert [(row["outcome"], row["stage"], row["value"]) for row in lost] == [
        ("dropped", "package", 3.0)
    ]
    second, stages = corpus.run(job(10, max_times=2))
    assert kept(second.path) == stays
    assert stages["transcribe"][0] == 4
    # Another limit is free, and `what-if` says what it would do.
    before = corpus.content(second.path)
    now, then = what_if.kept(job(10, max_times=2), job(10, max_times=1))
    assert (now["items"], then["items"]) == (8, 7)
    third, stages = corpus.run(job(10, max_times=1))
    assert (len(kept(third.path)), stages["transcribe"][0]) == (1, 0)
    assert corpus.content(second.path) == before


# The language of a text, beside the one that was spoken.


TEXTS = {
    "en": "Please bring two bottles of water and a warm coat.",
    "de": "Bitte bringen Sie zwei Flaschen Wasser und einen Mantel mit.",
    "es": "Por favor, traiga dos botellas de agua y un abrigo.",
    "zh": "请带两瓶水和一件暖和的外套。",
    "ja": "水を二本と暖かいコートを持ってきてください。",
}


def agrees(text: str, language: str | None, wer: float | None = None) -> bool:
    settings = language_agrees.Settings()
    found = language_agrees.measure(ScoredTranscript(text, "asr", 3.0, language=language), settings)
    assert list(found) == list(language_agrees.COLUMNS)
    rules = plugins.TEXT.load("language_agrees").verdict(settings)
    return judge({**found, "wer": wer}, rules) is None


@pytest.mark.parametrize("spoken", TEXTS)
def test_a_text_in_the_language_that_is_spoken_stays(spoken: str) -> None:
    assert {code for code, text in TEXTS.items() if agrees(text, spoken)} == {spoken}
    assert agrees(TEXTS["en"], "de", wer=0.1)  # a reference confirms it


def test_what_cannot_be_judged_is_null() -> None:
    for text, language in (("", "en"), ("Well, yes.", "de"), ("好的", "en"), (TEXTS["en"], None),
                           (TEXTS["en"], "xx")):  # fmt: skip
        heard = ScoredTranscript(text, "asr", 3.0, language=language)
        found = language_agrees.measure(heard, language_agrees.Settings())
        assert found == {"language_agrees": None}


def test_languages_that_are_written_alike_are_one() -> None:
    assert agrees(TEXTS["zh"], "yue")
    assert agrees("Jeg er glad for at se deg her i dag.", "nn")
    assert agrees(TEXTS["en"].upper(), "en-US")


def test_workers_load_it_before_their_first_task(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, transcribe={"verdicts": [{"use": "language_agrees"}]})
    assert loading.modules_of(job)["py3langid.langid"] == "LanguageIdentifier"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    language_agrees._identifier.cache_clear()
    language_agrees._agreement.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(ConfigError, match=r"pip install 'uttermill\[language-id\]'"):
        agrees(TEXTS["en"], "en")


@pytest.mark.needs("corpus")
def test_texts_of_real_speech() -> None:
    """Of several hundred references none is dropped as it is, and hardly one stays as another
    language's."""
    rows = [*corpus_speech.transcribed(CORPUS)]
    judged = [
        (row["text"], row["language"])
        for row in rows
        if len(row["text"].encode()) >= language_agrees.LEAST_BYTES
    ]
    assert len(judged) > 200
    assert [text for text, language in judged if not agrees(text, language)] == []
    others = [agrees(text, "de" if language == "en" else "en") for text, language in judged]
    assert sum(others) <= 2


# Emilia's rule on seconds per character, per recording and with frozen bounds per language.


def table(rows: list[tuple[str, float, str]], **more: Any) -> pa.Table:
    """(recording, seconds, text) of each row; all kept, in English."""
    whole = [
        {
            "id": f"u{n:03d}", "dataset": "c", "recording": recording, "language": "en",
            "seconds": seconds, "text": text, "kept": True, "published": False, **more,
        }
        for n, (recording, seconds, text) in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(whole, schema=ROW)


def rejected(
    rows: pa.Table, settings: Settings, frozen: JsonObject
) -> tuple[dict[str, Rejection], JsonObject]:
    """Rejections by id, from rows that come seven at a time; and what is frozen."""

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (rows.slice(at, 7).select(columns) for at in range(0, len(rows), 7))

    heard = TranscribedRows(parts, lambda ids: np.zeros(len(ids), bool))
    found, freezes = char_duration.reject(heard, settings, frozen)
    return {rows["id"][row].as_py(): why for row, why in found}, freezes


def steady(count: int, recording: str = "r") -> list[tuple[str, float, str]]:
    """0.1 s a character, give or take a little."""
    return [(recording, 2.0 + 0.01 * n, "abcdefghij" * 2) for n in range(count)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("So, don't worry…", 12), ("", 0), (" ,.!? ", 0), ("你好，世界。", 4), ("“quoted” ‘x’", 7)],
)
def test_characters_are_counted_without_punctuation(text: str, count: int) -> None:
    assert char_duration.characters(text) == count


def test_bounds_by_hand() -> None:
    """1..9: quartiles 3 and 7 by linear interpolation, so -3 to 13."""
    assert char_duration.quartiles(np.arange(1.0, 10.0)) == [3.0, 7.0]
    assert char_duration.bounds(3.0, 7.0, 1.5) == (-3.0, 13.0)


def test_outliers_fall_whatever_their_side() -> None:
    rows = table([*steady(30), ("r", 9.0, "abcdefghij" * 2), ("r", 2.0, "abcdefghij" * 40)])
    found, frozen = rejected(rows, Settings(), {})
    assert {key: no.reason for key, no in found.items()} == {
        "u030": "slow_speech", "u031": "fast_speech",
    }  # fmt: skip
    assert found["u030"].value == pytest.approx(0.45)
    assert list(frozen) == ["c/en"]
    first, third = frozen["c/en"]
    assert found["u030"].threshold == char_duration.bounds(first, third, 1.5)[1]
    # The width is not part of what is frozen.
    wide, _ = rejected(rows, Settings(width=1000), frozen)
    assert wide == {}


def test_bounds_that_are_frozen_do_not_move() -> None:
    first, frozen = rejected(table(steady(30)), Settings(), {})
    assert first == {}
    slow = [("r", 4.0, "abcdefghij" * 2)] * 200  # a new part that is spoken slowly
    _, again = rejected(table([*steady(30), *slow]), Settings(), frozen)
    assert again == frozen
    found, _ = rejected(table([*steady(30), *slow]), Settings(), frozen)
    assert len(found) == 200
    refitted, _ = rejected(table([*steady(30), *slow]), Settings(), {})
    assert len(refitted) < 200


def test_recordings_each_have_their_own_bounds() -> None:
    per = Settings(per="recording", min_group=1)
    fast = [("fast", 1.0 + 0.005 * n, "abcdefghij" * 4) for n in range(10)]
    slow = [("slow", 8.0 + 0.005 * n, "abcdefghij") for n in range(10)]
    found, frozen = rejected(table([*fast, *slow]), per, {})
    assert (found, frozen) == ({}, {})


def test_small_groups_have_no_bounds_and_dropped_rows_count() -> None:
    rows = [*steady(10), ("r", 90.0, "abc")]
    assert rejected(table(rows), Settings(), {}) == ({}, {})
    # Rows that other verdicts rejected take part in the quartiles, and are not rejected again.
    found, frozen = rejected(table([*steady(30), rows[-1]], kept=False), Settings(), {})
    assert found == {}
    assert list(frozen) == ["c/en"]
