"""Utterances of one recording that share a window: who does, whose words are whose, the cost."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus, fuzz
from tests.helpers.stub_whisper import Ear, Span, StubWhisper, heard
from uttermill.tasks.asr import SharedWindow, SpeechClip, Transcript, Word, faster_whisper
from uttermill.tasks.asr._whisper import windows
from uttermill.tasks.asr._whisper.passages import (
    TOKENS,
    WINDOW_SECONDS,
    apart,
    divided,
    requests_of,
    told_after,
)
from uttermill.tasks.asr._whisper.results import BeamResult, Context, Language, Window
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import requests
from uttermill.tasks.shard_store.requests import Recognition, Request, WindowAudio
from uttermill.tasks.stages.transcribe import chunks

# --- who shares a window -----------------------------------------------------------------------


@given(
    parts=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 3200)), max_size=40),
    longest=st.sampled_from([5.0, 29.0]),
)
@settings(deadline=None)
def test_windows_hold_each_span_once_in_order(parts: list[tuple[int, int]], longest: float) -> None:
    rate, spans, at = 100, [], 0
    for gap, length in parts:
        spans.append((at + gap, at + gap + length))
        at += gap + length
    found = requests.windows(spans[::-1], rate, longest)
    assert [span for window in found for span in window] == spans
    for window in found:
        pauses = [requests.pause(*pair, rate) for pair in pairwise(window)]
        assert all(requests.PAUSE[0] <= pause <= requests.PAUSE[1] for pause in pauses)
        seconds = sum(end - start for start, end in window) / rate + sum(pauses)
        assert len(window) == 1 or seconds <= longest + 1e-9


def test_spans_that_overlap_share_no_window() -> None:
    assert requests.windows([(0, 100), (90, 200), (210, 300)], 100, 29.0) == [
        ((0, 100),),
        ((90, 200), (210, 300)),
    ]


def test_a_short_rest_of_a_recording_is_shared_out() -> None:
    spans = [(1200 * at, 1200 * at + 1100) for at in range(21)]  # 11 s and 1 s of silence
    assert [len(window) for window in requests.windows(spans, 100, 232.0)] == [11, 10]
    assert [len(window) for window in requests.windows(spans[:19], 100, 232.0)] == [19]
    more = [(1200 * at, 1200 * at + 1100) for at in range(30)]
    assert [len(window) for window in requests.windows(more, 100, 232.0)] == [19, 11]
    # One that does not fit is alone, and changes nothing for the others.
    long = [*spans[:10], (12000, 42000), *((42000 + a, 42000 + b) for a, b in spans[:10])]
    assert [len(window) for window in requests.windows(long, 100, 232.0)] == [10, 1, 10]


# --- whose words are whose ---------------------------------------------------------------------


def shared(*seconds: float, pause: float = 0.5) -> SharedWindow:
    """A window whose samples are their own times."""
    bounds, at = [], 0
    for length in seconds:
        bounds.append((at, at + round(length * RATE)))
        at = bounds[-1][1] + round(pause * RATE)
    samples = (np.arange(bounds[-1][1]) / RATE).astype(np.float32)
    return SharedWindow(samples, tuple(bounds))


def clips_of(window: SharedWindow, speech: float = inf) -> list[SpeechClip]:
    """The clips of a window; the first seconds of each are speech."""
    made = []
    for place, (first, last) in enumerate(window.bounds):
        clip = SpeechClip(window.samples[first:last], None, window, place)
        clip.__dict__["speech"] = ((0.0, min((last - first) / RATE, speech)),) if speech else ()
        made.append(clip)
    return made


def words(*spans: Span, probability: float = 0.9) -> tuple[Word, ...]:
    return tuple(Word(f" w{start:g}", start, end, probability) for start, end in spans)


def test_words_go_to_the_utterance_in_which_they_lie() -> None:
    window = shared(2.0, 1.0, 3.0)  # at 0 to 2, 2.5 to 3.5 and 4 to 7 s
    said = words((0.1, 1.0), (1.0, 2.2), (2.4, 3.6), (3.9, 5.0), (5.0, 7.0))
    heard = Window(BeamResult("…", -0.3, 0.1, (1,) * 5), Language("de", 0.9, "de", 0.9), said)
    clips = clips_of(window)
    found = apart(heard, dict(enumerate(clips)), window)
    texts = [hearing.transcript(True) for hearing in found.values()]
    assert [t.text for t in texts] == ["w0.1 w1", "w2.4", "w3.9 w5"]
    assert [[(w.start, w.end) for w in t.words or ()] for t in texts] == [
        [pytest.approx((0.1, 1.0)), pytest.approx((1.0, 2.0))],
        [pytest.approx((0.0, 1.0))],
        [pytest.approx((0.0, 1.0)), pytest.approx((1.0, 3.0))],
    ]
    assert {t.language for t in texts} == {"de"}
    assert [t.avg_logprob for t in texts] == pytest.approx([-0.3] * 3)
    assert not any(hearing.again for hearing in found.values())
    alone = apart(heard, {7: clips[1]}, window)
    assert alone[7].transcript(True) == texts[1]


def test_phrases_tell_words_apart_where_their_times_mislead() -> None:
    window = shared(2.0, 1.0, 3.0)
    # The word after silence is timed before it, as by the engine in Mandarin.
    said = words((0.1, 1.5), (1.5, 1.9), (2.0, 3.5), (3.5, 5.0), (5.0, 7.0))
    lengths = [len(word.word) for word in said]
    phrases = ((0.0, 2.0, lengths[0]), (2.5, 3.5, sum(lengths[1:3])), (4.0, 7.0, sum(lengths[3:])))
    heard = Window(BeamResult("…", -0.3, 0.1, (1,) * 5), Language("zh"), said, phrases)
    found = apart(heard, dict(enumerate(clips_of(window))), window)
    texts = [hearing.transcript(True) for hearing in found.values()]
    assert [t.text for t in texts] == ["w0.1", "w1.5 w2", "w3.5 w5"]
    # A phrase over two utterances is divided by its words.
    joined = ((0.0, 3.5, sum(lengths[:3])), phrases[2])
    found = apart(replace(heard, phrases=joined), dict(enumerate(clips_of(window))), window)
    texts = [hearing.transcript(True) for hearing in found.values()]
    assert [t.text for t in texts] == ["w0.1 w1.5", "w2", "w3.5 w5"]


@pytest.mark.parametrize(
    ("said", "ratio", "again"),
    [
        (words((0.0, 2.0), (2.5, 3.5)), "a b", [False, False]),
        (words((0.0, 2.0)), "a b", [False, True]),  # no word for the second
        (words((0.0, 0.9), (2.5, 3.5)), "a b", [True, False]),  # its end is missing
        (None, "a b", [True, True]),
        (words((0.0, 2.0), (2.5, 3.5)), "la " * 60, [True, True]),
        (words((0.0, 2.0), probability=0.2) + words((2.5, 3.5)), "a b", [True, False]),
        # A doubtful one that is short is better where it has neighbours.
        (words((0.0, 2.0)) + words((2.5, 3.5), probability=0.2), "a b", [False, False]),
    ],
)
def test_doubtful_ones_are_heard_by_themselves(said: Any, ratio: str, again: list[bool]) -> None:
    window = shared(2.0, 1.0)
    heard = Window(BeamResult(ratio, -0.3, 0.1, (1, 1)), Language("de", 0.9), said)
    found = apart(heard, dict(enumerate(clips_of(window))), window)
    assert [hearing.again for hearing in found.values()] == again


def test_an_utterance_in_another_language_is_heard_again_in_its_own() -> None:
    window = shared(2.0, 1.0)
    english, german = Language("en", 0.9, "en", 0.9), Language("de", 0.95, "de", 0.95)
    said = words((0.0, 2.0), (2.5, 3.5))
    heard = Window(BeamResult("a b", -0.1, 0.1, (1, 1)), english, said, (), (english, german))
    first, second = apart(heard, dict(enumerate(clips_of(window))), window).values()
    assert (first.again, second.again) == (False, True)
    assert second.language == german
    # What it is in its own language stays, though a translation had a better score.
    own = Window(BeamResult("ein", -0.5, 0.1, (1,)), Language("de"), words((0.0, 1.0)))
    second.add((0.0, 1.0), own)
    found = second.transcript(False)
    assert (found.text, found.language, found.language_probability) == ("ein", "de", 0.95)
    assert found.detected_language == "de"


@pytest.mark.parametrize(
    ("probability", "seconds", "sure", "foreign", "again"),
    [
        (0.95, 1.2, 0.9, True, True),
        (0.6, 1.2, 0.9, False, False),
        (0.6, 1.2, 0.2, False, True),  # a word that is written by its sound
        (None, 1.2, 0.2, False, False),
    ],
)
def test_short_ones_tell_their_language_where_another_is_likely(
    probability: float | None, seconds: float, sure: float, foreign: bool, again: bool
) -> None:
    window = shared(2.0, seconds)
    english = Language("en", 0.9, "en", 0.9)
    other = Language("zh", probability, "zh", probability) if probability else english
    said = words((0.0, 2.0), probability=0.9) + words((2.5, 2.5 + seconds), probability=sure)
    heard = Window(BeamResult("a b", -0.4, 0.1, (1,) * 2), english, said, (), (english, other))
    first, second = apart(heard, dict(enumerate(clips_of(window))), window).values()
    assert not first.again
    assert (second.foreign, second.again) == (foreign, again)
    if again:
        assert second.forced_language == ("zh" if foreign else None)


@pytest.mark.parametrize(
    ("seconds", "stated", "score", "found"),
    [
        (3.0, 0.9, -0.2, ("una", "es")),
        (3.0, 0.9, -9.0, ("w2.5", "en")),
        (3.0, None, -0.2, None),  # the source says what it is
        (1.5, 0.9, -0.2, None),  # too short to tell
    ],
)
def test_a_doubtful_utterance_may_be_in_another_language_than_its_window(
    seconds: float, stated: float | None, score: float, found: tuple[str, str] | None
) -> None:
    window, said = shared(2.0, seconds), words((0.0, 2.0))
    english = Language("en", stated, "en", 0.9)
    heard = Window(BeamResult("a b", -0.3, 0.1, (1, 1)), english, said, (), (english, english))
    assert (
        next(iter(apart(heard, dict(enumerate(clips_of(window))), window).values())).forced_language
        == "en"
    )
    doubtful = words((2.5, 2.5 + seconds), probability=0.2)
    heard = replace(heard, words=said + doubtful)
    *_, second = apart(heard, dict(enumerate(clips_of(window))), window).values()
    second.again = True
    assert second.forced_language == (None if found else "en")
    if found:
        own = BeamResult("una", score, 0.1, (1,))
        second.add((0.0, 3.0), Window(own, Language("es", 0.8, "es", 0.8), words((0.0, 3.0))))
        after = second.transcript(False)
        assert (after.text, after.language) == found


@pytest.mark.parametrize(
    ("seem", "found"),
    [
        ([("en", 0.9), ("de", 0.95), ("zh", 0.6)], ["en", "de", "zh"]),
        ([("en", 0.9), ("de", 0.8), ("zh", 0.4)], ["en", "de", "en"]),
        ([("zh", 0.4), ("de", 0.95), ("en", 0.3)], ["en", "de", "en"]),
    ],
)
def test_each_utterance_of_a_window_has_its_language(
    seem: list[tuple[str, float]], found: list[str]
) -> None:
    engine, answers = StubWhisper(), iter(seem)
    engine.model.detect_language = lambda _: [[(f"<|{code}|>", p) for code, p in [next(answers)]]]
    encoded = ctranslate2.StorageView.from_array(np.zeros((1, 1500, 2), np.float32))
    window, language = shared(3.0, 2.0, 2.0), Language("en", 0.7, "en", 0.7)
    spoken = windows.languages_of_utterances(engine, encoded, window, language)
    assert [one.code for one in spoken] == found
    forced = Language("en")
    assert windows.languages_of_utterances(engine, encoded, window, forced) == (forced,) * 3


def test_a_word_that_is_stretched_over_speech_is_doubtful() -> None:
    """The text of the first ends early, and its last word has the time of the rest."""
    window = shared(6.0, 3.0)
    said = words((0.0, 1.0), (1.0, 6.0), (6.5, 8.0), (8.0, 9.5))
    heard = Window(BeamResult("…", -0.3, 0.1, (1,) * 4), Language("en", 0.9), said)
    first, second = apart(heard, dict(enumerate(clips_of(window))), window).values()
    assert (first.again, second.again) == (True, False)
    # Heard by itself, the text that covers the rest stays, though its score is lower.
    whole = words((0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 6.0))
    first.add((0.0, 6.0), Window(BeamResult("all", -0.5, 0.1, (1,) * 4), Language("en"), whole))
    assert first.parts[0][0].text == "all"
    # Figures are one word, and take longer; silence counts for nothing.
    figures = replace(said[1], word=" 13475274309")
    heard_figures = replace(heard, words=(said[0], figures, *said[2:]))
    assert not apart(heard_figures, dict(enumerate(clips_of(window))), window)[0].again
    silent = apart(heard, dict(enumerate(clips_of(window, speech=0.0))), window)
    assert not any(hearing.again for hearing in silent.values())


SENTENCES = ((0.0, 2.0), (2.5, 3.5), (4.0, 7.0))
SPOKEN = 1.75  # s of each that are speech: one word each can be as long
#: Of a passage of three windows: two, two and one of them.
LONG = ((0.0, 14.0), (14.5, 28.5), (29.0, 43.0), (43.5, 57.5), (58.0, 72.0))


def test_a_window_is_heard_once_for_all_its_utterances() -> None:
    ear = Ear(SENTENCES)
    clips = clips_of(shared(2.0, 1.0, 3.0), SPOKEN)
    texts = heard(ear, clips)
    assert [t.text for t in texts] == ["w0", "w2.5", "w4"]
    assert ear.heard == [(0.0, 7.0)]
    # One of them alone, or in another order: the same.
    assert heard(Ear(SENTENCES), clips[1:2]) == texts[1:2]
    assert heard(Ear(SENTENCES), clips[::-1], batch_size=1) == texts[::-1]


def test_what_a_window_leaves_out_is_heard_by_itself() -> None:
    ear = Ear(SENTENCES, many=2)
    texts = heard(ear, clips_of(shared(2.0, 1.0, 3.0), SPOKEN))
    assert [t.text for t in texts] == ["w0", "w2.5", "w4"]
    assert ear.heard == [(0.0, 7.0), (4.0, 7.0)]


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8))
@fuzz.cases(60)
def test_a_passage_is_divided_into_full_windows(lengths: list[int]) -> None:
    passage = shared(*map(float, lengths))
    windows = divided(passage)
    assert [place for places, _ in windows for place in places] == list(range(len(lengths)))
    for (places, window), (_, after) in pairwise([*windows, windows[-1]]):
        own = [passage.samples[a:b] for a, b in passage.bounds[places.start : places.stop]]
        for (first, last), samples in zip(window.bounds, own, strict=True):
            assert np.array_equal(window.samples[first:last], samples)
        seconds = len(window.samples) / RATE
        assert len(places) == 1 or seconds <= WINDOW_SECONDS
        more = after.bounds[0][1] / RATE + 0.5
        assert after is window or seconds + more > WINDOW_SECONDS


def test_pauses_of_a_window_murmur_as_faintly_as_its_quietest_place() -> None:
    rng = np.random.default_rng(7)
    loud, quiet = (np.float32(level) for level in (0.1, 0.001))
    speech = rng.standard_normal(5 * RATE).astype(np.float32) * loud
    speech[2 * RATE : 3 * RATE] *= quiet / loud
    pause = np.zeros(RATE, np.float32)
    bounds = ((0, 5 * RATE), (6 * RATE, 11 * RATE), (12 * RATE, 12 * RATE))
    passage = SharedWindow(np.concatenate([speech, pause, speech, pause]), bounds)
    ((_, window),) = divided(passage)
    murmur = window.samples[5 * RATE : 6 * RATE]
    assert float(np.sqrt(np.mean(murmur**2))) == pytest.approx(quiet, rel=0.1)
    assert np.array_equal(window.samples[: 5 * RATE], speech)
    assert np.array_equal(window.samples, divided(passage)[0][1].samples)
    # Where an utterance is digital silence itself, there is still a trace of it.
    ((_, window),) = divided(replace(passage, samples=np.zeros_like(passage.samples)))
    assert 0 < float(np.abs(window.samples[5 * RATE : 6 * RATE]).max()) < 1e-3
    assert not window.samples[: 5 * RATE].any()


def test_a_window_is_told_what_was_said_before_it() -> None:
    clips = clips_of(shared(*[14.0] * 5), speech=0.0)
    ear = Ear(LONG)
    texts = heard(ear, clips)
    assert [t.text for t in texts] == ["w0", "w14.5", "w29", "w43.5", "w58"]
    assert [first for first, _ in ear.heard] == [0.0, 29.0, 58.0]
    assert ear.told == [None, Context("en", (1,) * 2), Context("en", (1,) * 4)]
    # Whoever else is asked for: the windows before it are heard, those after it are not.
    alone = Ear(LONG)
    assert heard(alone, clips[2:3]) == texts[2:3]
    assert alone.told == ear.told[:2]
    # Texts do not wait for the end of their passage: a hang is known by a text that does not come.
    first = Ear(LONG)
    made = faster_whisper.Backend(faster_whisper.Settings(), StubWhisper())
    made._windows = first  # type: ignore[assignment]
    assert next(made.transcribe(clips)) == texts[0]
    assert first.searches == [1]
    # Several passages: one window of each at a time.
    four = Ear(LONG)
    assert (
        heard(four, [one for _ in range(4) for one in clips_of(shared(*[14.0] * 5), speech=0.0)])
        == texts * 4
    )
    assert four.searches == [4, 4, 4]


def test_a_long_utterance_divides_a_passage() -> None:
    """The engine's long form hears it, and what follows is told nothing."""
    clips = clips_of(shared(14.0, 14.0, 31.0, 14.0, 14.0))
    found = requests_of({index: (clip, None) for index, clip in enumerate(clips)})
    chains = [[*request.clips] for request in found]
    assert sorted(chains) == [[0, 1], [2], [3, 4]]
    assert not any(request.then for request in found)
    assert [request.first for request in found if request.window] == [3, 0]
    # Where nobody asks for it, it is not heard.
    assert [[*request.clips] for request in requests_of({4: (clips[4], None)})] == [[4]]


