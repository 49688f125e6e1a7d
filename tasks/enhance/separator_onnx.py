"""Removes music with a UVR-MDX graph from a local folder, as Emilia-Pipe does.

Such a graph has one input [1, 4, dim_f, dim_t]: real and imaginary part of the left and the right
channel's spectrum at 44.1 kHz, Hann's window, dim_f of its bins; and returns the same of one of the
two sources. A window has (dim_t - 1) hop samples, of which n_fft / 2 on each side are margin: the
next one begins where their middles meet. Both channels are the same here. With `denoise` the model
runs twice on each window, once with inverted sign, and half the difference counts.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.fft
from pydantic import Field

from ..base.arrays import Float32s, Float64s
from ..base.errors import ConfigError
from ..models import model_files, onnx_session, registry
from ..settings import Threshold, Transient
from ..settings.base import WORDS
from . import Enhancer, EnhancerSettings

if TYPE_CHECKING:
    import onnxruntime

VERSION = 1
RATE = 44_100
ENGINES = {"onnxruntime": "InferenceSession"}
ASKED_BY = "enhance.use=separator_onnx"


class Settings(EnhancerSettings):
    path: str = Transient(
        "", "The graph, or a folder that holds one: UVR-MDX-NET-Inst_HQ_3.onnx for Emilia."
    )
    licence: str = Threshold("unknown", "Licence of the weights, for the data card.", mark=WORDS)
    n_fft: int = Field(6144, ge=64, multiple_of=2, description="Samples of a frame.")
    hop: int = Field(1024, ge=16, description="Samples from a frame to the next.")
    gives: Literal["music", "voice"] = Field(
        "music", description="What the graph gives; if music, the rest of the mix is the voice."
    )
    denoise: bool = Field(
        True, description="Process each window twice, which halves the graph's noise."
    )
    limit_db: float | None = Field(
        None, gt=0, le=100, description="Most attenuation, dB. null: no limit."
    )


def known_models(settings: Settings) -> tuple[registry.Model, ...]:
    path, about = _graph(settings), "separation of voice and music"
    return (model_files.of_user(path.stem, about, settings.licence, ASKED_BY, [path]),)


def check_weights(settings: Settings) -> None:
    _dims(settings)


def _graph(settings: Settings) -> Path:
    path = Path(settings.path)
    graphs = sorted(path.glob("*.onnx")) if path.is_dir() else [path]
    if not settings.path or len(graphs) != 1 or not graphs[0].is_file():
        raise ConfigError(
            f"{ASKED_BY} needs a UVR-MDX graph, which is not there: type `--set "
            "enhance.path=FILE`, the path of an .onnx file or of a folder with one; none is "
            "downloaded"
        )
    return graphs[0]


@lru_cache(maxsize=2)
def _session(path: Path) -> onnxruntime.InferenceSession:
    refusals: tuple[type[Exception], ...] = (OSError, *onnx_session.errors())
    try:
        return onnx_session.session(path.read_bytes())
    except refusals as error:
        raise ConfigError(f"{ASKED_BY}: {path} is not an ONNX graph: {error}") from error


def _dims(settings: Settings) -> tuple[int, int]:
    path = _graph(settings)
    [given, *more] = _session(path).get_inputs()
    shape = given.shape
    if more or len(shape) != 4 or shape[1] != 4 or not all(isinstance(n, int) for n in shape[2:]):
        raise ConfigError(
            f"{ASKED_BY}: {path.name} is not a UVR-MDX graph: its input is {shape}, not "
            "[1, 4, dim_f, dim_t]"
        )
    dim_f, dim_t = shape[2:]
    if dim_f > settings.n_fft // 2 + 1 or (dim_t - 1) * settings.hop <= settings.n_fft:
        raise ConfigError(
            f"{ASKED_BY}: frames of n_fft={settings.n_fft} every hop={settings.hop} do not fit "
            f"{path.name}, which has {dim_f} bins and {dim_t} frames"
        )
    return dim_f, dim_t


class Separator:
    """One utterance, window by window."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bins, self._frames = _dims(settings)
        self._model = _session(_graph(settings))
        phase = np.arange(settings.n_fft) / settings.n_fft
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * phase)).astype(np.float32)
        self._margin = settings.n_fft // 2
        self._size = settings.hop * (self._frames - 1)
        self._held = np.zeros(self._margin, np.float32)
        self._due = 0  # samples pushed and not yet returned

    def push(self, samples: Float32s) -> Float32s:
        self._due += len(samples)
        self._held = np.concatenate([self._held, samples])
        outputs = [np.zeros(0, np.float32)]
        while len(self._held) >= self._size:
            outputs.append(self._voice(self._held[: self._size]))
            self._held = self._held[self._size - 2 * self._margin :]
        cleaned = np.concatenate(outputs)
        self._due -= len(cleaned)
        return cleaned

    def finish(self) -> Float32s:
        due = self._due
        return self.push(np.zeros(self._size, np.float32))[:due] if due else np.zeros(0, np.float32)

    def _voice(self, mix: Float32s) -> Float32s:
        """The voice of a window, without its margins."""
        padded = np.pad(mix, self._margin, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, self._settings.n_fft)
        spectrum = scipy.fft.rfft(frames[:: self._settings.hop] * self._window, axis=1).T
        lower = spectrum[: self._bins]
        heard = np.stack([lower.real, lower.imag] * 2)[None].astype(np.float32)
        name = self._model.get_inputs()[0].name
        [given, *_] = self._model.run(None, {name: heard})
        if self._settings.denoise:
            given = 0.5 * (given - self._model.run(None, {name: -heard})[0])
        filled = np.zeros_like(spectrum)
        filled[: self._bins] = given[0, 0] + 1j * given[0, 1]
        samples = self._overlapped(scipy.fft.irfft(filled.T, self._settings.n_fft, axis=1))
        inner = slice(self._margin, -self._margin)
        voice: Float32s = samples[inner]
        return mix[inner] - voice if self._settings.gives == "music" else voice

    def _overlapped(self, frames: Float64s) -> Float32s:
        """Frames windowed, added, and divided by the sum of the squared windows."""
        n_fft, hop = self._settings.n_fft, self._settings.hop
        total = np.zeros((2, self._size + n_fft))
        for number, frame in enumerate(frames):
            part = slice(number * hop, number * hop + n_fft)
            total[0, part] += frame * self._window
            total[1, part] += self._window**2
        inner = total[:, self._margin : self._margin + self._size]
        summed: Float32s = (inner[0] / np.maximum(inner[1], 1e-8)).astype(np.float32)
        return summed


def start(settings: Settings) -> Enhancer:
    return Separator(settings)
