"""DeepFilterNet 3 removes noise from full-band speech (Schröter et al. 2023, arXiv 2305.08227)."""

from __future__ import annotations

import tarfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.fft
import scipy.signal
from numpy.typing import NDArray

from ..base.arrays import Float32s, Float64s
from ..models import model_files, onnx_session, registry
from ..settings import Transient
from . import Enhancer, EnhancerSettings

if TYPE_CHECKING:
    import onnxruntime

VERSION = 1
RATE = 48_000
USED_MODELS = (registry.DEEPFILTER,)
ENGINES = {"onnxruntime": "InferenceSession"}
ASKED_BY = "enhance.use=deepfilter"


class Settings(EnhancerSettings):
    path: str | None = Transient(
        None, "Folder with DeepFilterNet3_onnx.tar.gz; default: the installed wheel."
    )


def start(settings: Settings) -> Enhancer:
    return Stream(model_files.located(registry.DEEPFILTER, ASKED_BY, settings.path))


# DeepFilterNet 3 (Schröter et al. 2023, arXiv 2305.08227) over its three ONNX graphs.
#
# 48 kHz mono; frames of 960 samples every 480, Vorbis window in analysis and synthesis; frame j is
# centred at sample 480 j. Two features, each less its running mean, advanced by two frames:
#
#     feat_erb   (10 log10(mean |X|² + 1e-10) - m) / 40 of 32 bands;  m <- 0.01 e + 0.99 m
#     feat_spec  X / sqrt(u) of the lowest 96 bins;                   u <- 0.01 |X| + 0.99 u
#
# with X scaled by 1/960. Bins from 96 on get their band's gain; of bin f below, the result is the
# sum over o of coef[t, f, o] X[t - 2 + o, f]. The graphs keep no state, so they run on chunks of
# CHUNK frames, each begun PREROLL frames early; running means, spectra and overlap-add continue
# across chunks.

FFT, HOP = 960, 480
BANDS = (*[2] * 13, 5, 5, 7, 7, 8, 10, 12, 13, 15, 18, 20, 24, 28, 31, 37, 42, 50, 56, 67)  # bins
LOW = 96  # bins that are filtered, not scaled
ORDER, AHEAD = 5, 2  # frames
CHUNK, PREROLL = 1600, 300  # frames: 16 and 3 s
GRAPHS = ("enc", "erb_dec", "df_dec")

_AT = np.arange(FFT) + 0.5
WINDOW = np.sin(np.pi / 2 * np.sin(np.pi * _AT / FFT) ** 2).astype(np.float32)
_STARTS = np.cumsum((0, *BANDS[:-1]))
_BAND_OF_BIN = np.repeat(np.arange(len(BANDS)), BANDS)


@lru_cache(maxsize=2)
def sessions(archive: Path) -> tuple[onnxruntime.InferenceSession, ...]:
    """The three graphs of the archive; one of each per process."""
    with tarfile.open(archive) as tar:
        members = {Path(member.name).stem: tar.extractfile(member) for member in tar}
        models = [handle.read() for name in GRAPHS if (handle := members[name]) is not None]
    return tuple(map(onnx_session.session, models))


