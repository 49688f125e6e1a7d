"""Bytes before a stream or between its pages, and an end that is not marked, lose no audio."""

import io
import random
import struct
import zlib
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.helpers.sounding import KINDS, by_ffmpeg, ogg_pages, sound, whole
from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.audio.decoders import UNENDED
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.faults import Fault

Samples = NDArray[np.float32]
RATE = 16_000
TONE = (0.3 * np.sin(2 * np.pi * 300 * np.arange(3 * RATE) / RATE)).astype(np.float32)


def made(kind: str, subtype: str | None = None) -> bytes:
    memory = io.BytesIO()
    sf.write(memory, TONE, RATE, format=kind, subtype=subtype)
    return memory.getvalue()


def heard(data: bytes, folder: Path) -> tuple[Samples, list[Fault], list[str]]:
    path = folder / "a.bin"
    path.write_bytes(data)
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks()))
        return samples[:, 0], stream.faults, stream.notes


FLAC = made("FLAC")
FRAME = FLAC.index(b"\xff\xf8", 42)
FRONTS = {
    "noise": random.Random(7).randbytes(1000),
    "a page's worth": random.Random(8).randbytes(70_000),
    "zeros": bytes(5000),
    "an answer": b"HTTP/1.1 200 OK\r\nContent-Type: audio/flac\r\n\r\n",
    "the end of another": FLAC[-900:],
    "a tag that counts too little": b"ID3\x03\0\0\0\0\0\x0a" + bytes(40),
    "a marker that is none": b"fLaC\0\0\0\x22 and fLaC" + bytes(50),
}


@pytest.mark.parametrize("front", [b"", b"\xff\xf8\x99\x00 no frame", FRONTS["noise"]])
def test_bytes_before_the_first_frame_of_a_stream_without_a_marker(
    tmp_path: Path, front: bytes
) -> None:
    samples, faults, notes = heard(front + FLAC[FRAME:], tmp_path)
    assert np.abs(samples - TONE).max() < 2**-15
    assert faults == []
    assert len(notes) == bool(front)


@pytest.mark.parametrize("front", [b"PK\x03\x04" + bytes(30), bytes(2 << 20)])
def test_an_archive_is_not_searched_and_neither_is_a_whole_disk(
    tmp_path: Path, front: bytes
) -> None:
    with pytest.raises(ItemError, match="unreadable"):
        heard(front + FLAC, tmp_path)


OTHERS = (("OGG", "VORBIS", "Ogg stream"), ("OGG", "OPUS", "Ogg stream"),
          ("WAV", None, "RIFF header"))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "subtype", "name", "front"),
    [*(("FLAC", None, "FLAC stream", front) for front in FRONTS),
     *((*other, front) for other in OTHERS
       for front in ("an answer", "a tag that counts too little"))],
)  # fmt: skip
def test_bytes_before_a_stream_lose_nothing(
    tmp_path: Path, kind: str, subtype: str | None, name: str, front: str
) -> None:
    data = made(kind, subtype)
    expected, *_ = heard(data, tmp_path)
    samples, faults, notes = heard(FRONTS[front] + data, tmp_path)
    assert np.array_equal(samples, expected)
    assert faults == []
    assert notes == [f"{len(FRONTS[front])} bytes before its {name} are no part of it"]


@pytest.mark.parametrize("kind", ["vorbis", "opus", "oggflac"])
@pytest.mark.parametrize("count", [1, nightly(100), 5_000])
def test_bytes_between_pages_of_which_none_is_missing_lose_nothing(
    tmp_path: Path, kind: str, count: int
) -> None:
    data = whole(kind, seconds=12.0)
    pages = ogg_pages(data)
    middle = len(pages) // 2
    expected, *_ = heard(data, tmp_path)
    between = random.Random(9).randbytes(count)
    front, rest = b"".join(pages[:middle]), b"".join(pages[middle:])
    samples, faults, notes = heard(front + between + rest, tmp_path)
    assert np.array_equal(samples, expected)
    assert faults == []
    assert notes == [f"{count} bytes between its pages are no part of it"]
    _, faults, notes = heard(b"".join(pages[: middle - 1]) + between + rest, tmp_path)
    assert faults
    assert notes == []


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0x7FFFF000, 0x80000000, 0xFFFFFFFF, 0xFFFFF000])
def test_the_size_of_a_streaming_writer_promises_nothing(tmp_path: Path, size: int) -> None:
    data = bytearray(made("WAV"))
    place = data.index(b"data") + 4
    data[4:8] = struct.pack("<I", min(size + place - 4, 0xFFFFFFFF) if size else 0)
    data[place : place + 4] = struct.pack("<I", size)
    samples, faults, _ = heard(bytes(data), tmp_path)
    assert (len(samples), faults) == (len(TONE), [])


