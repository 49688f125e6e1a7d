"""Sample rates from which sound was upsampled, by good resamplers and by simple ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import soxr
from scipy import signal

from tests.filters.test_measures_bandwidth import Wide, bits, low_pass, speech, white
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import effective_rate
from uttermill.tasks.plugins.rules import judge

FILTER = plugins.FILTERS.load("effective_rate")


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


def test_a_limit_drops_what_was_upsampled() -> None:
    limits = FILTER.verdict(effective_rate.Settings(min=16_000))
    source = bits(speech(8000, 4, slope=0.4))
    rejection = judge(
        {"effective_rate": rate_of(soxr.resample(source, 8000, 16_000), 16_000)}, limits
    )
    assert rejection is not None
    assert rejection.reason == "upsampled"
    assert judge({"effective_rate": rate_of(speech(16_000, 4), 16_000)}, limits) is None
