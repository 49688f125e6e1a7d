"""C50 and RT60 of made speech in made rooms, and of what is no speech."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import soxr
from scipy import signal

from tests.helpers import rooms, timed_speech
from tests.helpers.no_speech import NO_SPEECH
from tests.helpers.timed_speech import Floats, Line
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import reverberation
from uttermill.tasks.plugins.rules import judge

FILTER = plugins.FILTERS.load("reverberation")
RATE = 16_000
TEXTS = {
    "en-us": "Yesterday we went to the market. My grandmother bought apples, and I carried bread.",
    "de": "Gestern gingen wir auf den Markt. Meine Großmutter kaufte Äpfel, und ich trug das Brot.",
}


@cache
def dry(voice: str) -> Floats:
    (spoken,) = timed_speech.speak([Line(TEXTS[voice], voice)])
    return np.asarray(soxr.resample(spoken.samples, timed_speech.RATE, RATE, "HQ"), np.float32)


def heard(voice: str, response: rooms.Wide) -> Floats:
    samples = signal.fftconvolve(dry(voice), response)[: len(dry(voice)) + RATE // 4]
    return np.asarray(samples, np.float32)


def measured(samples: Floats, rate: int = RATE) -> tuple[float | None, float | None]:
    measures = reverberation.measure(Clip.from_samples(samples, rate), reverberation.Settings())
    return measures["reverberation_c50"], measures["reverberation_rt60"]


@pytest.mark.parametrize("voice", TEXTS)
@pytest.mark.parametrize("seconds", [0.3, 0.5, 0.8, 1.2])
def test_the_room_is_that_of_its_response(seconds: float, voice: str) -> None:
    response = rooms.shoebox(seconds, np.random.default_rng(round(100 * seconds)))
    c50, rt60 = measured(heard(voice, response))
    assert c50 == pytest.approx(rooms.c50(response), abs=3)
    assert rt60 == pytest.approx(rooms.rt60(response), rel=0.35)


def test_a_far_microphone_has_less_c50_in_the_same_room() -> None:
    estimates = []
    for direct in (12, 6, 0, -6):
        response = rooms.decaying_noise(0.7, direct, np.random.default_rng(1))
        estimates.append(measured(heard("en-us", response))[0] or 0.0)
    assert estimates == sorted(estimates, reverse=True)
    assert estimates[0] - estimates[-1] > 6


def test_dry_speech_is_dry() -> None:
    c50, rt60 = measured(dry("en-us"))
    assert c50 is not None
    assert c50 >= 25
    assert rt60 == pytest.approx(0.1, abs=0.1)


def test_rate_level_and_length_change_little() -> None:
    response = rooms.shoebox(0.6, np.random.default_rng(60))
    samples = heard("de", response)
    c50, rt60 = measured(samples)
    other = soxr.resample(samples / 20, RATE, 44_100, "HQ").astype(np.float32)
    for again, rate in ((other, 44_100), (np.tile(samples, 12), RATE)):
        early, late = measured(again, rate)
        assert early == pytest.approx(c50, abs=1.0)
        assert late == pytest.approx(rt60, rel=0.1)


@pytest.mark.parametrize("samples", NO_SPEECH.values(), ids=NO_SPEECH)
def test_what_is_no_speech_has_no_room(samples: Floats) -> None:
    assert measured(samples.astype(np.float32)) == (None, None)


def test_a_limit_drops_a_hall() -> None:
    limits = FILTER.verdict(reverberation.Settings(min_c50=10))
    hall = heard("en-us", rooms.shoebox(1.2, np.random.default_rng(2)))
    for samples, reason in ((dry("en-us"), None), (hall, "reverberant")):
        c50, rt60 = measured(samples)
        rejection = judge({"reverberation_c50": c50, "reverberation_rt60": rt60}, limits)
        assert (rejection.reason if rejection else None) == reason
