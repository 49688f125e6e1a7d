"""Mono, length and int16: the arithmetic that a corpus cannot forgive."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip, channels
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.settings import ResampleSettings
from uttermill.tasks.stages import pcm
from uttermill.tasks.stages.pcm import to_int16


def settings(**values: Any) -> ResampleSettings:
    return ResampleSettings.model_validate(values)


@given(st.integers(0, 10**10), st.integers(1000, 768000), st.integers(4000, 192000))
def test_length_is_rounded_half_up(n: int, src: int, dst: int) -> None:
    exact = (Decimal(n) * dst / src).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    assert pcm.resampled_length(n, src, dst) == int(exact)


def test_a_half_goes_up() -> None:
    assert pcm.resampled_length(1, 32000, 16000) == 1
    assert pcm.resampled_length(1, 48000, 16000) == 0
    assert pcm.resampled_length(5, 32000, 16000) == 3


def test_every_int16_survives_an_equal_rate() -> None:
    every = np.arange(-32768, 32768, dtype=np.int32).astype(np.int16)
    floats = (every / 32768).astype(np.float32)[:, None]
    assert np.array_equal(pcm.of_clip(Clip.from_samples(floats, 16000), settings()), every)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 32767), (1.5, 32767), (1e30, 32767), (-1.0, -32768), (-7.0, -32768), (0.0, 0),
        (0.5 / 32768, 0), (1.5 / 32768, 2), (2.5 / 32768, 2), (-0.5 / 32768, 0),
    ],
)  # fmt: skip
def test_clamped_and_rounded_half_to_even(value: float, expected: int) -> None:
    assert to_int16(np.array([value], np.float32)).tolist() == [expected]


def test_to_int16_leaves_its_input_alone() -> None:
    samples = np.array([0.25, 2.0], np.float32)
    to_int16(samples)
    assert samples.tolist() == [0.25, 2.0]


@pytest.mark.parametrize(
    ("rule", "expected"), [("mean", 0.5), ("first", 0.25), (0, 0.25), (1, 0.75)]
)
def test_mono_rules(rule: str | int, expected: float) -> None:
    stereo = np.tile(np.array([[0.25, 0.75]], np.float32), (5, 1))
    got = pcm.to_mono(stereo, settings(mono=rule).mono)
    assert got.dtype == np.float32
    assert got.tolist() == [expected] * 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [*range(1, 10), 16])
def test_the_mean_of_channels_is_numpys_to_the_bit(count: int, dtype: type) -> None:
    chance = np.random.default_rng(count)
    scales = 10.0 ** chance.integers(-44, 38, (5000, count))
    samples = (chance.standard_normal((5000, count)) * scales).clip(-3e38, 3e38).astype("f4")
    samples[:2] = np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        expected = samples.mean(axis=1, dtype=dtype).astype(np.float32)
        assert np.array_equal(channels.mean(samples, dtype), expected)


@pytest.mark.parametrize("rule", [1, 7, -1])
def test_a_channel_that_is_not_there(rule: int) -> None:
    with pytest.raises(ItemError) as caught:
        pcm.to_mono(np.zeros((5, 1), np.float32), rule)
    assert caught.value.code == "unsupported"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rate", [16000, 44100])
def test_not_finite(value: float, rate: int) -> None:
    samples = np.zeros((2000, 2), np.float32)
    samples[700, 1] = value
    with pytest.raises(ItemError) as caught:
        pcm.of_clip(Clip.from_samples(samples, rate), settings())
    assert caught.value.code == "non_finite"


@pytest.mark.parametrize("seconds", [1, pcm.STREAM_ABOVE_S + 1])
@pytest.mark.parametrize("rate", [8000, 16000])
def test_channels_that_cancel_each_other_are_not_silence(seconds: int, rate: int) -> None:
    """Silence was published with the source's text; of a recogniser's it said `empty_text`."""
    left = np.random.default_rng(5).normal(scale=0.1, size=seconds * rate)
    clip = Clip.from_samples(np.stack([left, -left], 1), rate)
    with pytest.raises(ItemError, match=r"channels_cancel.*resample\.mono=first"):
        pcm.of_clip(clip, ResampleSettings())
    assert pcm.of_clip(clip, ResampleSettings(mono="first")).any()


@pytest.mark.parametrize("seconds", [1, pcm.STREAM_ABOVE_S + 1])
@pytest.mark.parametrize("rate", [8000, 16000])
@pytest.mark.parametrize("scale", [5, 32768, 1e30])
def test_a_clip_is_not_cut_to_pieces_at_full_scale(seconds: int, rate: int, scale: float) -> None:
    """Floats in the scale of int16 were published as a square wave, and no filter saw it."""
    voice = np.random.default_rng(5).normal(size=seconds * rate) * np.float32(0.2)
    clip = Clip.from_samples((voice * np.float32(scale)).astype(np.float32)[:, None], rate)
    with pytest.raises(ItemError, match=r"over_full_scale.*peak is.*levels=\[\{use: peak\}\]"):
        pcm.of_clip(clip, ResampleSettings())
    brought_down = ResampleSettings.model_validate({"levels": [{"use": "peak"}]})
    assert np.abs(pcm.of_clip(clip, brought_down).astype(int)).max() == pytest.approx(29204, abs=2)
    hot = Clip.from_samples((voice * np.float32(1.4)).astype(np.float32)[:, None], rate)
    assert np.abs(pcm.of_clip(hot, ResampleSettings()).astype(int)).max() >= 32767  # an overshoot


@pytest.mark.parametrize("hertz", [100, 1000, 2000, 3000])
def test_a_square_wave_at_full_scale_overshoots_and_stays(hertz: int) -> None:
    """Resampled, it keeps its lowest harmonics, which are higher than it."""
    wave = np.sign(np.sin(2 * np.pi * hertz * np.arange(48000) / 48000 + 0.1)).astype(np.float32)
    found = pcm.of_clip(Clip.from_samples(wave[:, None], 48000), ResampleSettings())
    assert np.abs(found.astype(int)).max() == 32768


@pytest.mark.parametrize("count", [2, 6, 128])
def test_a_single_channel_with_sound_is_kept(count: int) -> None:
    sound = np.zeros((1600, count))
    sound[:, 1] = np.random.default_rng(5).normal(scale=0.3, size=1600)
    assert pcm.of_clip(Clip.from_samples(sound, 16000), ResampleSettings()).any()
    assert not pcm.of_clip(Clip.from_samples(0 * sound, 16000), ResampleSettings()).any()


def test_nothing_in_nothing_out() -> None:
    got = pcm.of_clip(Clip.from_samples(np.zeros((0, 2), np.float32), 44100), settings())
    assert (got.dtype, len(got)) == (np.dtype(np.int16), 0)


@pytest.mark.parametrize("use", ["soxr_hq", "soxr_vhq"])
def test_a_long_clip_is_streamed_to_the_same_length_and_wave(
    use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate, n = 22050, 121 * 22050 + 17
    sine = (0.5 * np.sin(2 * np.pi * 300 * np.arange(n) / rate)).astype(np.float32)[:, None]
    wanted = settings(resampler={"use": use})
    streamed = pcm.of_clip(Clip.from_samples(sine, rate), wanted)
    assert np.array_equal(streamed, pcm.of_clip(Clip.from_samples(sine, rate), wanted))
    monkeypatch.setattr(pcm, "STREAM_ABOVE_S", 10**6)
    whole = pcm.of_clip(Clip.from_samples(sine, rate), wanted)
    assert len(streamed) == len(whole) == pcm.resampled_length(n, rate, 16000)
    assert np.abs(streamed.astype(int) - whole).max() <= 1


def test_a_plug_in_of_the_wrong_length_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    soxr_hq = plugins.RESAMPLERS.load("soxr_hq")
    monkeypatch.setattr(soxr_hq, "resample", lambda x, src, dst, s: x)
    with pytest.raises(AssertionError, match="soxr_hq gave 4410 samples where 1600 are due"):
        pcm.of_clip(Clip.from_samples(np.zeros((4410, 1), np.float32), 44100), settings())
