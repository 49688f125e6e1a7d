"""Damaged audio files by number: the same seed and number give the same bytes.

Run as a program it decodes a range of them in a process of its own, because a native library may
die of one: `python -m tests.helpers.mutated SEED FIRST COUNT FOLDER`. It prints one JSON object
at its end; `FOLDER/at` holds the number of the case that it was at, `FOLDER/case` its bytes.
"""

import json
import random
import struct
import sys
import time
import traceback
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import memory, sounding

HZ, SECONDS = 16000, 0.6
SNDFILE = {
    "wav": ("WAV", "PCM_16"), "wav24": ("WAVEX", "PCM_24"), "wavfloat": ("WAV", "FLOAT"),
    "adpcm": ("WAV", "IMA_ADPCM"), "rf64": ("RF64", "PCM_16"), "w64": ("W64", "PCM_16"),
    "aiff": ("AIFF", "PCM_16"), "au": ("AU", "PCM_16"), "caf": ("CAF", "PCM_16"),
    "flac": ("FLAC", "PCM_16"), "ogg": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}  # fmt: skip
FFMPEG = {"m4a": ("ipod", "aac", 44_100), "aac": ("adts", "aac", 44_100),
          "webm": ("webm", "libopus", 48_000), "wma": ("asf", "wmav2", 44_100)}  # fmt: skip
KINDS = (*SNDFILE, *FFMPEG)

#: Numbers that lying headers hold.
LIES = (0, 1, 2, 3, 7, 0x7F, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE,
        0xFFFFFFFF, 10 << 30 & 0xFFFFFFFF)  # fmt: skip
LIMIT = 1 << 30  # bytes of address space that decoding may take beyond what the imports took
SLOW = 20.0  # s: a damaged clip of a second must not keep a worker


@cache
def whole(kind: str) -> bytes:
    """A sound file of this kind, undamaged."""
    if kind in SNDFILE:
        samples = sounding.sound(HZ, 2 if kind in ("wav24", "flac") else 1, SECONDS)
        return sounding.by_sndfile(*SNDFILE[kind], HZ, samples)
    container, codec, rate = FFMPEG[kind]
    return sounding.by_ffmpeg(container, codec, rate, sounding.sound(rate, 1, SECONDS))


def damaged(seed: int, number: int) -> tuple[str, bytes]:
    """(kind, bytes) of case `number`."""
    chance = random.Random(f"{seed}-{number}")
    kind = KINDS[number % len(KINDS)]
    data = bytearray(whole(kind))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        if data:
            chance.choice(DAMAGES)(data, chance)
    return kind, bytes(data)


def _at(data: bytearray, chance: random.Random) -> int:
    """A place, mostly in the header, where the lies are."""
    reach = len(data) if chance.random() < 0.3 else min(len(data), chance.choice((64, 256, 2048)))
    return chance.randrange(reach)


def _flip(data: bytearray, chance: random.Random) -> None:
    data[_at(data, chance)] ^= 1 << chance.randrange(8)


def _byte(data: bytearray, chance: random.Random) -> None:
    data[_at(data, chance)] = chance.choice((0, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _lie(data: bytearray, chance: random.Random) -> None:
    """A length, count or rate of 2, 4 or 8 bytes, in either order."""
    form = chance.choice(("<I", ">I", "<I", ">I", "<H", ">H", "<Q", ">Q"))
    size = struct.calcsize(form)
    if len(data) <= size:
        return
    at = min(_at(data, chance), len(data) - size)
    value = chance.choice(LIES) if size > 2 else chance.choice(LIES) & 0xFFFF
    struct.pack_into(form, data, at, value)


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[_at(data, chance) :]


def _drop(data: bytearray, chance: random.Random) -> None:
    at = _at(data, chance)
    del data[at : at + chance.choice((1, 2, 4, 64, 1000))]


def _twice(data: bytearray, chance: random.Random) -> None:
    at = _at(data, chance)
    data[at:at] = data[at : at + chance.choice((1, 4, 64, 1000))]


def _noise(data: bytearray, chance: random.Random) -> None:
    at = _at(data, chance)
    junk = chance.randbytes(chance.choice((4, 32, 500)))
    data[at : at + len(junk)] = junk


def _splice(data: bytearray, chance: random.Random) -> None:
    """The rest of another kind of file."""
    other = whole(chance.choice(KINDS))
    at = _at(data, chance)
    data[at:] = other[chance.randrange(len(other)) :]


DAMAGES = (_flip, _flip, _byte, _byte, _lie, _lie, _lie, _cut, _drop, _twice, _noise, _splice)


def decode(path: Path) -> str:
    """What a recording comes to: `good`, or the code of its ItemError. Anything else is raised."""
    from uttermill.tasks import audio
    from uttermill.tasks.base.errors import CODES, ItemError
    from uttermill.tasks.recording import Locator

    locator = Locator(str(path))
    try:
        header = audio.probe(locator)
        assert header.rate > 0
        assert header.channels > 0
        with audio.open_stream(locator) as stream:
            samples = 0
            for block in stream.blocks():
                assert block.dtype == np.float32
                assert block.ndim == 2
                assert block.shape[1] == stream.channels
                assert block.size <= max(audio.BLOCK_VALUES, stream.channels)
                assert np.isfinite(block).all()
                samples += len(block)
            assert samples == stream.decoded > 0
    except ItemError as error:
        code, detail = error.code, error.detail
    else:
        return "good"
    assert code in CODES, code
    detail.encode()  # it goes into a manifest
    return code


def run(seed: int, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Outcomes of a range of cases, the slowest one, and what went wrong."""
    for kind in KINDS:  # what the first use of each codec loads is not the files' doing
        (folder / "case").write_bytes(whole(kind))
        assert decode(folder / "case") == "good", kind
    memory.limit(LIMIT)
    before = memory.peak()
    outcomes: Counter[str] = Counter()
    findings: list[dict[str, Any]] = []
    slowest = 0.0
    for number in range(first, first + count):
        kind, data = damaged(seed, number)
        (folder / "case").write_bytes(data)
        (folder / "at").write_text(str(number))
        began = time.monotonic()
        try:
            outcomes[decode(folder / "case")] += 1
        except Exception:
            why = traceback.format_exc(limit=-4)
            findings.append({"case": number, "kind": kind, "what": why})
        wall = time.monotonic() - began
        if wall > SLOW:
            findings.append({"case": number, "kind": kind, "what": f"it took {wall:.0f} s"})
        slowest = max(slowest, wall)
    grown = memory.peak() - before
    return {
        "outcomes": dict(outcomes), "findings": findings, "slowest": round(slowest, 2),
        "grown": grown,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))))
