"""Bandwidth of what was upsampled, low-passed, dithered, buried in noise, or is what it seems."""

from collections.abc import Callable

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import bandwidth, effective_rate
from uttermill.tasks.plugins.rules import judge

FILTER = plugins.FILTERS.load("bandwidth")

Wide = NDArray[np.float64]


def hertz(samples: Wide, rate: int) -> float | None:
    return bandwidth.measure(Clip.from_samples(samples, rate), bandwidth.Settings())["bandwidth"]


def white(seconds: float, rate: int, level: float = 0.1, seed: int = 0) -> Wide:
    return level * np.random.default_rng(seed).standard_normal(round(seconds * rate))


def speech(rate: int, seconds: float = 4, slope: float = 0.9) -> Wide:
    """What comes and goes like speech: noise with 6 dB an octave less, in syllables and pauses."""
    at = np.arange(round(seconds * rate)) / rate
    syllables = np.maximum(np.sin(2 * np.pi * 2 * at), 0) ** 2 * (
        np.sin(2 * np.pi * 0.3 * at) > -0.7
    )
    shaped: Wide = signal.lfilter([1 - slope], [1, -slope], white(seconds, rate))
    shaped *= syllables
    return shaped


def bits(samples: Wide, dither: bool = False) -> Wide:
    rng = np.random.default_rng(1)
    loose = rng.random(len(samples)) - rng.random(len(samples)) if dither else 0.0
    return np.round(samples * 32768 + loose) / 32768


def low_pass(samples: Wide, rate: int, edge: float) -> Wide:
    sections = signal.ellip(12, 0.1, 90, edge, fs=rate, output="sos")
    found: Wide = signal.sosfilt(sections, samples)
    return found


RATES = [(8000, 16_000), (8000, 44_100), (8000, 48_000), (16_000, 48_000), (16_000, 44_100),
         (22_050, 48_000), (44_100, 192_000)]  # fmt: skip
