"""Whether the channels of a recording hold different voices, as the sides of a call do.

In a call one side speaks at a time: speech is much louder in one channel than in the others, and
that channel changes. In a room all microphones pick up everybody; in music all channels sound
together. Only speech counts (Silero VAD), so that music on hold has no effect. Levels are those of
windows of 32 ms at 16 kHz.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from ..audio.types import Sides, regroup
from ..base.arrays import RATE, Bools, Float32s, Float64s
from .silero import WINDOW, MonoStream, fresh_probabilities

MOST_CHANNELS = 8
LOOKED = 1800.0  # s of a recording that are analysed
ENOUGH = 180.0  # s of speech that suffice
CHUNK = 960  # windows analysed together: 31 s

#: Least probability of speech. Half of telephone-band speech has less than 0.4, music less than
#: 0.05.
SPEECH = 0.15
ALONE = 10.0  # dB by which a channel is louder when only its side speaks
AUDIBLE = -60.0  # dBFS
LEAST_ALONE = 0.6  # share of the speech with one side alone
LEAST_SECONDS = 1.0  # of each side alone
LEAST_SHARE = 0.03  # of each side, of the time with one side alone
ABOVE_LEAK = 6.0  # dB by which a side is louder than leakage into its channel
#: A stereo image: the same sound at the same time in both channels, one softer.
IMAGE_LEAK, IMAGE_CORRELATION = -15.0, 0.8

_STEP = WINDOW / RATE
Blocks = Callable[[], Iterable[Float32s]]


#: Levels of consecutive windows in dBFS [n, channels]; whether each holds speech [n, channels]; and
#: the correlation of the two loudest channels [n].
_Windows = tuple[Float64s, Bools, Float64s]


def looked_at(blocks: Blocks, rate: int, channels: int) -> Sides:
    """Analyse the blocks of a recording, float32 [n, channels]; reads them once or twice."""
    if channels > MOST_CHANNELS:
        return Sides(False, f"{channels} channels are those of a microphone array")
    seconds = np.zeros(channels)
    for grid in _chunks(blocks(), rate, channels):
        levels = _levels(grid)
        for channel in range(channels):
            seconds[channel] += _alone(levels, channel).sum() * _STEP
        if seconds.min() >= LEAST_SECONDS:
            break
    else:
        if not seconds.any():
            return Sides(False, "none of them ever sounds alone")
        return Sides(False, "at most one of them is ever heard alone")
    return _judged([*_spoken(blocks(), rate, channels)], channels)


def _chunks(blocks: Iterable[Float32s], rate: int, channels: int) -> Iterator[Float32s]:
    """The samples at 16 kHz, float32 [windows, WINDOW, channels], CHUNK windows at a time, so that
    the result does not depend on the blocks."""
    size = CHUNK * WINDOW
    pieces = regroup(_resampled(blocks, rate, channels), size)
    for piece in islice(pieces, math.ceil(LOOKED * RATE / size)):
        if count := len(piece) // WINDOW:
            yield piece[: count * WINDOW].reshape(count, WINDOW, channels)


def _resampled(blocks: Iterable[Float32s], rate: int, channels: int) -> Iterator[Float32s]:
    """The samples at 16 kHz, float32 [n, channels]."""
    streams = [MonoStream(rate) for _ in range(channels)]
    for block in blocks:
        yield np.stack([stream.push(block[:, n]) for n, stream in enumerate(streams)], 1)
    yield np.stack([stream.finish() for stream in streams], 1)


def _levels(grid: Float32s) -> Float64s:
    power = np.square(grid, dtype=np.float64).mean(axis=1)
    levels: Float64s = 10 * np.log10(power + 1e-12)
    return levels


def _alone(levels: Float64s, channel: int) -> Bools:
    """The windows in which only this channel is audible."""
    others = np.delete(levels, channel, axis=1).max(axis=1)
    level = levels[:, channel]
    alone: Bools = (level >= AUDIBLE) & (level - others >= ALONE)
    return alone


def _spoken(blocks: Iterable[Float32s], rate: int, channels: int) -> Iterator[_Windows]:
    """The windows, until they hold ENOUGH speech."""
    seconds = 0.0
    for grid in _chunks(blocks, rate, channels):
        levels = _levels(grid)
        columns = [np.ascontiguousarray(grid[:, :, n]) for n in range(channels)]
        speech = np.stack([fresh_probabilities(column) >= SPEECH for column in columns], 1)
        order = np.argsort(levels, axis=1)
        pair = np.take_along_axis(grid.astype(np.float64), order[:, None, -2:], axis=2)
        product = (pair[..., 0] * pair[..., 1]).sum(axis=1)
        norm = np.sqrt(np.square(pair).sum(axis=1).prod(axis=1))
        yield levels, speech, np.abs(product) / np.maximum(norm, 1e-12)
        seconds += (speech & (levels >= AUDIBLE)).any(axis=1).sum() * _STEP
        if seconds >= ENOUGH:
            return


def _judged(parts: list[_Windows], channels: int) -> Sides:
    levels, speech, correlations = (np.concatenate(column) for column in zip(*parts, strict=True))
    spoken = (speech & (levels >= AUDIBLE)).any(axis=1)
    masks = [_alone(levels, n) & speech[:, n] for n in range(channels)]
    heard = np.array([mask.sum() for mask in masks]) * _STEP
    every = np.logical_or.reduce(masks)
    if not every.any():
        return Sides(False, "what sounds in one of them alone is not speech")
    alone = float(every.sum() / (spoken | every).sum())
    correlation = float(np.median(correlations[every]))
    #: [n][m]: the level of channel n while the side of channel m speaks alone, dBFS
    medians = [
        [float(np.median(levels[mask, n])) if mask.any() else -120.0 for mask in masks]
        for n in range(channels)
    ]
    above = min(row[n] - max(row[:n] + row[n + 1 :]) for n, row in enumerate(medians))
    leaks = (_leak(levels, masks, n) for n in range(channels))
    cross_talk = max((leak for leak in leaks if leak is not None), default=None)
    measured = alone, correlation, cross_talk
    if heard.min() < max(LEAST_SECONDS, LEAST_SHARE * heard.sum()):
        return Sides(False, "at most one of them is ever heard alone", *measured)
    if above < ABOVE_LEAK:
        return Sides(False, "one holds only an echo of the other", *measured)
    if alone < LEAST_ALONE:
        return Sides(False, "they speak together, as in a room", *measured)
    if (cross_talk or -np.inf) > IMAGE_LEAK and correlation > IMAGE_CORRELATION:
        return Sides(False, "they are a stereo image of one room", *measured)
    return Sides(True, "they hold different voices", *measured)


def _leak(levels: Float64s, masks: list[Bools], channel: int) -> float | None:
    """Leakage of other sides into a channel, in dB relative to themselves: over windows in which
    they alone speak and the leakage is audible. None if there is none."""
    leaks = []
    floor = np.percentile(levels[:, channel], 5) + 6
    for other, mask in enumerate(masks):
        if other != channel and mask.any():
            level = levels[mask, channel]
            heard = level > max(floor, AUDIBLE - 20)
            if heard.mean() >= 0.5:
                leaks.append(float(np.median((level - levels[mask, other])[heard])))
    return max(leaks, default=None)