class Stream:
    """One utterance. Samples are kept from the first frame of the next chunk's pre-roll on."""

    def __init__(self, archive: Path) -> None:
        self._graphs = sessions(archive)
        self._held = np.zeros(HOP, np.float32)  # from frame `_first` on
        self._first = 0  # first frame of the next pre-roll
        self._next = 0  # first frame not made yet
        self._count = 0  # samples pushed
        self._tail = np.zeros(HOP, np.float32)  # second half of the last frame made
        self._mean = np.linspace(-60, -90, len(BANDS))
        self._unit = np.linspace(0.001, 0.0001, LOW)

    def push(self, samples: Float32s) -> Float32s:
        self._count += len(samples)
        self._held = np.concatenate([self._held, samples])
        outputs = [np.zeros(0, np.float32)]
        while len(self._held) >= HOP * (self._next + CHUNK + AHEAD - self._first + 1):
            outputs.append(self._run(CHUNK, AHEAD))
        return np.concatenate(outputs)

    def finish(self) -> Float32s:
        frames = -(-self._count // HOP) + 1
        due = HOP * (frames - self._first + 1)
        self._held = np.concatenate([self._held, np.zeros(due - len(self._held), np.float32)])
        outputs = [np.zeros(0, np.float32)]
        while self._next < frames:
            count = min(CHUNK, frames - self._next)
            outputs.append(self._run(count, min(AHEAD, frames - self._next - count)))
        samples = np.concatenate(outputs)
        return samples[: len(samples) - (HOP * (frames - 1) - self._count)]

    def _run(self, count: int, ahead: int) -> Float32s:
        """Make the next `count` frames, with `ahead` later ones known; returns the samples that
        become final."""
        lead = self._next - self._first
        windows = np.lib.stride_tricks.sliding_window_view(self._held, FFT)[::HOP]
        spectrum = scipy.fft.rfft(windows[: lead + count + ahead] * WINDOW, axis=1)
        moved = max(self._next + count - PREROLL, 0) - self._first
        filtered = self._filtered(spectrum, lead, count, moved)
        frames = scipy.fft.irfft(filtered, FFT, axis=1).astype(np.float32) * WINDOW
        halves = np.concatenate([self._tail[None], frames[:, HOP:]])
        final: Float32s = (halves[:-1] + frames[:, :HOP]).reshape(-1)
        if self._next == 0:
            final = final[HOP:]  # before the first sample
        self._tail = halves[-1]
        self._next += count
        self._held, self._first = self._held[HOP * moved :], self._first + moved
        return final

    def _filtered(
        self, spectrum: NDArray[np.complex64], lead: int, count: int, moved: int
    ) -> NDArray[np.complex64]:
        """Filtered spectra [count, 481] after `lead` frames of pre-roll."""
        bands, bins = self._features(spectrum, lead + count, moved)
        names = ("e0", "e1", "e2", "e3", "emb", "c0")
        given = {"feat_erb": bands, "feat_spec": bins}
        coded = dict(zip(names, self._graphs[0].run(names, given), strict=True))
        c0 = coded.pop("c0")
        [mask] = self._graphs[1].run(["m"], coded)
        [coefs] = self._graphs[2].run(["coefs"], {"emb": coded["emb"], "c0": c0})
        inner = spectrum[lead : lead + count]
        result: NDArray[np.complex64] = inner * mask[0, 0, lead:][:, _BAND_OF_BIN]
        taps = coefs[0, lead:].reshape(count, LOW, ORDER, 2)
        weights = taps[..., 0] + 1j * taps[..., 1]
        around = np.zeros((count + ORDER - 1, LOW), np.complex64)
        low, high = lead - AHEAD, min(lead + count + AHEAD, len(spectrum))
        seen = spectrum[max(low, 0) : high, :LOW]
        around[max(-low, 0) : max(-low, 0) + len(seen)] = seen
        result[:, :LOW] = sum(around[o : o + count] * weights[:, :, o] for o in range(ORDER))
        return result

    def _features(
        self, spectrum: NDArray[np.complex64], frames: int, moved: int
    ) -> tuple[Float32s, Float32s]:
        """feat_erb [1, 1, frames, 32] and feat_spec [1, 2, frames, 96], zeros after the end. Stores
        the running means as of `moved` frames."""
        scaled = spectrum * np.float32(1 / FFT)
        power = scaled.real**2 + scaled.imag**2
        level = 10 * np.log10(np.add.reduceat(power, _STARTS, axis=1) / BANDS + 1e-10)
        means = _running(level, self._mean)
        units = _running(np.abs(scaled[:, :LOW]), self._unit)
        if moved:
            self._mean, self._unit = means[moved - 1], units[moved - 1]
        bands = np.zeros((1, 1, frames, len(BANDS)), np.float32)
        bins = np.zeros((1, 2, frames, LOW), np.float32)
        given = len(spectrum) - AHEAD
        bands[0, 0, :given] = ((level - means) / 40)[AHEAD:]
        normed = (scaled[:, :LOW] / np.sqrt(units))[AHEAD:]
        bins[0, 0, :given], bins[0, 1, :given] = normed.real, normed.imag
        return bands, bins


def _running(values: Float32s, before: Float64s) -> Float64s:
    """y[t] = 0.01 x[t] + 0.99 y[t - 1] over the first axis; `before` is y[-1]."""
    means: Float64s
    means, _ = scipy.signal.lfilter([0.01], [1, -0.99], values, axis=0, zi=0.99 * before[None])
    return means