def unended(data: bytes) -> bytes:
    """An Ogg file whose last page does not say that it is the last."""
    at = data.rindex(b"OggS")
    page = bytearray(data[at:])
    assert page[5] & 4
    page[5] &= ~4
    page[22:26] = bytes(4)
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in page)
    crc = zlib.crc32(mirrored, 0xFFFFFFFF) ^ 0xFFFFFFFF
    page[22:26] = struct.pack("<I", int(f"{crc:032b}"[::-1], 2))
    return data[:at] + bytes(page)


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_that_lacks_its_last_flag_is_decoded_as_if_it_had_it(
    tmp_path: Path, subtype: str
) -> None:
    whole = made("OGG", subtype)
    expected, faults, notes = heard(whole, tmp_path)
    assert (faults, notes) == ([], [])
    samples, faults, notes = heard(unended(whole), tmp_path)
    assert np.array_equal(samples, expected)
    assert (faults, notes) == ([], [UNENDED])
    joined, faults, notes = heard(unended(whole) * 2, tmp_path)
    assert (len(joined), faults, notes) == (2 * len(expected), [], [UNENDED])


ID3 = b"ID3\x04\0\0\0\0\x01\x48" + b"TIT2\0\0\0\x05\0\0\x03abcd" + bytes(185)
APE = b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8)
OWN_TAG = ("mp3", "lavfmp3", "aac")  # ID3 belongs to these


def untagged(kind: str) -> bytes:
    """Without the ID3 tag that FFmpeg writes into MP3."""
    return whole(kind)[45:] if whole(kind).startswith(b"ID3") else whole(kind)


#: Before each kind of stream; by day one of them.
BEFORE = {"tags": 2 * ID3, "noise": FRONTS["noise"], "a mark": b"\xef\xbb\xbf"}


