"""What models take instead of audio: log mel energies, and tokens of a codec, in WebDataset shards.

features/<split>/shard-000000000.tar    of each clip `<key>.json`, `<key>.txt`, and
                                          `<key>.fbank.npy`   float32 [frames, bins]
                                          `<key>.codes.npy`   int32 [codebooks, frames]
features/<split>/data.list              one tar's path a line

The energies are Kaldi's (`tasks.speech.fbank`), as lhotse's `Fbank` or WeNet's `compute_fbank`
makes them (without dither). The codec is a folder with an ONNX graph, as `tasks.formats._codec`
reads it. Clips stand in the same groups and order as in `webdataset`, so that the tars of both can
be read side by side. `features` in dataset.json has frame rate, codebooks and the codec's hash.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import model_validator

from tasks.base.arrays import Float32s, Int16s
from tasks.base.json_types import JsonObject
from tasks.base.schema import ClipRow
from tasks.formats import (
    Output,
    OutputShard,
    ReadPcm,
    Rows,
    _codec,
    _lists,
    _tar,
    _tars,
    webdataset,
)
from tasks.settings import StageSettings, Threshold, Transient
from tasks.speech.fbank import Fbank

VERSION = 1
COLUMNS = webdataset.COLUMNS
HOLDS_ANNOTATIONS = True
FBANK, CODES = "fbank.npy", "codes.npy"
Array = NDArray[Any]


class Settings(StageSettings):
    """Which features; of a clip at `resample.rate`."""

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
    codec = _codec_of(settings)
    return None if codec is None else (codec.rate,)


def identity(settings: Settings) -> str | None:
    codec = _codec_of(settings)
    return None if codec is None else codec.sha256


def check_weights(settings: Settings) -> None:
    """ConfigError where the codec's folder is missing, or no graph of a codec."""
    if (codec := _codec_of(settings)) is not None:
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
    if (codec := _codec_of(settings)) is not None:
        facts["codes"] = codec.described()
    return facts


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"features/{split}/shard-{number:09d}.tar"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    with _tar.Tar(out, shard.path) as tar:
        for row in rows:
            members = {**_texts(row)}
            samples = pcm(row)
            for name, array in _arrays(row, samples, settings).items():
                members[name] = _npy(array)
            for name, data in members.items():
                tar.add(name, data)


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Names, order and texts, and the shape of each array; the numbers by the tar's digest, as
    they do not follow from the rows."""
    faults = out.changed(shard.path)
    stored = _tars.read(out.home / shard.path)
    for row in rows:
        for name, fault in _wanted(row, settings):
            member = next(stored, None)
            if member is None or member.name != name:
                return [*faults, f"{shard.path}: {name} is not where it should be"]
            if problem := fault(member.data):
                faults.append(f"{shard.path}: {name} {problem}")
    if extra := next(stored, None):
        faults.append(f"{shard.path}: {extra.name} is in no row")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)


listing = partial(_lists.prefixed, "features")


def _energies(settings: Settings, rate: int) -> Fbank | None:
    if "fbank" not in settings.arrays:
        return None
    if settings.like == "lhotse":
        return Fbank(rate, settings.bins, rate / 2 - 400, whole=False)
    return Fbank(rate, settings.bins, rate / 2, scale=2.0**15)


def _codec_of(settings: Settings) -> _codec.Codec | None:
    """ConfigError where tokens are wanted and there is no codec."""
    if "codes" not in settings.arrays:
        return None
    return _codec.Codec.of(settings.codec_onnx, settings.codec_rate)


def _stem(row: ClipRow) -> str:
    return _tar.key(row["id"], len(FBANK) + 1)


def _texts(row: ClipRow) -> dict[str, bytes]:
    """`sha256` tells the samples that the arrays were computed from."""
    stem = _stem(row)
    return {f"{stem}.json": webdataset.facts(row, "sha256"), f"{stem}.txt": row["text"].encode()}


def _arrays(row: ClipRow, pcm: Int16s, settings: Settings) -> Mapping[str, Array]:
    stem, samples = _stem(row), pcm.astype(np.float32) / np.float32(2**15)
    arrays: dict[str, Array] = {}
    if (energies := _energies(settings, row["sample_rate"])) is not None:
        arrays[f"{stem}.{FBANK}"] = _frames(energies, samples)
    if (codec := _codec_of(settings)) is not None:
        arrays[f"{stem}.{CODES}"] = codec.codes(samples)
    return arrays


def _frames(energies: Fbank, samples: Float32s) -> Float32s:
    """In pieces of a minute, so that a long clip needs no more memory."""
    if len(samples) <= 60 * energies.rate:
        return energies.of(samples)
    if not energies.whole:
        samples = energies.mirrored(samples)
        energies = energies.whole_frames()
    step = 6000 * energies.hop
    pieces = [
        energies.of(samples[start : start + step + energies.frame - energies.hop])
        for start in range(0, len(samples), step)
    ]
    return np.concatenate(pieces)


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
    return file.getvalue()


Fault = Callable[[memoryview], str]


def _wanted(row: ClipRow, settings: Settings) -> Iterator[tuple[str, Fault]]:
    """The members of a row, each with what says why its bytes are wrong (empty: they are not)."""
    for name, data in _texts(row).items():
        yield name, partial(_other, data)
    stem, energies = _stem(row), _energies(settings, row["sample_rate"])
    if energies is not None:
        frames = energies.frames(row["num_samples"])
        yield f"{stem}.{FBANK}", partial(_misshapen, np.float32, (frames, energies.bins))
    if "codes" in settings.arrays:
        yield f"{stem}.{CODES}", partial(_misshapen, np.int32, (None, None))


def _other(wanted: bytes, data: memoryview) -> str:
    return "" if data == wanted else "differs from its row"


def _misshapen(kind: type[np.generic], shape: tuple[int | None, ...], data: memoryview) -> str:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        return f"is not an array: {error}"
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    return "" if fits and array.dtype == kind else f"holds {array.dtype} {array.shape}"