def test_a_text_of_no_use_is_not_told() -> None:
    window = Window(BeamResult("a b", -0.3, 0.1, tuple(range(50))), Language("de"), ())
    first = told_after(window, None)
    assert first == Context("de", tuple(range(50)))
    assert told_after(window, first) == Context("de", (*range(50), *range(50))[-TOKENS:])
    assert told_after(window, Context("en", (1, 2))) == first
    for useless in (
        replace(window.heard, avg_logprob=-1.1),
        replace(window.heard, text="la " * 60),
    ):
        assert told_after(replace(window, heard=useless), first) is None
    assert told_after(Transcript("", error="memory"), first) is None


def test_two_languages_are_two_windows() -> None:
    ear = Ear(SENTENCES)
    clips = clips_of(shared(2.0, 1.0, 3.0), SPOKEN)
    forced = SpeechClip(clips[1].samples, "de", clips[1].window, 1)
    forced.__dict__["speech"] = clips[1].speech
    heard(ear, [clips[0], forced, clips[2]])
    assert ear.heard == [(0.0, 7.0)] * 2


def test_a_window_that_the_engine_refuses_fails_its_utterances_only() -> None:
    engine = StubWhisper(fits=0)
    backend = faster_whisper.Backend(faster_whisper.Settings(), engine)
    texts = list(backend.transcribe(clips_of(shared(2.0, 1.0, 3.0), SPOKEN)))
    assert all(text.error for text in texts)


