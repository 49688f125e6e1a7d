"""Loudness against the numbers of ITU-R BS.1770-4 and EBU Tech 3341."""

import math
from functools import cache

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray
from scipy import signal

from tests.helpers import rooms, timed_speech
from tests.helpers.no_speech import NO_SPEECH
from tests.helpers.tiers import nightly
from tests.helpers.timed_speech import Floats, Line
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import loudness, reverberation

Wide = NDArray[np.float64]


def sine(parts: list[tuple[float, float]], rate: int, hertz: float = 1000.0) -> Wide:
    """A sine of several (level in dBFS, seconds) after each other, without a break in phase."""
    level = np.concatenate([np.full(round(s * rate), 10 ** (db / 20)) for db, s in parts])
    return level * np.sin(2 * np.pi * hertz * np.arange(len(level)) / rate)


def lufs(samples: Wide, rate: int) -> float:
    value = loudness.measure(Clip.from_samples(samples, rate), loudness.Settings())["loudness"]
    assert value is not None
    return value


def test_coefficients_are_those_of_the_standard() -> None:
    # BS.1770-4, tables 1 and 2, at 48 kHz.
    table = [
        [1.53512485958697, -2.69169618940638, 1.19839281085285,
         1.0, -1.69065929318241, 0.73248077421585],
        [1.0, -2.0, 1.0, 1.0, -1.99004745483398, 0.99007225036621],
    ]  # fmt: skip
    assert np.abs(loudness.k_weighting(48_000) - table).max() < 1e-10


@pytest.mark.parametrize(
    ("rate", "decibels"),
    [(8000, 0.55), (11_025, 0.3), (16_000, 0.16), (22_050, 0.1), (44_100, 0.05), (192_000, 0.05)],
)
def test_other_rates_weigh_alike(rate: int, decibels: float) -> None:
    """Against the standard's own filter: the bilinear transform bends the shelf of slow rates."""
    at = np.linspace(40, min(0.45 * rate, 16_000), 200)
    own = signal.sosfreqz(loudness.k_weighting(rate), at, fs=rate)[1]
    standard = signal.sosfreqz(loudness.k_weighting(48_000), at, fs=48_000)[1]
    assert np.abs(20 * np.log10(np.abs(own / standard))).max() < decibels


#: EBU Tech 3341, table 1: (level dBFS, seconds) of a 1 kHz sine in both channels; ±0.1 LU.
EBU: dict[int, tuple[list[tuple[float, float]], float]] = {
    1: ([(-23.0, 20)], -23.0),
    2: ([(-33.0, 20)], -33.0),
    3: ([(-36.0, 10), (-23.0, 60), (-36.0, 10)], -23.0),
    4: ([(-72.0, 10), (-36.0, 10), (-23.0, 60), (-36.0, 10), (-72.0, 10)], -23.0),
    5: ([(-26.0, 20), (-20.0, 20.1), (-26.0, 20)], -23.0),
}  # fmt: skip


@pytest.mark.parametrize("case", EBU)
@pytest.mark.parametrize("rate", [16_000, *map(nightly, (8000, 44_100, 48_000))])
def test_minimum_requirements_of_the_ebu(case: int, rate: int) -> None:
    parts, expected = EBU[case]
    one = sine(parts, rate)
    assert lufs(np.c_[one, one], rate) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("lfe", [False, True])
def test_surround_of_the_ebu(lfe: bool) -> None:
    """Case 6: 5.0 channels, -28 dBFS in L and R, -24 in C, -30 in Ls and Rs."""
    levels = [-28.0, -28.0, -24.0, *([0.0] if lfe else []), -30.0, -30.0]
    samples = np.stack([sine([(db, 20)], 16_000) for db in levels], axis=1)
    assert lufs(samples, 16_000) == pytest.approx(-23.0, abs=0.1)


@pytest.mark.parametrize("rate", [16_000, 48_000, 192_000])
def test_full_scale_in_one_channel(rate: int) -> None:
    """BS.1770-4: a 997 Hz sine at 0 dBFS in the left, centre or right channel is -3.01 LKFS."""
    one = sine([(0.0, 4)], rate, 997.0)
    expected = pytest.approx(-3.01, abs=0.05)
    assert lufs(one, rate) == expected
    assert lufs(np.c_[one, 0 * one], rate) == expected
    assert lufs(np.c_[0 * one, 0 * one, one], rate) == expected


def by_the_book(samples: Wide, rate: int) -> float:
    """The standard's formulas one by one, with loops."""
    heard = signal.sosfilt(loudness.k_weighting(rate), samples, axis=0)
    size, step = round(0.4 * rate), round(0.1 * rate)
    blocks = [
        (heard[at : at + size] ** 2).mean(axis=0).sum()
        for at in range(0, len(heard) - size + 1, step)
    ]
    loud = [z for z in blocks if -0.691 + 10 * math.log10(z) > -70]
    gate = -0.691 + 10 * math.log10(sum(loud) / len(loud)) - 10
    loud = [z for z in loud if -0.691 + 10 * math.log10(z) > gate]
    return -0.691 + 10 * math.log10(sum(loud) / len(loud))


@pytest.mark.parametrize("seconds", [0.4, 0.45, 1.0, 7.77])
def test_gates_as_written_in_the_standard(seconds: float) -> None:
    rng = np.random.default_rng(7)
    count = round(seconds * 16_000)
    levels = 10 ** (rng.uniform(-4, -0.5, count // 1600 + 1)).repeat(1600)[:count]
    samples = (levels[:, None] * rng.standard_normal((count, 2))).astype(np.float32)
    expected = by_the_book(samples.astype(np.float64), 16_000)
    assert lufs(samples.astype(np.float64), 16_000) == pytest.approx(expected, abs=1e-9)


def test_a_clip_shorter_than_a_block_is_one_block() -> None:
    assert lufs(sine([(-20.0, 0.2)], 16_000), 16_000) == pytest.approx(-23.0, abs=0.3)
    assert lufs(sine([(-90.0, 0.2)], 16_000), 16_000) == -70.0


def test_silence_reads_the_gate_and_slow_rates_nothing() -> None:
    assert lufs(sine([(-80.0, 2)], 16_000), 16_000) == -70.0
    clip = Clip.from_samples(sine([(-20.0, 2)], 7999), 7999)
    assert loudness.measure(clip, loudness.Settings()) == {"loudness": None}


# C50 and RT60 of made speech in made rooms, and of what is no speech.


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
