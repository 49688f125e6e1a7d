"""Small recordings that cost far more than their size: endless silence, absurd counts and times.

Run as a program it probes and cuts them in a process of its own:
`python -m tests.helpers.bombs FOLDER SETTINGS [NAME ...]`, with
the settings of the filter stage as JSON, prints a JSON object for each:
its code or None, what that says, seconds of audio, of the clock and of CPU, and the peak of memory.
"""

import json
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import memory, sounding
from uttermill.tasks.base.schema import RECORDINGS
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import FilterSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import filter as stage
from uttermill.tasks.stages import probe
from uttermill.tasks.stages.contract import OfRecording
from uttermill.tasks.storage import urls

MIB = 1 << 20
LIMIT = 3 << 29  # bytes of address space beyond the imports


def _crc(data: bytes, polynomial: int, width: int) -> int:
    """Most significant bit first, from 0."""
    crc, top, mask = 0, 1 << width - 1, (1 << width) - 1
    for byte in data:
        crc ^= byte << width - 8
        for _ in range(8):
            crc = (crc << 1 ^ polynomial if crc & top else crc << 1) & mask
    return crc


def _utf8(number: int) -> bytes:
    """The number of a FLAC frame (RFC 9639, 9.1.5): UTF-8, up to 36 bits."""
    if number < 128:
        return bytes([number])
    rest: list[int] = []
    while number >= 1 << (6 - len(rest) if rest else 6):
        rest.append(0x80 | number & 63)
        number >>= 6
    lead = 0xFF00 >> len(rest) + 1 & 0xFF
    return bytes([lead | number, *reversed(rest)])


def flac(
    hours: float, rate: int = 16_000, block: int = 65_535, channels: int = 1, stated: bool = True
) -> Iterator[bytes]:
    """Digital silence: a frame of `block` samples is some 14 bytes. `stated`: its header counts
    the samples."""
    frames = round(hours * 3600 * rate / block)
    total = frames * block if stated else 0
    facts = rate << 44 | channels - 1 << 41 | 15 << 36 | total
    yield b"fLaC\x80\0\0\x22" + struct.pack(">HH6x", block, block) + facts.to_bytes(8, "big")
    yield bytes(16)
    for number in range(frames):
        head = b"\xff\xf8\x70" + bytes([channels - 1 << 4 | 8]) + _utf8(number)
        head += struct.pack(">H", block - 1)
        head += bytes([_crc(head, 0x07, 8)])
        body = head + b"\0\0\0" * channels
        yield body + struct.pack(">H", _crc(body, 0x8005, 16))