def test_as_many_passages_are_in_memory_as_a_batch_has_windows() -> None:
    row: Any = {"num_samples": 10 * RATE, "rate": RATE}
    passages = [
        [
            Request(
                Recognition(f"{n}-{at}", None, None, window=WindowAudio((str(n),), (row,), (), at)),
                row,
                "s",
            )
            for at in range(20)
        ]
        for n in range(5)
    ]
    units = [unit for passage in passages for unit in passage]
    most = faster_whisper.Backend(faster_whisper.Settings(), StubWhisper()).chunk_seconds
    assert [len(chunk) for chunk in chunks(units, most)] == [80, 20]
    assert [len(chunk) for chunk in chunks(units)] == [20] * 5
    alone = [replace(unit, asked=unit.asked._replace(window=None)) for unit in units]
    assert [len(chunk) for chunk in chunks(alone, most)] == [30, 30, 30, 10]


# --- what it costs -----------------------------------------------------------------------------


def job(home: Path, out: str, longest: float = 30.0, **changes: Any) -> Job:
    return corpus.job(
        home,
        out=home / out,
        filter={
            "segmenter": {"use": "tests.plugins.regular"},
            "filters": [{"use": "duration", "min": 0.05, "max": longest}],
        },
        transcribe={"backend": {"use": "tests.plugins.sharing_asr"}, "verdicts": ()},
        **changes,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    noise = np.random.default_rng(1).standard_normal(8000 * 9).astype(np.float32) * 0.1
    sf.write(tmp_path / "in" / "a.wav", noise, 8000, "PCM_16")
    return tmp_path


def said(version: Path) -> dict[float, str]:
    rows = corpus.utterances(version)
    return {row["start"]: row["text"] for row in rows}


@pytest.mark.nightly
def test_a_threshold_changes_no_text_of_neighbours(home: Path) -> None:
    loose, counts = corpus.run(job(home, "a"))
    assert counts["transcribe"] == (9, 0)
    texts = said(loose.path)
    assert texts[0.0].startswith("0 of 3: ")
    tight, counts = corpus.run(job(home, "a", 0.55))
    assert counts["resample"][0] == 0
    assert counts["transcribe"] == (0, 5)
    assert said(tight.path) == {at: text for at, text in texts.items() if round(at) % 4 < 2}
    # The other way round, and from nothing: the same texts; what is let in costs itself.
    first, counts = corpus.run(job(home, "b", 0.55))
    assert said(first.path) == said(tight.path)
    assert counts["transcribe"] == (5, 0)
    again, counts = corpus.run(job(home, "b"))
    assert counts["transcribe"] == (4, 5)
    assert said(again.path) == texts


def test_only_windows_with_a_kept_utterance_are_converted(home: Path) -> None:
    """Utterances of 0.4, 0.5, 0.6 and 0.7 s in turn: three share a window, each of which has one
    that is kept."""
    _, counts = corpus.run(job(home, "a", 0.45))
    assert counts["resample"] == (9, 0)
    assert counts["transcribe"] == (3, 0)


def test_a_plan_counts_dropped_clips_that_are_converted_for_their_window(home: Path) -> None:
    tight, other = job(home, "a", 0.55), job(home, "a", 0.55, resample={"rate": 24000})
    corpus.run(tight)
    for then, before in ((tight, tight), (other, tight)):
        plan = planning.plan(then, before)
        told = {name: (amount.compute, amount.reuse) for name, amount in plan.stages.items()}
        done = corpus.run(then)[1]
        assert told == done
    assert done["resample"][0] > done["transcribe"][0], "control: some are heard for a neighbour"
