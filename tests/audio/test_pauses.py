"""Calls as WebRTC recorders write them: pauses of the sender (DTX) are silence, lost packets are
damage, and both keep their time."""

from __future__ import annotations

import struct
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from uttermill.tasks import audio
from uttermill.tasks.audio.damage.ogg_pages import opus_samples
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.faults import Fault

RATE, FRAME, SKIP = 48_000, 960, 312
SECONDS = 6
QUIET = range(100, 200)  # frames of 20 ms in which the sender pauses
Samples = NDArray[np.float32]
Numbered = list[tuple[int, bytes]]


def packets() -> list[bytes]:
    """Opus packets of 20 ms: a tone over noise, but noise alone in QUIET."""
    codec: Any = av.CodecContext.create("libopus", "w")
    codec.sample_rate, codec.layout, codec.format = RATE, "mono", "s16"
    codec.time_base, codec.bit_rate = Fraction(1, RATE), 24_000
    codec.options = {"application": "voip"}
    at = np.arange(SECONDS * RATE)
    loud = ~np.isin(at // FRAME, QUIET)
    noise = np.random.default_rng(3).normal(0, 0.01, len(at))
    samples = (32767 * (noise + 0.3 * loud * np.sin(2 * np.pi * 300 * at / RATE))).astype(np.int16)
    made: list[bytes] = []
    for start in range(0, len(samples), FRAME):
        frame = av.AudioFrame.from_ndarray(samples[None, start : start + FRAME], "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        made += [bytes(packet) for packet in codec.encode(frame)]
    return [*made, *(bytes(packet) for packet in codec.encode(None))]


PACKETS = packets()


def paused() -> Numbered:
    """What WebRTC sends: in a pause a packet of comfort noise every 400 ms, then its bare TOC."""
    sent: Numbered = []
    for number, packet in enumerate(PACKETS):
        place = (number - QUIET.start) % 20
        if number not in QUIET or place == 0:
            sent.append((number, packet))
        elif place == 1:
            sent.append((number, bytes([packet[0] & 0xFC])))
    return sent


def lost() -> Numbered:
    return [(number, packet) for number, packet in enumerate(PACKETS) if not 60 <= number < 70]


def page(number: int, flags: int, granule: int, held: list[bytes]) -> bytes:
    lacing = b"".join(b"\xff" * (len(one) // 255) + bytes([len(one) % 255]) for one in held)
    fields = struct.pack("<qIII", granule, 7, number, 0)
    made = b"OggS\0" + bytes([flags]) + fields + bytes([len(lacing)]) + lacing + b"".join(held)
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in made)
    crc = zlib.crc32(mirrored, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return made[:22] + struct.pack("<I", int(f"{crc:032b}"[::-1], 2)) + made[26:]


def ogg(sent: Numbered, path: Path, a_page: int) -> None:
    head = b"OpusHead\x01\x01" + struct.pack("<HIhB", SKIP, RATE, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 0) + struct.pack("<I", 0)
    made = [page(0, 2, 0, [head]), page(1, 0, 0, [tags])]
    for start in range(0, len(sent), a_page):
        part = sent[start : start + a_page]
        ends = 4 * (start + a_page >= len(sent))
        granule = (part[-1][0] + 1) * FRAME
        made.append(page(len(made), ends, granule, [one for _, one in part]))
    path.write_bytes(b"".join(made))


def matroska(sent: Numbered, path: Path, kind: str) -> None:
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream("libopus", rate=RATE, layout="mono")
        for number, one in sent:
            packet = av.Packet(one)
            packet.stream, packet.time_base = stream, Fraction(1, RATE)
            packet.pts = packet.dts = number * FRAME
            packet.duration = FRAME
            container.mux(packet)


def written(sent: Numbered, path: Path, kind: str) -> Locator:
    if kind.startswith("ogg of"):
        ogg(sent, path, int(kind.rpartition(" ")[2]))
    else:
        matroska(sent, path, kind)
    return Locator(str(path))


def heard(locator: Locator) -> tuple[Samples, list[Fault]]:
    with audio.open_stream(locator) as stream:
        samples = np.concatenate(list(stream.blocks()))[:, 0]
        return samples, stream.faults


def loud(samples: Samples) -> list[bool]:
    """Of each frame, whether the tone is in it."""
    whole = samples[: len(samples) - len(samples) % FRAME].reshape(-1, FRAME)
    return [bool(level > 0.01) for level in np.square(whole).mean(axis=1)]


KINDS = ["webm", "matroska", "ogg", "ogg of 1", "ogg of 5", "ogg of 50"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sender_leaves_out_is_silence(tmp_path: Path, kind: str) -> None:
    samples, faults = heard(written(paused(), tmp_path / "a.bin", kind))
    assert faults == []
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    expected = [number not in QUIET for number in range(SECONDS * 50)]
    wrong = [n for n, (a, b) in enumerate(zip(loud(samples), expected, strict=False)) if a != b]
    # Of several packets in a page, only the sum of the pauses is known.
    assert len(wrong) <= (3 if kind in KINDS[:2] or kind == "ogg of 1" else 20)


@pytest.mark.parametrize("kind", KINDS)
def test_packets_that_are_lost_are_damage(tmp_path: Path, kind: str) -> None:
    samples, faults = heard(written(lost(), tmp_path / "a.bin", kind))
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    [fault] = faults
    assert fault.end - fault.start >= 10 * FRAME
    assert not fault.shifts
    if kind in KINDS[:2] or kind == "ogg of 1":
        assert fault.start == pytest.approx(60 * FRAME - SKIP, abs=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_without_pauses_is_read_as_before(tmp_path: Path, kind: str) -> None:
    locator = written(list(enumerate(PACKETS)), tmp_path / "a.bin", kind)
    samples, faults = heard(locator)
    assert faults == []
    assert len(samples) == pytest.approx(SECONDS * RATE, abs=2 * FRAME)
    decoder = audio.probe(locator).decoder
    assert decoder == ("soundfile" if kind.startswith("ogg") else "av")


def test_a_recorder_that_stops_in_silence_pauses(tmp_path: Path) -> None:
    silent = b"\xf8\xff\xfe"  # as Discord ends what it sends
    sent = [(n, silent if 95 <= n < 100 else one) for n, one in enumerate(PACKETS)]
    kept = [(n, one) for n, one in sent if n not in QUIET]
    _, faults = heard(written(kept, tmp_path / "a.webm", "webm"))
    assert faults == []


@pytest.mark.parametrize(
    ("packet", "samples"),
    [(b"", 0), (b"\x08", 960), (b"\x18", 2880), (b"\x60", 480), (b"\x78", 960), (b"\xf8", 960),
     (b"\xe0", 120), (b"\xf9", 1920), (b"\xfb\x03", 2880), (b"\xfb\x83", 2880)],
)  # fmt: skip
def test_length_of_an_opus_packet(packet: bytes, samples: int) -> None:
    assert opus_samples(packet) == samples
