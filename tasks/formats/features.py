"""What models take instead of audio: log mel energies, and tokens of a codec, in WebDataset shards.

features/<split>/shard-000000000.tar    of each clip `<key>.json`, `<key>.txt`, and
                                          `<key>.fbank.npy`   float32 [frames, bins]
                                          `<key>.codes.npy`   int32 [codebooks, frames]
features/<split>/data.list              one tar's path a line

The energies are Kaldi's (`tasks.speech.fbank`), as lhotse's `Fbank` or WeNet's `compute_fbank`
makes them (without dither). Clips stand in the same groups and order as in `webdataset`, so that
the tars of both can be read side by side. `features` in dataset.json has frame rate, codebooks and
the codec's hash.

The codec is a folder with one graph (`encoder_model.onnx`, `encoder.onnx`,
`speech_tokenizer*.onnx`, or the only `.onnx`) and, as Hugging Face stores them,
`preprocessor_config.json` or `config.json` with the sample rate. The graph is recognised by its
inputs:

    a waveform [1, 1, n] or [1, n] in ±1   EnCodec, DAC, Mimi; a mask of ones and a bandwidth are
                                           filled in where the graph asks for them
    `feats` [1, 128, t], `feats_length`    S3 tokenizers (CosyVoice): Whisper's log mel energies
                                           of up to 30 s at 16 kHz; longer clips in such pieces

The first output of integers is the tokens, [.., codebooks, frames].
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import model_validator

from ..base.arrays import RATE, Float32s
from ..base.errors import ConfigError
from ..base.json_types import JsonObject
from ..base.schema import ClipRow
from ..models import model_files, onnx_session
from ..settings import StageSettings, Threshold, Transient
from ..speech.fbank import Fbank
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _tars, webdataset

if TYPE_CHECKING:
    import onnxruntime


VERSION = 1
COLUMNS = tuple(name for name in webdataset.COLUMNS if name != "sha256_enhanced")
HOLDS_ANNOTATIONS = True
FBANK, CODES = "fbank.npy", "codes.npy"
Array = NDArray[Any]
SNIPPET = (
    "python",
    """\
import glob
import io

import numpy
import webdataset

tars = sorted(glob.glob("features/{split}/*.tar"))
for sample in webdataset.WebDataset(tars, shardshuffle=False):
    arrays = {{k: numpy.load(io.BytesIO(v)) for k, v in sample.items() if k.endswith(".npy")}}
    print(sample["__key__"], {{k: a.shape for k, a in arrays.items()}}, sample["txt"].decode())
""",
)


class Settings(StageSettings):
    arrays: tuple[Literal["fbank", "codes"], ...] = Threshold(
        ("fbank",),
        "fbank: log mel energies; codes: tokens of the codec in codec_onnx.",
        min_length=1,
    )
    like: Literal["lhotse", "wenet"] = Threshold(
        "lhotse",
        "Library whose energies are computed: lhotse mirrors the ends and stops 400 Hz below half "
        "the rate; wenet takes whole frames of 16-bit samples.",
    )
    bins: int = Threshold(80, "Mel bins.", ge=8, le=256)
    codec_onnx: str | None = Transient(
        None, "Folder of a codec's ONNX graph (EnCodec, DAC, Mimi, or an S3 tokenizer)."
    )
    codec_rate: int | None = Threshold(
        None, "Sample rate of the codec, Hz, where its folder does not say.", gt=0
    )

    @model_validator(mode="after")
    def _used(self) -> Settings:
        if self.codec_onnx is not None and "codes" not in self.arrays:
            raise ValueError(
                "codec_onnx names a codec, but arrays does not list codes: add codes, or remove it"
            )
        return self


def rates(settings: Settings) -> Collection[int] | None:
    return (codec.rate,) if (codec := _codec_of(settings)) else None


def identity(settings: Settings) -> str | None:
    return codec.sha256 if (codec := _codec_of(settings)) else None


def check_weights(settings: Settings) -> None:
    """Raises ConfigError if the codec's folder is missing, or has no codec's graph."""
    if codec := _codec_of(settings):
        codec.check()


def described(settings: Settings, rate: int) -> JsonObject:
    """What dataset.json says of the features of clips at `rate` Hz."""
    facts: JsonObject = {}
    if (energies := _energies(settings, rate)) is not None:
        facts["fbank"] = {
            "like": settings.like,
            "bins": energies.bins,
            "frame_rate": rate / energies.hop,
            "sample_rate": rate,
        }
    if codec := _codec_of(settings):
        facts["codes"] = codec.described()
    return facts


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"features/{split}/shard-{number:09d}.tar"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    def members(row: ClipRow, suffix: str) -> dict[str, bytes]:
        stem, samples = _stem(row), pcm(row).astype(np.float32) / np.float32(2**15)
        files = _texts(row)
        if (energies := _energies(settings, row["sample_rate"])) is not None:
            files[f"{stem}.{FBANK}"] = _npy(_frames(energies, samples))
        if codec := _codec_of(settings):
            files[f"{stem}.{CODES}"] = _npy(codec.codes(samples))
        return files

    _tars.write(out, shard.path, rows, pcm, members, _clips.Encoding("wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Names, order and texts, and the shape of each array; the numbers by the tar's digest, as
    they do not follow from the rows."""

    def members(row: ClipRow, suffix: str) -> dict[str, _tars.Expected]:
        due: dict[str, _tars.Expected] = {**_texts(row)}
        if (energies := _energies(settings, row["sample_rate"])) is not None:
            shape = energies.frames(row["num_samples"]), energies.bins
            due[f"{_stem(row)}.{FBANK}"] = partial(_misshapen, kind=np.float32, shape=shape)
        if "codes" in settings.arrays:
            due[f"{_stem(row)}.{CODES}"] = partial(_misshapen, kind=np.int32, shape=None)
        return due

    return _tars.check(out, shard.path, rows, members, _clips.Encoding("wav"))[0]


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)


