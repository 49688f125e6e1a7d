"""Pitch of made voices, whose frequency is known; of what has none; and of clips of any length."""

import numpy as np
import pytest
from numpy.typing import NDArray

from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import pitch

pytest.importorskip("swift_f0", reason="the weights of the filter pitch are not installed")
RATE = 16_000

Samples = NDArray[np.float64]


def voice(hertz: Samples, rate: int = RATE) -> Samples:
    """Pulses of a voice whose frequency is `hertz` at each sample, through an open vowel."""
    phase = np.cumsum(hertz) / rate
    sound = sum(np.cos(2 * np.pi * k * phase) / k for k in range(1, 25))
    return 0.1 * np.asarray(sound)


def steady(hertz: float, seconds: float, rate: int = RATE) -> Samples:
    return voice(np.full(round(seconds * rate), hertz), rate)


def measured(samples: Samples, rate: int = RATE) -> dict[str, float | None]:
    return pitch.measure(Clip.from_samples(samples, rate), pitch.Settings())


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
@pytest.mark.parametrize("hertz", [80.0, 120.0, 220.0, 400.0])
def test_the_median_is_the_frequency_of_a_steady_voice(hertz: float, rate: int) -> None:
    measures = measured(steady(hertz, 2, rate), rate)
    assert measures["pitch_median"] == pytest.approx(hertz, rel=0.01)
    assert measures["pitch_range"] == pytest.approx(0, abs=0.3)
    assert measures["pitch_voiced"] == pytest.approx(1, abs=0.1)


def test_the_range_is_that_of_a_glide() -> None:
    octave = 110 * 2 ** np.linspace(0, 1, 3 * RATE)
    measures = measured(voice(octave))
    assert measures["pitch_range"] == pytest.approx(0.9 * 12, abs=0.4), "5th to 95th percentile"
    assert measures["pitch_median"] == pytest.approx(110 * 2**0.5, rel=0.02)


def test_the_voiced_share_counts_pauses() -> None:
    with_pause = np.concatenate([steady(150, 1.5), np.zeros(RATE // 2 * 3)])
    assert measured(with_pause)["pitch_voiced"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("samples", [np.zeros(RATE), np.full(RATE, np.nan), np.zeros(0)])
def test_what_has_no_voice_has_no_median(samples: Samples) -> None:
    assert measured(samples)["pitch_median"] is None


def test_noise_has_no_voice() -> None:
    noise = 0.1 * np.random.default_rng(3).standard_normal(4 * RATE)
    measures = measured(noise)
    assert measures["pitch_voiced"] == pytest.approx(0, abs=0.02)
    assert measures["pitch_median"] is None
