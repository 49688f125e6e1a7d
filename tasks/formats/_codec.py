"""Codecs as ONNX graphs that turn audio into tokens.

A folder holds one graph (`encoder_model.onnx`, `encoder.onnx`, `speech_tokenizer*.onnx`, or the
only `.onnx`) and, as Hugging Face stores them, `preprocessor_config.json` or `config.json` with the
sample rate. The graph is known by its inputs:

    a waveform [1, 1, n] or [1, n] in ±1   EnCodec, DAC, Mimi; a mask of ones and a bandwidth are
                                           filled in where the graph asks for them
    `feats` [1, 128, t], `feats_length`    S3 tokenizers (CosyVoice): Whisper's log mel energies of
                                           up to 30 s at 16 kHz; longer clips in such pieces

The first output of integers is the tokens, [.., codebooks, frames].
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tasks.base.arrays import RATE, Float32s
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject
from tasks.models import model_files, onnx_session

if TYPE_CHECKING:
    import onnxruntime

SETTING = "codec_onnx of the format features"
GRAPHS = ("encoder_model.onnx", "encoder.onnx", "speech_tokenizer*.onnx", "*.onnx")
CONFIGS = ("preprocessor_config.json", "config.json")
BANDWIDTH = 6.0  # kbit/s, EnCodec's usual one at 24 kHz
MELS, MEL_FFT, MEL_HOP = 128, 400, 160
MEL_SECONDS = 30
TRIED = 10  # s of silence that tell the frame rate

Int32s = NDArray[np.int32]


@dataclass(frozen=True)
class Codec:
    """A codec's graph, and the sample rate at which it takes audio, Hz."""

    graph: Path
    rate: int

    @classmethod
    def of(cls, folder: str | None, rate: int | None) -> Codec:
        """ConfigError where there is no graph, several, or nobody says the sample rate."""
        if folder is None:
            raise ConfigError(
                f"{SETTING} is missing: arrays lists codes, which need the folder of a codec's "
                "ONNX graph, for example onnx-community/kyutai-mimi-ONNX from Hugging Face"
            )
        return _codec(folder, rate)

    @cached_property
    def sha256(self) -> str:
        """Of the graph and the weights that it keeps beside itself."""
        return "-".join(map(model_files.sha256, model_files.with_data(self.graph)))

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        try:
            return onnx_session.session(str(self.graph))
        except onnx_session.errors() as error:
            raise ConfigError(f"{SETTING}: {self.graph} is not an ONNX graph: {error}") from error

    def check(self) -> None:
        """ConfigError where the graph has other inputs or outputs than a codec."""
        session = self._session
        if self._audio() is None or not any("int" in x.type for x in session.get_outputs()):
            names = ", ".join(x.name for x in (*session.get_inputs(), *session.get_outputs()))
            raise ConfigError(
                f"{SETTING}: {self.graph} ({names}) does not turn a waveform or `feats` into tokens"
            )

    def described(self) -> JsonObject:
        """Frame rate (Hz, of 10 s), codebooks, sample rate, and the hash of the weights."""
        codebooks, frames = self.codes(np.zeros(TRIED * self.rate, np.float32)).shape
        facts = {"frame_rate": frames / TRIED, "codebooks": codebooks, "sample_rate": self.rate}
        return {**facts, "graph": self.graph.name, "sha256": self.sha256}

    def codes(self, samples: Float32s) -> Int32s:
        """Tokens [codebooks, frames] of samples [n] in ±1 at `rate` Hz."""
        if self._audio() == "feats":
            step = MEL_SECONDS * self.rate
            starts = range(0, max(len(samples), 1), step)
            parts = [samples[start : start + step] for start in starts]
            return np.concatenate([self._run(part) for part in parts], axis=1)
        return self._run(samples)

    def _audio(self) -> str | None:
        """The input that takes the clip."""
        for entry in self._session.get_inputs():
            if entry.name == "feats":
                return "feats"
            if "float" in entry.type and len(entry.shape) in (2, 3):
                return str(entry.name)
        return None

    def _run(self, samples: Float32s) -> Int32s:
        inputs: dict[str, NDArray[Any]] = {}
        audio = self._audio()
        for entry in self._session.get_inputs():
            if entry.name == "feats":
                inputs["feats"] = _whisper_mels(samples)[None]
            elif entry.name == audio:
                inputs[entry.name] = samples.reshape((1,) * (len(entry.shape) - 1) + (-1,))
            elif entry.name == "feats_length":
                length = [len(samples) // MEL_HOP]
                inputs[entry.name] = np.asarray(length, _KINDS[entry.type])
            elif "mask" in entry.name:
                shape = (1,) * (len(entry.shape) - 1) + (len(samples),)
                inputs[entry.name] = np.ones(shape, _KINDS[entry.type])
            elif "bandwidth" in entry.name:
                shape = tuple(1 for _ in entry.shape)
                inputs[entry.name] = np.full(shape, BANDWIDTH, _KINDS[entry.type])
        wanted = next(x.name for x in self._session.get_outputs() if "int" in x.type)
        [tokens] = self._session.run([wanted], inputs)
        return np.asarray(tokens, np.int32).reshape(-1, tokens.shape[-1])


_KINDS: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


@lru_cache(maxsize=4)
def _codec(folder: str, rate: int | None) -> Codec:
    home = Path(folder).expanduser()
    if not home.is_dir():
        raise ConfigError(f"{SETTING}: {folder} is not a folder on this machine")
    graphs = next((g for p in GRAPHS if (g := sorted(home.glob(p)))), [])
    if len(graphs) != 1:
        content = "no ONNX graph" if not graphs else f"{len(graphs)} graphs"
        raise ConfigError(f"{SETTING}: {folder} has {content}; keep only the encoder's there")
    codec_rate = rate or _stated_rate(home)
    if codec_rate is None and graphs[0].name.startswith("speech_tokenizer"):
        codec_rate = RATE
    if codec_rate is None:
        raise ConfigError(
            f"{SETTING}: nothing in {folder} says the codec's sample rate; set codec_rate"
        )
    return Codec(graphs[0], codec_rate)


def _stated_rate(home: Path) -> int | None:
    for name in CONFIGS:
        try:
            config = json.loads((home / name).read_text("utf-8"))
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise ConfigError(f"{SETTING}: {home / name} is not JSON: {error}") from error
        rate = config.get("sampling_rate") if isinstance(config, dict) else None
        if isinstance(rate, int) and rate > 0:
            return rate
    return None


def _whisper_mels(samples: Float32s) -> Float32s:
    """Whisper's log mel energies [128, n // 160] of samples at 16 kHz (Radford et al. 2022): the
    last frame of the transform left out, 8 powers of ten below the largest, scaled about 0."""
    import librosa

    half = MEL_FFT // 2
    padded = np.pad(samples, half, mode="reflect" if len(samples) > half else "constant")
    spectra = librosa.stft(padded, n_fft=MEL_FFT, hop_length=MEL_HOP, center=False)[:, :-1]
    filters = librosa.filters.mel(sr=RATE, n_fft=MEL_FFT, n_mels=MELS)
    powers = np.log10(np.maximum(filters @ np.abs(spectra) ** 2, 1e-10))
    mels: Float32s = ((np.maximum(powers, powers.max(initial=-10) - 8) + 4) / 4).astype(np.float32)
    return mels
