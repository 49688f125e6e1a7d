"""A short FLAC file that is decoded in one call gives what the usual way gives, damaged or not."""

import io
import random
from dataclasses import astuple, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import soundfile as sf

from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.audio import flac as flac_files
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator

SHAPES = [(16, 1, 64_000, 16_000), (24, 2, 20_000, 44_100), (16, 2, 4096 * 9, 48_000),
          (16, 1, 5000, 37_800), (16, 6, 9000, 48_000)]  # fmt: skip


def flac(bits: int, channels: int, frames: int, rate: int) -> bytes:
    noise = np.random.default_rng(frames).normal(0, 300, (frames, channels))
    file = io.BytesIO()
    samples = np.clip(np.cumsum(noise, 0), -30_000, 30_000) / 32768
    sf.write(file, samples, rate, format="FLAC", subtype=f"PCM_{bits}")
    return file.getvalue()


def probed(path: Path) -> object:
    try:
        return replace(audio.probe(Locator(str(path))), decoder="")
    except ItemError as error:
        return error.args


def decoded(path: Path) -> object:
    try:
        with audio.open_stream(Locator(str(path))) as stream:
            blocks = [block.tobytes() for block in stream.blocks(5000)]
            faults = [astuple(fault) for fault in stream.faults]
            return replace(stream.header, decoder=""), faults, stream.notes, blocks
    except ItemError as error:
        return error.args


def by_ffmpeg(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    def refused(file: BinaryIO, size: int) -> None:
        return None

    with monkeypatch.context() as patch:
        patch.setattr(flac_files, "proved", refused)
        patch.setattr(flac_files, "promised", refused)
        return probed(path), decoded(path)


def mutated(data: bytes, kind: int, chance: random.Random) -> bytes:
    at, some = chance.randrange(len(data)), chance.randrange(1, 2000)
    flip = bytes([data[at] ^ 1 << chance.randrange(8)])
    head, tail = at % 90, len(data) - 1 - at % 40
    return [
        data[:at] + flip + data[at + 1 :],
        data[:head] + bytes([data[head] ^ 1 << some % 8]) + data[head + 1 :],
        data[:at],
        data[:at] + data[at + some :],
        data[:at] + chance.randbytes(some) + data[at:],
        data + data,
        data + data[-3 * some :],
        data + b"TAG" + bytes(125),
        data[:200] + chance.randbytes(len(data) - 200),
        data[:tail] + bytes([data[tail] ^ 1 << some % 8]) + data[tail + 1 :],
        data + chance.randbytes(some),
    ][kind]


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[3] != 37_800 and s[1] < 3])
def test_the_fast_way_is_taken(tmp_path: Path, shape: tuple[int, int, int, int]) -> None:
    path = tmp_path / "a.flac"
    path.write_bytes(flac(*shape))
    with audio.open_stream(Locator(str(path))) as stream:
        assert stream.header.decoder == "whole"


@pytest.mark.parametrize("shape", [*SHAPES[:2], *map(nightly, SHAPES[2:])])
@pytest.mark.parametrize("kind", range(-1, 11))
def test_both_decoders_agree(
    tmp_path: Path, shape: tuple[int, int, int, int], kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, chance = flac(*shape), random.Random(kind)
    for number in range(3 if kind >= 0 else 1):
        path = tmp_path / f"{number}.flac"
        path.write_bytes(mutated(whole, kind, chance) if kind >= 0 else whole)
        assert (probed(path), decoded(path)) == by_ffmpeg(path, monkeypatch)


@pytest.mark.parametrize("kind", [1, 5])
def test_metadata_that_ffmpeg_refuses(
    tmp_path: Path, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(flac(*SHAPES[0]))
    data[42] ^= kind  # of the tags: another kind of block
    path = tmp_path / "a.flac"
    path.write_bytes(data)
    assert (probed(path), decoded(path)) == by_ffmpeg(path, monkeypatch)