def wav(rate: int = 8000, channels: int = 1, claimed: int | None = None, held: int = 8000) -> bytes:
    """Noise of `held` bytes under a header that claims `claimed` bytes."""
    size = held if claimed is None else claimed
    block = 2 * channels
    form = struct.pack("<HHIIHH", 1, channels & 0xFFFF, rate, rate * block & 0xFFFFFFFF,
                       block & 0xFFFF, 16)  # fmt: skip
    data = np.random.default_rng(1).integers(-9000, 9000, held // 2, np.int16).tobytes()
    head = b"RIFF" + struct.pack("<I", min(size + 36, 0xFFFFFFFF)) + b"WAVEfmt \x10\0\0\0"
    return head + form + b"data" + struct.pack("<I", min(size, 0xFFFFFFFF)) + data


def rf64(samples: int) -> bytes:
    """A header that claims so many samples, of 64 bits, before a second of audio."""
    data = wav()
    ds64 = b"ds64" + struct.pack("<IQQQI", 28, 2 * samples + 80, 2 * samples, samples, 0)
    return b"RF64\xff\xff\xff\xffWAVE" + ds64 + data[12:40] + b"\xff\xff\xff\xff" + data[44:]


def au(rate: int, channels: int, held: int = 80_000) -> bytes:
    head = struct.pack(">4sIIIII", b".snd", 24, 0xFFFFFFFF, 3, rate, channels)
    return head + bytes(held)


def caf(rate: float, channels: int, claimed: int, held: int = 80_000) -> bytes:
    form = struct.pack(">d4sIIIII", rate, b"lpcm", 0, 2 * channels, 1, channels, 16)
    desc = struct.pack(">4sq", b"desc", len(form)) + form
    return b"caff\0\1\0\0" + desc + struct.pack(">4sqI", b"data", claimed, 0) + bytes(held)


def amr(frames: int) -> bytes:
    """Frames without data, of one byte for 20 ms."""
    return b"#!AMR\n" + b"\x7c" * frames


def mp3(frames: int) -> bytes:
    """MPEG-2 layer III at 8 kbit/s: 24 bytes of silence for 24 ms."""
    return (b"\xff\xf3\x14\xc0" + bytes(20)) * frames


def adts(frames: int) -> bytes:
    """AAC LC, mono, 8 kHz: 128 ms of silence in 13 bytes."""
    body = b"\x00\xc8\x00\x80\x23\x80"
    length = 7 + len(body)
    head = bytes([0xFF, 0xF1, 0x6C, 0x40 | length >> 11, length >> 3 & 255, length << 5 & 255 | 31,
                  0xFC])  # fmt: skip
    return (head + body) * frames


def ogg_page(serial: int, number: int, granule: int, packets: list[bytes], flags: int) -> bytes:
    """A page of packets, each shorter than 255 bytes."""
    lacing = bytes(map(len, packets))
    head = struct.pack("<4sBBqIII B", b"OggS", 0, flags, granule, serial, number, 0, len(lacing))
    page = head + lacing + b"".join(packets)
    crc = _ogg_crc(page)
    return page[:22] + struct.pack("<I", crc) + page[26:]


_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def _ogg_crc(page: bytes) -> int:
    crc = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


_OPUS_TAGS = b"OpusTags" + struct.pack("<I", 4) + b"test" + struct.pack("<I", 0)


def opus(pages: int, packet: bytes = b"\xfb\x06", samples: int = 5760, serial: int = 1,
         granule: int | None = None) -> bytes:  # fmt: skip
    """Pages of 255 packets, of six empty frames of 20 ms each in two bytes; `granule`: time of each
    page, where it is a lie."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, 48_000, 0, 0)
    out = [ogg_page(serial, 0, 0, [head], 2), ogg_page(serial, 1, 0, [_OPUS_TAGS], 0)]
    for number in range(pages):
        at = (number + 1) * 255 * samples if granule is None else granule
        last = 4 if number == pages - 1 else 0
        out.append(ogg_page(serial, number + 2, at, [packet] * 255, last))
    return b"".join(out)


def chained_opus(links: int) -> bytes:
    """Joined files of one packet each."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, 48_000, 0, 0)
    return b"".join(
        ogg_page(n, 0, 0, [head], 2) + ogg_page(n, 1, 0, [_OPUS_TAGS], 0)
        + ogg_page(n, 2, 960, [b"\xf8"], 4)
        for n in range(links)
    )  # fmt: skip


def joined_flac(count: int) -> bytes:
    return b"".join(flac(0.3 / 3600, block=4096)) * count


def encoded(container: str, codec: str, rate: int, seconds: float, sound: bool = True) -> bytes:
    samples = sounding.sound(rate, 1, seconds) if sound else np.zeros((round(rate * seconds), 1))
    return bytes(sounding.by_ffmpeg(container, codec, rate, samples.astype(np.float32)))


def box(name: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), name) + body