AFTER: dict[str, Callable[[Wide], Wide]] = {
    "as it is": lambda x: x,
    "16 bits": bits,
    "16 bits with dither": lambda x: bits(x, dither=True),
    "quiet, 16 bits": lambda x: bits(0.01 * x),
    "8 bits": lambda x: bits(x / 256) * 256,
    "noise floor at -70 dBFS": lambda x: x + white(1, len(x), 10 ** (-70 / 20), 5),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize(("old", "new"), RATES)
def test_what_was_upsampled_ends_where_it_ended(old: int, new: int, after: str) -> None:
    for source in (white(3, old), speech(old, 4, slope=0.5)):
        found = hertz(AFTER[after](soxr.resample(source, old, new)), new)
        assert found is not None
        assert 0.85 * old / 2 <= found <= old / 2 + 200


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("rate", [8000, 16_000, 44_100, 48_000])
def test_what_is_full_band_goes_up_to_half_the_rate(rate: int, after: str) -> None:
    assert hertz(AFTER[after](white(3, rate)), rate) == rate / 2
    if after not in ("quiet, 16 bits", "8 bits"):
        assert hertz(AFTER[after](speech(rate, 4, slope=0.2)), rate) == rate / 2


@pytest.mark.parametrize("edge", [1500, 3400, 5500, 16_000, 20_000])
def test_low_passes_are_found(edge: float) -> None:
    for source in (white(3, 44_100), speech(44_100, slope=0.3)):
        assert hertz(low_pass(source, 44_100, edge), 44_100) == pytest.approx(edge, abs=500)


def test_mp3_is_not_taken_for_a_telephone() -> None:
    clip = Clip.from_samples(low_pass(speech(44_100, slope=0.3), 44_100, 16_000), 44_100)
    chosen = bandwidth.Settings(min=6000)
    assert judge(bandwidth.measure(clip, chosen), FILTER.verdict(chosen)) is None


def test_pauses_of_zeros_change_nothing() -> None:
    source = bits(soxr.resample(speech(8000), 8000, 16_000))
    padded = np.concatenate([np.zeros(64_000), source, np.zeros(64_000)])
    assert hertz(padded, 16_000) == hertz(source, 16_000)


def test_speech_in_loud_noise_ends_where_it_stands_out() -> None:
    source = low_pass(speech(16_000, slope=0.3), 16_000, 3000)
    assert hertz(source + white(4, 16_000, 0.005, 5), 16_000) == pytest.approx(3000, abs=400)


def test_steady_sounds_end_where_their_spectrum_breaks_off() -> None:
    at = np.arange(32_000) / 16_000
    tone = 0.1 * np.sin(2 * np.pi * 1090 * at)
    assert hertz(tone, 16_000) == pytest.approx(1200, abs=200)
    pink = signal.lfilter([0.05], [1, -0.98], white(2, 16_000))
    assert hertz(pink, 16_000) == 8000  # it falls, and nowhere breaks off


@settings(max_examples=20, deadline=None)
@given(st.floats(-60, 40), st.sampled_from([-1, 1]))
def test_a_gain_changes_nothing(gain: float, sign: int) -> None:
    source = soxr.resample(speech(8000, slope=0.5), 8000, 16_000)
    assert hertz(sign * 10 ** (gain / 20) * source, 16_000) == hertz(source, 16_000)


@pytest.mark.parametrize(
    ("samples", "rate"),
    [(np.zeros(32_000), 16_000), (np.full(32_000, 0.2), 16_000), (white(0.99, 16_000), 16_000)],
)
def test_nothing_to_see_is_null(samples: Wide, rate: int) -> None:
    assert hertz(samples, rate) is None


def test_long_clips_are_sampled_evenly() -> None:
    """Three minutes are more frames than are looked at."""
    source = np.tile(speech(8000, 4, slope=0.5), 45)
    assert hertz(soxr.resample(source, 8000, 16_000), 16_000) == pytest.approx(4000, abs=200)
    assert hertz(np.tile(speech(16_000, 4, slope=0.2), 45), 16_000) == 8000


def test_images_of_simple_resamplers_reach_no_further_than_said() -> None:
    """SciPy's polyphase filter is short: what lay below 4 kHz is mirrored just above it."""
    source = speech(8000, slope=0.5)
    found = hertz(signal.resample_poly(source, 2, 1), 16_000)
    assert found is not None
    assert 3800 <= found <= 5000


# Sample rates from which sound was upsampled, by good resamplers and by simple ones.


def rate_of(samples: Wide, rate: int) -> float | None:
    clip = Clip.from_samples(samples, rate)
    return effective_rate.measure(clip, effective_rate.Settings())["effective_rate"]


def linear(samples: Wide, old: int, new: int) -> Wide:
    places = np.arange(int(len(samples) * new / old)) * old / new
    return np.asarray(np.interp(places, np.arange(len(samples)), samples))


def polyphase(samples: Wide, old: int, new: int) -> Wide:
    common = int(np.gcd(old, new))
    return np.asarray(signal.resample_poly(samples, new // common, old // common))


RESAMPLERS: dict[str, Callable[[Wide, int, int], Wide]] = {
    "soxr": lambda x, old, new: soxr.resample(x, old, new, "HQ"),
    "cubic": lambda x, old, new: soxr.resample(x, old, new, "QQ"),
    "polyphase": polyphase,
    "linear": linear,
}


@pytest.mark.parametrize("name", RESAMPLERS)
@pytest.mark.parametrize(
    ("old", "new"),
    [(8000, 16_000), (8000, 44_100), (16_000, 44_100), (16_000, 48_000), (24_000, 48_000)],
)
def test_what_was_upsampled_has_its_old_rate(old: int, new: int, name: str) -> None:
    source = bits(speech(old, 4, slope=0.4))
    assert rate_of(bits(RESAMPLERS[name](source, old, new)), new) == old


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_what_is_full_band_has_its_own_rate(rate: int) -> None:
    assert rate_of(bits(speech(rate, 4, slope=0.2)), rate) == rate
    assert rate_of(white(3, rate), rate) == rate


def test_a_spectrum_that_falls_slowly_is_not_upsampled() -> None:
    """Speech has little above 4 kHz, and a break is steep."""
    assert rate_of(bits(speech(44_100, 4, slope=0.9)), 44_100) == 44_100


def test_a_low_pass_counts_as_the_rate_that_would_hold_it() -> None:
    assert rate_of(low_pass(speech(44_100, slope=0.3), 44_100, 16_000), 44_100) == 32_000


@pytest.mark.parametrize(
    "samples", [np.zeros(32_000), np.zeros(0), np.full(32_000, np.nan), white(0.5, 16_000)],
    ids=["silence", "nothing", "NaN", "half a second"],
)  # fmt: skip
def test_what_has_no_bandwidth_has_no_rate(samples: Wide) -> None:
    assert rate_of(samples, 16_000) is None


def test_a_long_clip_is_sampled() -> None:
    source = bits(np.tile(speech(8000, 4, slope=0.5), 40))
    assert rate_of(soxr.resample(source, 8000, 16_000), 16_000) == 8000
