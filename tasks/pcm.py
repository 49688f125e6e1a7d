"""From decoded samples to the PCM that is kept: mono, target rate, exact length, int16.

Pure functions over arrays. Floats are in units of full scale: -1.0 is int16's -32768, so an
int16 source at the target rate comes through bit for bit. Full scale is clamped, never wrapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tasks import plugins
from tasks.errors import ItemError
from tasks.settings import ResampleSettings

Float = NDArray[np.float32]
Int16 = NDArray[np.int16]

#: Clips longer than this go through a plug-in's `stream` where it has one: memory stays bounded.
STREAM_ABOVE_S = 120
#: Input samples per streamed block. Fixed, so that the result does not depend on the machine.
BLOCK = 1 << 18
#: A plug-in may be off by this many output samples, plus the output of one input sample.
SLACK = 2


def resampled_length(n: int, src_hz: int, dst_hz: int) -> int:
    """n * dst / src, halves rounded up, in integers: what lhotse computes for the same clip."""
    return (2 * n * dst_hz + src_hz) // (2 * src_hz)


def to_mono(samples: NDArray[Any], rule: Literal["mean", "first"] | int) -> Float:
    """[n, ch] (or [n]) to float32 [n]; ItemError `unsupported` when the channel is not there."""
    table = samples if samples.ndim == 2 else samples[:, None]
    channels = table.shape[1]
    if rule == "mean" and channels > 0:
        # Summed in float64: two channels at full scale do not lose a bit on the way.
        mono = table[:, 0] if channels == 1 else table.mean(axis=1, dtype=np.float64)
    else:
        index = 0 if isinstance(rule, str) else rule
        if not 0 <= index < channels:
            raise ItemError("unsupported", f"channel {index} of a recording that has {channels}")
        mono = table[:, index]
    return np.ascontiguousarray(mono, dtype=np.float32)


def to_int16(samples: NDArray[np.floating[Any]]) -> Int16:
    """Clamp to full scale, round halves to even. The samples are finite: `convert` saw to it."""
    scaled = np.multiply(samples, np.float32(32768))
    np.rint(scaled, out=scaled)
    np.clip(scaled, -32768, 32767, out=scaled)
    result: Int16 = scaled.astype(np.int16)
    return result


def convert(samples: NDArray[Any], src_hz: int, settings: ResampleSettings) -> Int16:
    """float [n, ch] at `src_hz` to int16 [resampled_length(n)] at `settings.rate`.

    ItemError `non_finite` when a sample is NaN or infinite, `unsupported` when the channel that
    the settings ask for is not there.
    """
    length = resampled_length(len(samples), src_hz, settings.rate)
    if length == 0:
        return np.zeros(0, np.int16)
    if src_hz == settings.rate:
        return to_int16(_finite(to_mono(samples, settings.mono)))
    plugin, options = plugins.resolve("resamplers", settings.resampler)
    result = np.zeros(length, np.int16)
    at = 0
    for block in _resampled(samples, src_hz, settings, plugin, options):
        part = to_int16(_finite(block))
        room = part[: length - at]
        result[at : at + len(room)] = room
        at += len(part)
    slack = SLACK + -(-settings.rate // src_hz)
    if abs(at - length) > slack:
        name = settings.resampler.use
        raise AssertionError(f"{name} gave {at} samples where {length} are due (±{slack})")
    return result


def _resampled(
    samples: NDArray[Any], src_hz: int, settings: ResampleSettings, plugin: ModuleType, options: Any
) -> Iterator[Float]:
    if len(samples) <= STREAM_ABOVE_S * src_hz or not hasattr(plugin, "stream"):
        mono = _finite(to_mono(samples, settings.mono))
        yield plugin.resample(mono, src_hz, settings.rate, options)
        return
    starts = range(0, len(samples), BLOCK)
    blocks = (_finite(to_mono(samples[at : at + BLOCK], settings.mono)) for at in starts)
    yield from plugin.stream(blocks, src_hz, settings.rate, options)


def _finite(samples: Float) -> Float:
    if not np.isfinite(samples).all():
        raise ItemError("non_finite", "a sample is NaN or infinite")
    return samples