@pytest.mark.parametrize(
    ("kind", "front"),
    [
        pytest.param(kind, front, marks=pytest.mark.nightly if (number + at) % 3 else ())
        for number, kind in enumerate(KINDS)
        for at, front in enumerate(BEFORE)
    ],
)
def test_what_precedes_a_stream_of_any_kind_costs_nothing_and_is_noted(
    tmp_path: Path, kind: str, front: str
) -> None:
    expected, *_ = heard(whole(kind), tmp_path)
    samples, faults, notes = heard(BEFORE[front] + whole(kind), tmp_path)
    assert np.array_equal(samples, expected)
    assert faults == []
    if not (front == "tags" and kind in OWN_TAG):
        (note,) = notes
        count, words = note.split(maxsplit=1)
        assert words.startswith("bytes before its ")
        assert int(count) - len(BEFORE[front]) in (0, len(whole(kind)) - len(untagged(kind)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_follows_a_stream_of_any_kind_costs_nothing(tmp_path: Path, kind: str) -> None:
    expected, *_ = heard(whole(kind), tmp_path)
    for end in (b"\n", ID3, APE, b"TAG" + bytes(125), FRONTS["noise"], bytes(900)):
        samples, faults, _ = heard(whole(kind) + end, tmp_path)
        padding = kind in ("mp3", "lavfmp3") and not any(end)  # zeros in place of the last frame's
        assert np.array_equal(samples[: len(expected)], expected), end[:8]
        assert len(samples) == len(expected) or padding
        assert faults == []


@pytest.mark.parametrize("kind", ["ac3", "wavpack", "ts"])
def test_a_last_frame_whose_header_is_damaged_is_no_tail(tmp_path: Path, kind: str) -> None:
    data = bytearray(whole(kind))
    starts = {"ac3": b"\x0b\x77", "wavpack": b"wvpk", "ts": b"G"}[kind]
    last = len(data) - 188 if kind == "ts" else data.rindex(starts)
    data[last : last + 2] = bytes(2)
    _, _, notes = heard_or_refused(bytes(data), tmp_path)
    assert not any("after its audio" in note for note in notes)


def heard_or_refused(data: bytes, folder: Path) -> tuple[Samples, list[Fault], list[str]]:
    try:
        return heard(data, folder)
    except ItemError:
        return np.zeros(0, np.float32), [], []


def by_container(kind: str, seconds: float = 6.0) -> bytes:
    container, codec, rate = {
        "wma": ("asf", "wmav2", 44_100), "wma stereo": ("asf", "wmav2", 44_100),
        "nut pcm": ("nut", "pcm_s16le", RATE), "nut flac": ("nut", "flac", RATE),
        "nut mp3": ("nut", "libmp3lame", RATE), "nut aac": ("nut", "aac", RATE),
        "mp2": ("mp2", "mp2", 48_000), "mp2 low": ("mp2", "mp2", RATE),
    }[kind]  # fmt: skip
    channels = 2 if kind == "wma stereo" else 1
    return by_ffmpeg(container, codec, rate, sound(rate, channels, seconds))


SIZED = ("wma", "wma stereo", "nut pcm", "nut flac", "nut mp3", "nut aac")
ENDS = {
    "a byte": b"\n",
    "noise": FRONTS["noise"],
    "much noise": FRONTS["a page's worth"],
    "zeros": bytes(900),
    "many zeros": bytes(70_000),
}


@pytest.mark.parametrize("kind", SIZED)
def test_what_follows_a_container_that_tells_its_end_costs_nothing_and_is_noted(
    tmp_path: Path, kind: str
) -> None:
    data = by_container(kind)
    expected, faults, notes = heard(data, tmp_path)
    assert (faults, notes) == ([], [])
    for name, end in ENDS.items():
        samples, faults, notes = heard(data + end, tmp_path)
        assert np.array_equal(samples, expected), name
        assert (faults, notes) == ([], [f"{len(end)} bytes after its audio are no part of it"])
    for tag in (b"TAG" + bytes(125), APE):
        samples, faults, notes = heard(data + tag, tmp_path)
        assert np.array_equal(samples, expected)
        assert (faults, notes) == ([], [])


def test_a_second_wma_behind_the_first_is_no_end_of_it(tmp_path: Path) -> None:
    _, faults, notes = heard(2 * by_container("wma"), tmp_path)
    assert faults
    assert notes == []


@pytest.mark.parametrize("kind", ["nut pcm", "nut mp3", "nut aac"])
def test_a_nut_that_is_cut_short_says_so(tmp_path: Path, kind: str) -> None:
    data = by_container(kind)
    expected, *_ = heard(data, tmp_path)
    for share in (0.3, 0.6, 0.9):
        samples, faults, _ = heard(data[: int(share * len(data))], tmp_path)
        assert 0 < len(samples) < len(expected)
        assert faults[-1].end == len(samples)
    samples, faults, _ = heard(data[: data.rindex(b"NX\xddg/#\xe6N")], tmp_path)
    assert np.array_equal(samples, expected)
    assert [fault.what for fault in faults] == ["its index is missing: it is cut short"]


@pytest.mark.parametrize("kind", ["nut flac", "nut mp3", "nut aac"])
@pytest.mark.parametrize("count", [nightly(900), 5000])
def test_what_a_nut_lacks_inside_is_never_closed_up_without_a_fault(
    tmp_path: Path, kind: str, count: int
) -> None:
    data = by_container(kind, 12.0)
    expected, *_ = heard(data, tmp_path)
    middle = len(data) // 2
    for damaged in (
        data[:middle] + bytes(count) + data[middle + count :],
        data[:middle] + random.Random(4).randbytes(count) + data[middle + count :],
        data[:middle] + data[middle + count :],
    ):
        samples, faults, _ = heard(damaged, tmp_path)
        assert faults
        # What comes after the damage keeps its time, or the end is said to be missing.
        tail = samples[-2 * RATE :]
        kept = len(samples) == len(expected) and np.abs(tail - expected[-2 * RATE :]).max() < 1e-3
        assert kept or faults[-1].end == len(samples) or any(fault.shifts for fault in faults)


@pytest.mark.parametrize("kind", ["wma", "wma stereo"])
def test_zeros_in_place_of_a_wma_s_data_are_damage(tmp_path: Path, kind: str) -> None:
    data = by_container(kind)
    expected, *_ = heard(data, tmp_path)
    with av.open(io.BytesIO(data), "r") as container:
        packets = [bytes(packet) for packet in container.demux(container.streams.audio[0])]
    for packet in packets[5:-5:7]:
        inside = packet[len(packet) // 4 : len(packet) // 2]
        assert data.count(inside) == 1
        samples, faults, _ = heard(data.replace(inside, bytes(len(inside))), tmp_path)
        assert faults
        assert len(samples) == pytest.approx(len(expected), abs=50)


def test_silence_in_a_wma_is_no_damage(tmp_path: Path) -> None:
    tone = sound(RATE, 1, 2.0)
    for samples in (np.zeros_like(tone), np.concatenate([tone, 0 * tone, tone])):
        for codec in ("wmav1", "wmav2"):
            _, faults, notes = heard(by_ffmpeg("asf", codec, RATE, samples), tmp_path)
            assert (faults, notes) == ([], [])


@pytest.mark.parametrize("kind", ["mp2", "mp2 low"])
@pytest.mark.parametrize("front", ["noise", nightly("a page's worth"), nightly("zeros")])
def test_bytes_before_the_first_frame_of_an_mp2_lose_nothing(
    tmp_path: Path, kind: str, front: str
) -> None:
    data = by_container(kind)
    expected, *_ = heard(data, tmp_path)
    samples, faults, notes = heard(FRONTS[front] + data, tmp_path)
    assert np.array_equal(samples, expected)
    assert faults == []
    assert notes == [f"{len(FRONTS[front])} bytes before its first frame are no part of it"]


def test_a_wav_that_is_cut_short_is_so_behind_a_tag_too(tmp_path: Path) -> None:
    with pytest.raises(ItemError, match="promises 96000 bytes of audio, but it has 95000"):
        heard(ID3 + made("WAV")[:-1000], tmp_path)


@pytest.mark.parametrize(("peak", "said"), [(1.0, 0), (1.06, 1)])
def test_sound_beyond_full_scale_is_noted(tmp_path: Path, peak: float, said: int) -> None:
    memory = io.BytesIO()
    sf.write(memory, TONE * np.float32(peak / 0.3), RATE, format="WAV", subtype="FLOAT")
    samples, faults, notes = heard(memory.getvalue(), tmp_path)
    assert float(samples.max()) == pytest.approx(peak, abs=0.01)
    assert faults == []
    assert len(notes) == said
    assert all("its peak is 1.06 times full scale" in note for note in notes)
