"""Log mel energies as Kaldi computes them (feature-fbank.cc, feature-window.cc).

Frames of 25 ms every 10 ms: mean removed, pre-emphasis 0.97, Povey window, FFT of the next power of
two, triangles on the mel scale 1127 ln(1 + f / 700), no dither.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ..base.arrays import RATE, Float32s, Float64s

EMPHASIS = 0.97
FLOOR = 1.1920929e-07  # least energy, so that silence has a logarithm


@dataclass(frozen=True, slots=True)
class Fbank:
    """Parameters of the energies: `bins` triangles from `low_hz` to `high_hz`, at `rate` Hz.

    `whole`: only frames that lie inside the signal; otherwise one for every 10 ms, with the signal
    mirrored at its ends (Kaldi's `snip_edges=false`). `scale`: factor for samples in ±1.
    """

    rate: int = RATE
    bins: int = 80
    high_hz: float = RATE / 2
    low_hz: float = 20.0
    whole: bool = True
    scale: float = 1.0

    @property
    def frame(self) -> int:
        """Samples of a frame."""
        return int(0.025 * self.rate)

    @property
    def hop(self) -> int:
        """Samples from a frame to the next."""
        return int(0.01 * self.rate)

    @property
    def fft(self) -> int:
        return 1 << (self.frame - 1).bit_length()

    def frames(self, samples: int) -> int:
        """The number of frames that this many samples give."""
        if self.whole:
            return max((samples - self.frame) // self.hop + 1, 0)
        return (samples + self.hop // 2) // self.hop

    def log_energies(self, samples: Float32s) -> Float32s:
        """Float32 [n] in ±1 at `rate` to log energies [frames, bins]."""
        count = self.frames(len(samples))
        if not count:
            return np.empty((0, self.bins), np.float32)
        if self.scale != 1.0:
            samples = samples * np.float32(self.scale)
        if not self.whole:
            samples = self.mirrored(samples)
        frames = np.lib.stride_tricks.sliding_window_view(samples, self.frame)[:: self.hop][:count]
        frames = frames - frames.mean(axis=1, keepdims=True)
        shaped = np.zeros((len(frames), self.fft), np.float32)
        shaped[:, 1 : self.frame] = frames[:, 1:] - np.float32(EMPHASIS) * frames[:, :-1]
        shaped[:, 0] = np.float32(1 - EMPHASIS) * frames[:, 0]
        shaped[:, : self.frame] *= _window(self.frame)
        import scipy.fft  # loaded only when energies are computed

        spectra = scipy.fft.rfft(shaped, axis=1, overwrite_x=True)
        parts = spectra.view(np.float32).reshape(len(frames), -1, 2)
        power = np.einsum("nfp,nfp->nf", parts, parts)  # half the time of abs and square
        energies = power @ triangles(self)
        features: Float32s = np.log(np.maximum(energies, np.float32(FLOOR)))
        return features

    def mirrored(self, samples: Float32s) -> Float32s:
        """The samples, extended at both ends by what all frames need: mirrored, repeatedly if the
        signal is short. Whole frames of the result are the frames of the signal."""
        before, count = (self.frame - self.hop) // 2, self.frames(len(samples))
        places = np.arange(-before, (count - 1) * self.hop + self.frame - before)
        places %= 2 * len(samples)
        return samples[np.minimum(places, 2 * len(samples) - 1 - places)]

    def whole_frames(self) -> Fbank:
        return replace(self, whole=True)


@lru_cache
def _window(size: int) -> Float32s:
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / (size - 1))
    return (hann**0.85).astype(np.float32)


@lru_cache
def triangles(kind: Fbank) -> Float32s:
    """Weights [fft / 2 + 1, bins] of each FFT bin; 0 for the last bin, at half the rate."""
    edges = np.linspace(_mel(np.array(kind.low_hz)), _mel(np.array(kind.high_hz)), kind.bins + 2)
    bins = _mel(np.arange(kind.fft // 2 + 1) * kind.rate / kind.fft)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    weights = np.maximum(np.minimum(rising, falling), 0)
    weights[-1] = 0
    return weights.astype(np.float32)


def _mel(hz: Float64s) -> Float64s:
    return 1127.0 * np.log(1 + hz / 700.0)