def m4a(
    times: bytes = struct.pack(">IIII", 0, 1, 8000, 1),
    sizes: bytes = struct.pack(">III", 0, 2, 8000),
    edits: bytes = b"",
    tracks: int = 1,
    reference: bytes = struct.pack(">II12s", 0, 1, box(b"url ", b"\0\0\0\1")),
    chunks: bytes = struct.pack(">IIIII", 0, 1, 1, 8000, 1),
    held: int = 16_000,
) -> bytes:
    """PCM of 16 bits in an MP4, whose tables may lie: `times` (stts), `sizes` (stsz), `edits`
    (elst), `reference` (dref), `chunks` (stsc), from their version on."""
    entry = struct.pack(">6xH8xHHHHI", 1, 1, 16, 0, 0, 8000 << 16)
    start = len(box(b"ftyp", b"M4A \0\0\0\0M4A ")) + 8
    track = box(
        b"trak",
        box(b"tkhd", struct.pack(">IIIII60x", 7, 0, 0, 1, 0) + bytes(4)),
        *([box(b"edts", box(b"elst", edits))] if edits else []),
        box(
            b"mdia",
            box(b"mdhd", struct.pack(">IIIIIHH", 0, 0, 0, 8000, 8000, 0x55C4, 0)),
            box(b"hdlr", struct.pack(">II4s12x", 0, 0, b"soun") + b"\0"),
            box(
                b"minf",
                box(b"smhd", bytes(8)),
                box(b"dinf", box(b"dref", reference)),
                box(
                    b"stbl",
                    box(b"stsd", struct.pack(">II", 0, 1) + box(b"sowt", entry)),
                    box(b"stts", times),
                    box(b"stsc", chunks),
                    box(b"stsz", sizes),
                    box(b"stco", struct.pack(">III", 0, 1, start)),
                ),
            ),
        ),
    )
    noise = np.random.default_rng(1).integers(-9000, 9000, held // 2, np.int16).tobytes()
    movie = box(b"mvhd", struct.pack(">IIIII80x", 0, 0, 0, 8000, 8000))
    return (
        box(b"ftyp", b"M4A \0\0\0\0M4A ")
        + box(b"mdat", noise)
        + box(b"moov", movie, *([track] * tracks))
    )


def fragments(count: int) -> bytes:
    """An MP4 of empty fragments."""
    whole = m4a()
    trex = box(b"mvex", box(b"trex", struct.pack(">IIIIII", 0, 1, 1, 1, 2, 0)))
    at = whole.index(b"moov") - 4
    movie = box(b"moov", whole[at + 8 :], trex)
    one = box(
        b"moof",
        box(b"mfhd", bytes(8)),
        box(b"traf", box(b"tfhd", struct.pack(">II", 0, 1)),
            box(b"trun", struct.pack(">II", 0, 0))),
    )  # fmt: skip
    return whole[:at] + movie + one * count


def _element(kind: int, body: bytes) -> bytes:
    name = kind.to_bytes((kind.bit_length() + 7) // 8, "big")
    return name + (1 << 56 | len(body)).to_bytes(8, "big") + body


def webm(blocks: int, laced: int = 255) -> bytes:
    """Opus packets of two bytes, `laced` of them in a block: 120 ms each."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, 0, 48_000, 0, 0)
    ebml = _element(0x1A45DFA3, _element(0x4282, b"webm") + _element(0x4287, b"\4"))
    track = _element(0xAE, _element(0xD7, b"\1") + _element(0x73C5, b"\1") + _element(0x83, b"\2")
                     + _element(0x86, b"A_OPUS") + _element(0x63A2, head)
                     + _element(0xE1, _element(0xB5, struct.pack(">f", 48_000.0))))  # fmt: skip
    tracks = _element(0x1654AE6B, track)
    info = _element(0x1549A966, _element(0x2AD7B1, struct.pack(">I", 1_000_000)))
    block = _element(0xA3, b"\x81\0\0\x04" + bytes([laced - 1]) + b"\xfb\x06" * laced)
    cluster = _element(0x1F43B675, _element(0xE7, b"\0") + block * blocks)
    return ebml + _element(0x18538067, info + tracks + cluster)


def wavpack(seconds: float, rate: int = 44_100) -> bytes:
    return encoded("wv", "wavpack", rate, seconds, sound=False)


def ape(frames: int, per_frame: int = 73_728 * 4) -> bytes:
    """Monkey's Audio whose frames say that they are silent: a few bytes for seconds."""
    size = 16
    table = b"".join(struct.pack("<I", 52 + 24 + 4 * frames + size * n) for n in range(frames))
    descriptor = struct.pack("<4sHHIIIIIII16x", b"MAC ", 3990, 0, 52, 24, 4 * frames, 0,
                             size * frames, 0, 0)  # fmt: skip
    header = struct.pack("<HHIIIHHI", 1000, 0, per_frame, per_frame, frames, 16, 2, 44_100)
    one = struct.pack("<II8x", 1 << 31, 3)  # checksum with the flag of special frames; silence
    return descriptor + header + table + one * frames


def id3(pictures: int, size: int) -> Iterator[bytes | int]:
    """An MP3 behind tags, each with a picture of `size` bytes."""
    for _ in range(pictures):
        frame = b"APIC" + struct.pack(">IH", size + 14, 0) + b"\0image/jpeg\0\3\0"
        total = len(frame) + size
        yield b"ID3\3\0\0" + bytes(total >> shift & 127 for shift in (21, 14, 7, 0)) + frame
        yield size
    yield encoded("mp3", "libmp3lame", 16_000, 1.0)


def flac_pictures(count: int, size: int = (1 << 24) - 1) -> Iterator[bytes | int]:
    """A second of FLAC behind pictures of 16 MB each."""
    sound = sounding.by_sndfile("FLAC", "PCM_16", 16_000, sounding.sound(16_000, 1, 1.0))
    yield sound[:4] + b"\0" + sound[5:42]
    picture = (
        struct.pack(">II", 3, 10)
        + b"image/jpeg"
        + struct.pack(">IIIIII", 0, 10, 10, 24, 0, size - 42)
    )
    for _ in range(count):
        yield b"\6" + size.to_bytes(3, "big") + picture
        yield size - len(picture)
    yield b"\x81\0\0\0" + sound[sound.index(b"\xff\xf8") :]


MANY = struct.pack(">I", 0x7FFFFFFF)
#: Recordings of several channels are refused from ten minutes on: a shorter limit would come first.
SETTINGS_OF: dict[str, dict[str, Any]] = {"flac_channels": {"max_hours": 0.2}}
ALL: dict[str, Callable[[], bytes | Iterator[bytes] | Iterator[bytes | int]]] = {
    "flac": lambda: flac(1.0),
    "flac_unstated": lambda: flac(0.5, stated=False),
    "flac_channels": lambda: flac(1.0, rate=48_000, channels=8, stated=False),
    "wav_claims": lambda: wav(claimed=0xFFFFFF00),
    "wav_slow": lambda: wav(rate=1),
    "wav_fast": lambda: wav(rate=4_000_000_000),
    "wav_1_khz": lambda: wav(rate=1000, held=4 * MIB),
    "wav_255": lambda: wav(channels=255, held=51_000),
    "wav_10000": lambda: wav(channels=10_000, held=80_000),
    "wav_65535": lambda: wav(channels=65_535, held=13_107_000),
    "rf64": lambda: rf64(1 << 61),
    "au_10000": lambda: au(8000, 10_000),
    "au_2_31": lambda: au(8000, 0x7FFFFFFF),
    "caf_10000": lambda: caf(8000.0, 10_000, 1 << 61),
    "caf_rate": lambda: caf(1e300, 1, -1),
    "amr": lambda: amr(60_000),
    "amr_late": lambda: b"#!AMR\n" + (b"\x04" + bytes(12)) * 50 + amr(300_000)[6:],
    "mp3": lambda: mp3(12_000),
    "adts": lambda: adts(3_000),
    "opus": lambda: opus(12),
    "opus_times": lambda: opus(12, granule=1 << 62),
    "opus_early": lambda: opus(12, granule=-(1 << 62)),
    "ogg_chain": lambda: chained_opus(10_100),
    "flac_chain": lambda: joined_flac(1_000),
    "m4a_plain": lambda: m4a(),
    "m4a_times": lambda: m4a(times=struct.pack(">II", 0, 1) + MANY + MANY),
    "m4a_many_times": lambda: m4a(times=struct.pack(">I", 0) + MANY),
    "m4a_sizes": lambda: m4a(sizes=struct.pack(">II", 0, 0) + MANY),
    "m4a_equal_sizes": lambda: m4a(
        times=struct.pack(">II", 0, 1) + MANY + struct.pack(">I", 1),
        sizes=struct.pack(">II", 0, 2) + MANY,
        chunks=struct.pack(">III", 0, 1, 1) + MANY + struct.pack(">I", 1),
    ),
    "m4a_edits": lambda: m4a(edits=struct.pack(">I", 0) + MANY),
    "m4a_long_edits": lambda: m4a(
        edits=struct.pack(">II", 0, 1000) + struct.pack(">IiI", 0x7FFFFFFF, -1, 1 << 16) * 1000
    ),
    "m4a_repeats": lambda: m4a(
        edits=struct.pack(">II", 0, 200_000) + struct.pack(">IiI", 8000, 0, 1 << 16) * 200_000
    ),
    "m4a_tracks": lambda: m4a(tracks=2_000),
    "m4a_fragments": lambda: fragments(30_000),
    "webm": lambda: webm(12),
    "wavpack": lambda: wavpack(200.0),
    "ape": lambda: ape(100),
    "alac": lambda: encoded("ipod", "alac", 44_100, 200.0, sound=False),
    "id3": lambda: id3(1, 255 * MIB),
    "flac_pictures": lambda: flac_pictures(8),
}


def write(name: str, folder: Path) -> Path:
    """The file of a bomb; a number in it stands for so many zeros."""
    path = folder / f"{name}.bin"
    made = ALL[name]()
    with path.open("wb") as file:
        for part in [made] if isinstance(made, bytes) else made:
            if isinstance(part, int):
                file.truncate(file.seek(part, os.SEEK_CUR))
            else:
                file.write(part)
    return path


def measured(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What becomes of one recording in the shard and the filter stage."""
    job = Job(path.parent, filter=FilterSettings.model_validate(settings))
    row: Any = dict.fromkeys(RECORDINGS.names) | {
        "recording": path.name, "dataset": "c", "path": path.name, "present": True,
        "locator": Locator(str(path)).dumps(), "guard": urls.guard(str(path)),
    }  # fmt: skip
    memory.begin_anew()
    begun, cpu = time.perf_counter(), time.process_time()
    [[row]] = probe.compute([OfRecording(row)], job)
    found = {"stage": "shard", "code": row["error_code"], "said": row["error_detail"]}
    found |= {"format": row["format"], "header": row["header_seconds"], "bytes": row["size"]}
    if not row["error_code"]:
        view = ShardView(job, "none", listed=[row])
        units, _ = stage.todo(view)
        cuts: Any = [cut for [cut, *_] in stage.compute(units, job)]
        refused = view.cut_of(row)
        whole = cuts[0] if cuts else {}
        if refused is not None:
            whole = {"error_code": refused.error_code, "error_detail": refused.error_detail}
        found |= {"stage": "filter", "code": whole.get("error_code")}
        found |= {"said": whole.get("error_detail"), "faults": whole.get("decode_faults")}
        found["audio"] = whole.get("decoded", 0) / (whole.get("rate") or 1)
    found |= {"wall": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    return found | {"peak": memory.peak_without_files()}


def main(folder: str, settings: str, *names: str) -> None:
    memory.limit(LIMIT)
    for name in names or ALL:
        path = write(name, Path(folder))
        asked = json.loads(settings) | SETTINGS_OF.get(name, {})
        print(json.dumps({"name": name, **measured(path, asked)}), flush=True)
        path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
