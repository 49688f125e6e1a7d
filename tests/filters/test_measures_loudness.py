"""Loudness against the numbers of ITU-R BS.1770-4 and EBU Tech 3341."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal

from tests.helpers.tiers import nightly
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import loudness

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
