"""Syllables a second of made speech whose phones are known, and of what has none."""

from functools import cache

import numpy as np
import pytest
import soxr

from tests.helpers import timed_speech
from tests.helpers.no_speech import NO_SPEECH
from tests.helpers.tiers import nightly
from tests.helpers.timed_speech import Floats, Line, Spoken
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import speech_rate

RATE = 16_000
TEXTS = {
    "en-us": "Yesterday we went to the market, and my grandmother bought apples and bread.",
    "de": "Gestern gingen wir auf den Markt und kauften viele Äpfel und frisches Brot.",
    "es": "Ayer fuimos al mercado y compramos muchas manzanas y un poco de pan.",
    "tr": "Dün pazara gittik ve bir sürü elma ile biraz taze ekmek aldık.",
    "cmn": "我们昨天去了市场，买了很多苹果和面包。",
}


@cache
def said(voice: str, speed: int) -> Spoken:
    (spoken,) = timed_speech.speak([Line(TEXTS[voice], voice, speed)])
    return spoken


def wide(spoken: Spoken) -> Floats:
    return np.asarray(soxr.resample(spoken.samples, timed_speech.RATE, RATE, "HQ"), np.float32)


def rate(samples: Floats, hertz: int = RATE) -> float | None:
    clip = Clip.from_samples(samples, hertz)
    return speech_rate.measure(clip, speech_rate.Settings())["speech_rate"]


@pytest.mark.parametrize("speed", [180, *map(nightly, (110, 260))])
@pytest.mark.parametrize("voice", TEXTS)
def test_the_rate_is_that_of_the_vowels_said(voice: str, speed: int) -> None:
    spoken = said(voice, speed)
    assert rate(wide(spoken)) == pytest.approx(spoken.syllables / spoken.spoken_seconds, rel=0.2)


def test_pauses_and_levels_change_little() -> None:
    samples = wide(said("en-us", 180))
    plain = rate(samples)
    pause = np.zeros(4 * RATE, np.float32)
    assert rate(np.concatenate([pause, samples, pause, samples])) == pytest.approx(plain, rel=0.08)
    assert rate(samples / np.float32(30)) == pytest.approx(plain, rel=0.08)


def test_telephone_speech_and_noise_are_counted_alike() -> None:
    spoken = said("en-us", 180)
    samples = wide(spoken)
    true = spoken.syllables / spoken.spoken_seconds
    narrow = soxr.resample(samples, RATE, 8000, "HQ")
    assert rate(np.asarray(narrow, np.float32), 8000) == pytest.approx(true, rel=0.2)
    noise = np.random.default_rng(0).standard_normal(len(samples)).astype(np.float32)
    noisy = samples + noise * np.sqrt(np.square(samples).mean() / 100)
    assert rate(noisy) == pytest.approx(true, rel=0.2)


@pytest.mark.parametrize("samples", NO_SPEECH.values(), ids=NO_SPEECH)
def test_what_is_no_speech_has_no_rate(samples: Floats) -> None:
    assert rate(samples.astype(np.float32)) is None


def test_a_long_clip_has_the_rate_of_its_parts() -> None:
    once = np.concatenate([wide(said("en-us", 180)), np.zeros(RATE, np.float32)])
    assert rate(np.tile(once, 30)) == pytest.approx(rate(once), rel=0.1)