listing = partial(_lists.prefixed, "features")


def _energies(settings: Settings, rate: int) -> Fbank | None:
    if "fbank" not in settings.arrays:
        return None
    if settings.like == "lhotse":
        return Fbank(rate, settings.bins, rate / 2 - 400, whole=False)
    return Fbank(rate, settings.bins, rate / 2, scale=2.0**15)


def _codec_of(settings: Settings) -> Codec | None:
    """The codec, None if no tokens are wanted. Raises ConfigError if it is missing."""
    if "codes" not in settings.arrays:
        return None
    if settings.codec_onnx is None:
        raise ConfigError(
            f"{SETTING} is missing: arrays lists codes, which need the folder of a codec's ONNX "
            "graph, for example onnx-community/kyutai-mimi-ONNX from Hugging Face"
        )
    return codec_in(settings.codec_onnx, settings.codec_rate)


def _stem(row: ClipRow) -> str:
    return _tars.key(row["id"], len(FBANK) + 1)


def _texts(row: ClipRow) -> dict[str, bytes]:
    """`sha256` identifies the samples that the arrays were computed from."""
    stem = _stem(row)
    return {f"{stem}.json": webdataset.facts(row, "sha256"), f"{stem}.txt": row["text"].encode()}


def _frames(energies: Fbank, samples: Float32s) -> Float32s:
    """In pieces of a minute, so that a long clip needs no more memory."""
    if len(samples) <= 60 * energies.rate:
        return energies.log_energies(samples)
    if not energies.whole:
        samples = energies.mirrored(samples)
        energies = energies.whole_frames()
    step = 6000 * energies.hop
    pieces = [
        energies.log_energies(samples[start : start + step + energies.frame - energies.hop])
        for start in range(0, len(samples), step)
    ]
    return np.concatenate(pieces)


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return file.getvalue()


def _misshapen(
    data: memoryview, kind: type[np.generic], shape: tuple[int, int] | None
) -> str | None:
    """Why bytes are not an array of two dimensions, if so; `shape` None: any."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        return f"is not an array: {error}"
    fits = array.ndim == 2 and shape in (None, array.shape)
    return None if fits and array.dtype == kind else f"holds {array.dtype} {array.shape}"


SETTING = "codec_onnx of the format features"
GRAPHS = ("encoder_model.onnx", "encoder.onnx", "speech_tokenizer*.onnx", "*.onnx")
CONFIGS = ("preprocessor_config.json", "config.json")
BANDWIDTH = 6.0  # kbit/s, EnCodec's usual one at 24 kHz
MELS, MEL_FFT, MEL_HOP = 128, 400, 160
MEL_SECONDS = 30
TRIED = 10  # s of silence that show the frame rate

Int32s = NDArray[np.int32]


@dataclass(frozen=True)
class Codec:
    """A codec's graph, and the sample rate at which it takes audio, Hz."""

    graph: Path
    rate: int

    @cached_property
    def sha256(self) -> str:
        return "-".join(map(model_files.sha256, model_files.with_data(self.graph)))

    @cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        try:
            return onnx_session.session(str(self.graph))
        except onnx_session.errors() as error:
            raise ConfigError(f"{SETTING}: {self.graph} is not an ONNX graph: {error}") from error

    def check(self) -> None:
        """Raises ConfigError if the graph's inputs or outputs are not a codec's."""
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
        if self._audio() != "feats":
            return self._run(samples)
        step = MEL_SECONDS * self.rate
        starts = range(0, max(len(samples), 1), step)
        return np.concatenate([self._run(samples[start : start + step]) for start in starts], 1)

    def _audio(self) -> str | None:
        """The input that takes the clip."""
        for entry in self._session.get_inputs():
            if entry.name == "feats":
                return "feats"
            if "float" in entry.type and len(entry.shape) in (2, 3):
                return str(entry.name)
        return None

    def _run(self, samples: Float32s) -> Int32s:
        inputs: dict[str, Array] = {}
        audio = self._audio()
        for entry in self._session.get_inputs():
            shape = (1,) * (len(entry.shape) - 1) + (len(samples),)
            if entry.name == "feats":
                inputs["feats"] = _whisper_mels(samples)[None]
            elif entry.name == audio:
                inputs[entry.name] = samples.reshape(shape)
            elif entry.name == "feats_length":
                inputs[entry.name] = np.asarray([len(samples) // MEL_HOP], _KINDS[entry.type])
            elif "mask" in entry.name:
                inputs[entry.name] = np.ones(shape, _KINDS[entry.type])
            elif "bandwidth" in entry.name:
                one = (1,) * len(entry.shape)
                inputs[entry.name] = np.full(one, BANDWIDTH, _KINDS[entry.type])
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
def codec_in(folder: str, rate: int | None) -> Codec:
    """Raises ConfigError if there is no graph, more than one, or no stated sample rate."""
    home = Path(folder).expanduser()
    if not home.is_dir():
        raise ConfigError(f"{SETTING}: {folder} is not a folder on this machine")
    graphs = next((g for p in GRAPHS if (g := sorted(home.glob(p)))), [])
    if len(graphs) != 1:
        content = "no ONNX graph" if not graphs else f"{len(graphs)} graphs"
        raise ConfigError(f"{SETTING}: {folder} has {content}; keep only the encoder's there")
    usual = RATE if graphs[0].name.startswith("speech_tokenizer") else None
    codec_rate = rate or _stated_rate(home) or usual
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
