"""Damage in the middle of a recording is seen, wherever the format lets it be seen."""

import io
import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.helpers.sounding import HZ, SECONDS, by_sndfile, ogg_pages, sound, whole
from tests.helpers.tiers import nightly
from uttermill.tasks import audio
from uttermill.tasks.audio import ffmpeg, packets
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.faults import Fault, merged, touching

FRAMES = round(HZ * SECONDS)


def heard(data: bytes, folder: Path, frames: int = audio.BLOCK_FRAMES) -> tuple[Any, list[Fault]]:
    """(samples, faults) of a file; raises what decoding raises."""
    path = folder / "case"
    path.write_bytes(data)
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks(frames)))
        assert len(samples) == stream.decoded
        return samples, stream.faults


@pytest.mark.parametrize(
    ("span", "touched"),
    [((0, 10), 1), ((10, 20), 2), ((20, 25), 2), ((26, 50), 1), ((50, 60), 1), ((0, 5), 0)],
)
def test_which_faults_a_span_touches(span: tuple[int, int], touched: int) -> None:
    known = [Fault(10, 25, "hole"), Fault(20, 20, "unknown", shifts=True)]
    assert touching(known, *span) == touched


def test_faults_that_touch_or_are_close_are_one() -> None:
    found = merged([Fault(30, 40, "c"), Fault(0, 10, "a"), Fault(10, 10, "b", shifts=True)])
    assert found == [Fault(0, 10, "a", shifts=True), Fault(30, 40, "c")]
    found = merged([Fault(0, 10, "a"), Fault(15, 20, "b"), Fault(40, 50, "c", shifts=True)], 5)
    assert found == [Fault(0, 20, "a"), Fault(40, 50, "c", shifts=True)]


def test_a_flac_that_counts_too_few_samples_is_read_to_its_end(tmp_path: Path) -> None:
    data = bytearray(whole("flac"))
    data[21] &= 0xF0
    data[22:26] = (FRAMES // 3).to_bytes(4, "big")
    samples, faults = heard(bytes(data), tmp_path)
    assert len(samples) == FRAMES
    assert faults == []  # its MD5 is of all of them
    assert audio.probe(Locator(str(tmp_path / "case"))).frames == FRAMES // 3


def test_a_flac_whose_md5_is_of_other_samples(tmp_path: Path) -> None:
    data = bytearray(whole("flac"))
    data[30] ^= 1
    samples, faults = heard(bytes(data), tmp_path)
    assert [(f.start, f.end, f.shifts) for f in faults] == [(0, len(samples), True)]


def test_a_flac_without_an_md5_is_believed(tmp_path: Path) -> None:
    data = bytearray(whole("flac"))
    data[26:42] = bytes(16)
    assert heard(bytes(data), tmp_path)[1] == []


@pytest.mark.parametrize("kind", ["flac", "flac24", "oggflac"])
def test_a_flipped_bit_in_a_flac_costs_its_frame(tmp_path: Path, kind: str) -> None:
    data = bytearray(whole(kind))
    data[len(data) // 2] ^= 0x10
    samples, faults = heard(bytes(data), tmp_path)
    good, _ = heard(whole(kind), tmp_path)
    assert len(samples) == len(good)  # silence fills the hole
    [fault] = faults
    assert 0 < fault.end - fault.start < 3 * HZ
    assert not fault.shifts
    same = (samples == good).all(axis=1)
    assert same[: fault.start].all()
    assert same[fault.end :].all()
    again, faults_again = heard(bytes(data), tmp_path, 777)
    assert np.array_equal(samples, again)
    assert faults == faults_again


@pytest.mark.parametrize("kind", ["vorbis", "opus"])
@pytest.mark.parametrize("damage", ["dropped", "flipped", "both"])
def test_a_page_that_is_missing_costs_its_time(tmp_path: Path, kind: str, damage: str) -> None:
    pages = ogg_pages(whole(kind, seconds=12.0))
    at = len(pages) // 2
    wrong = bytearray(pages[at])
    wrong[-5] ^= 1
    kept = {"dropped": [], "flipped": [bytes(wrong)], "both": [bytes(wrong)]}[damage]
    data = b"".join([*pages[:at], *kept, *pages[at + 1 + (damage == "both") :]])
    samples, faults = heard(data, tmp_path)
    rate = audio.probe(Locator(str(tmp_path / "case"))).rate
    [fault] = faults
    assert len(samples) / rate == pytest.approx(12.0, abs=0.05)  # later clips keep their times
    assert 0.5 < (fault.end - fault.start) / rate < 5.0
    assert not fault.shifts
    assert np.abs(samples[fault.end - rate // 4 : fault.end - 100]).max() == 0
    ideal = sound(rate, seconds=12.0)[:, 0]
    after = slice(fault.end + rate // 4, fault.end + rate)
    assert np.corrcoef(samples[after, 0], ideal[after])[0, 1] > 0.9
    assert np.array_equal(samples, heard(data, tmp_path, 999)[0])


def test_only_the_last_page_is_damaged(tmp_path: Path) -> None:
    pages = ogg_pages(whole("vorbis", seconds=12.0))
    data = b"".join(pages[:-1]) + pages[-1][: len(pages[-1]) // 2]
    samples, faults = heard(data, tmp_path)
    assert [(f.start, f.end) for f in faults] == [(len(samples), len(samples))]


# Packets that the decoder rejects: `ffmpeg` leaves them out and goes on


def zeros_at(data: bytes, share: float, count: int = 500) -> bytes:
    at = round(len(data) * share)
    return data[:at] + bytes(count) + data[at + count :]


@pytest.mark.parametrize("kind", ["m4a", "ts", "alac"])
def test_a_rejected_packet_costs_its_time(tmp_path: Path, kind: str) -> None:
    good, _ = heard(whole(kind), tmp_path)
    data = zeros_at(whole(kind), 0.5, 900)
    samples, faults = heard(data, tmp_path)
    assert len(samples) == len(good)  # what follows keeps its time
    [fault] = faults
    assert 0 < fault.end - fault.start < 30_000
    assert not fault.shifts
    same = (np.abs(samples - good) < 1e-4).all(axis=1)
    assert same[: fault.start].all()
    assert same[fault.end :].all()
    again, faults_again = heard(data, tmp_path, 777)
    assert np.array_equal(samples, again)
    assert faults == faults_again


def adts_frames(data: bytes | bytearray) -> list[int]:
    """Offset of each frame."""
    found, at = [], 0
    while at < len(data):
        found.append(at)
        at += (data[at + 3] & 3) << 11 | data[at + 4] << 3 | data[at + 5] >> 5
    return found


def test_a_rejected_adts_frame_costs_its_time(tmp_path: Path) -> None:
    """Its header is whole, and so is the chain of lengths: only what is inside is wrong."""
    data = bytearray(whole("aac"))
    at = adts_frames(data)[30]
    data[at + 7 : at + 107] = b"\xa5" * 100
    good, _ = heard(whole("aac"), tmp_path)
    samples, faults = heard(bytes(data), tmp_path)
    assert len(samples) == len(good)
    [fault] = faults
    assert (fault.start, fault.end, fault.shifts) == (30 * 1024, 32 * 1024, False)
    same = (np.abs(samples - good) < 1e-4).all(axis=1)
    assert same[: fault.start].all()
    assert same[fault.end :].all()


@pytest.mark.parametrize("count", [1, 100, 5000])
def test_bytes_that_fell_out_of_an_adts_stream_shift_the_rest(tmp_path: Path, count: int) -> None:
    data = whole("aac")
    _, faults = heard(data[:9000] + data[9000 + count :], tmp_path)
    [fault] = faults
    assert fault.shifts
    before = sum(at <= 9000 for at in adts_frames(data)) - 1
    assert fault.start == before * 1024


@pytest.mark.parametrize(
    "between", [b"", b"TAG" + bytes(125), b"ID3\x04\0\0\0\0\0\x0a" + bytes(10)]
)
def test_joined_adts_streams_are_whole(tmp_path: Path, between: bytes) -> None:
    data = whole("aac")
    good, _ = heard(data, tmp_path)
    samples, faults = heard(data + between + data, tmp_path)
    assert (len(samples), faults) == (2 * len(good), [])


@pytest.mark.parametrize("kind", ["mp3", "lavfmp3"])
def test_an_mp3_that_counts_its_frames_keeps_its_times(tmp_path: Path, kind: str) -> None:
    data = zeros_at(whole(kind), 0.5)
    samples, faults = heard(data, tmp_path)
    [fault] = faults
    assert 0 < fault.end - fault.start < 6000
    assert not fault.shifts
    good, _ = heard(whole(kind), tmp_path)
    after = slice(fault.end + HZ // 4, fault.end + HZ)
    assert np.abs(samples[after] - good[after]).max() < 1e-3

    frame = whole(kind).find(b"Info" if kind == "lavfmp3" else b"Xing")
    assert frame > 0
    bare = data[:frame] + b"none" + data[frame + 4 :]
    assert any(f.shifts for f in heard(bare, tmp_path)[1])


def test_a_rejected_mp3_frame_whose_header_is_whole_keeps_the_times(tmp_path: Path) -> None:
    data = bytearray(whole("lavfmp3").replace(b"Info", b"none"))
    frames = [at for at in range(len(data) - 1) if data[at : at + 2] == b"\xff\xf3"]
    data[frames[30] + 4 : frames[30] + 13] = b"\xff" * 9  # its side information
    samples, faults = heard(bytes(data), tmp_path)
    [fault] = faults
    assert 2 * 576 <= fault.end - fault.start < 6 * 576
    assert not fault.shifts
    assert "missing" in fault.what
    good, _ = heard(bytes(whole("lavfmp3").replace(b"Info", b"none")), tmp_path)
    assert len(samples) == len(good)
    after = slice(fault.end + 2000, None)
    assert np.abs(samples[after] - good[after]).max() < 1e-3


def test_an_m4a_that_ends_in_the_middle_has_the_length_of_its_index(tmp_path: Path) -> None:
    """With its index in front, as those for the web have it."""
    path = tmp_path / "fast.m4a"
    source: Any = av.open(io.BytesIO(whole("m4a")))
    with source:
        out: Any = av.open(str(path), "w", format="ipod", options={"movflags": "faststart"})
        with out:
            stream = out.add_stream_from_template(source.streams.audio[0])
            for packet in source.demux(source.streams.audio[0]):
                if packet.size:
                    packet.stream = stream
                    out.mux(packet)
    data = path.read_bytes()
    good, _ = heard(data, tmp_path)
    samples, faults = heard(data[: len(data) // 2], tmp_path)
    [fault] = faults
    assert len(good) // 3 < fault.start < len(good) * 2 // 3
    assert fault.end == len(samples) == pytest.approx(len(good), abs=1024)
    assert np.array_equal(samples[: fault.start], good[: fault.start])


@pytest.mark.parametrize("kind", ["mp3", "lavfmp3"])
def test_an_mp3_that_is_cut_short_is_doubtful_at_its_end_only(tmp_path: Path, kind: str) -> None:
    """All of it was, because the length in LAME's tag was not there, as for Ogg and WebM it never
    was."""
    data = whole(kind)
    good, _ = heard(data, tmp_path)
    for cut in range(len(data) // 2, len(data) // 2 + 300, 61):
        samples, faults = heard(data[:cut], tmp_path)
        assert len(good) // 3 < len(samples) < len(good) * 2 // 3
        [fault] = faults
        assert (fault.start, fault.shifts) == (len(samples) - 1152, False)
        assert fault.end == len(samples)
        assert np.array_equal(samples[: fault.start], good[: fault.start])


@pytest.mark.parametrize("kind", ["mp3", "lavfmp3"])
def test_an_mp3_that_may_lack_more_than_its_end_is_doubtful_before(
    tmp_path: Path, kind: str
) -> None:
    """Where its frames do not follow each other, or a tag shows that nothing was cut off."""
    data = whole(kind)
    samples, faults = heard(data[:-2000] + b"TAG" + bytes(125), tmp_path)
    assert [(f.start, f.end, f.shifts) for f in faults] == [(0, len(samples), True)]
    third = len(data) // 3
    samples, faults = heard(data[:third] + data[third + 501 : -700], tmp_path)
    assert faults[0].start < len(samples) // 2


def test_a_file_of_which_nothing_can_be_decoded_is_unreadable(tmp_path: Path) -> None:
    data = whole("m4a")
    at, end = data.find(b"mdat") + 4, data.find(b"moov") - 4
    with pytest.raises(ItemError, match=r"unreadable.*none of its packets can be decoded"):
        heard(data[:at] + b"\xff" * (end - at) + data[end:], tmp_path)


@pytest.mark.parametrize(("kind", "name"), [("wav", "WAV file"), ("m4a", "MP4")])
def test_a_file_that_follows_another_is_told(tmp_path: Path, kind: str, name: str) -> None:
    """As `cat a.wav b.wav` leaves it: the second was lost unseen."""
    data = whole(kind)
    good, _ = heard(data, tmp_path)
    samples, faults = heard(data + data, tmp_path)
    assert np.array_equal(samples, good)
    what = f"another {name} follows in it, which is not read; split the file"
    assert faults == [Fault(len(good), len(good), what)]


@pytest.mark.parametrize("outer", ["stale", "right"])
def test_audio_that_the_header_of_a_wav_does_not_count_is_told(tmp_path: Path, outer: str) -> None:
    """As a recorder that died leaves it, or 4 GiB more than 32 bits count: it was lost unseen."""
    data = bytearray(whole("wav", seconds=8.0))
    half = (len(data) - 44) // 2
    struct.pack_into("<I", data, 40, half)
    if outer == "stale":
        struct.pack_into("<I", data, 4, 36 + half)
    samples, faults = heard(bytes(data), tmp_path)
    assert len(samples) == half // 2
    assert [(f.start, f.end, f.shifts) for f in faults] == [(half // 2, half // 2, False)]
    assert faults[0].what == (
        f"its header does not count its last {half} bytes; correct its header"
    )


@pytest.mark.parametrize("form", ["wrapped", "RF64"])
def test_a_wav_of_more_than_4_gib_is_read_to_its_end(tmp_path: Path, form: str) -> None:
    """Its size began again at 0 at 2^32, as most writers leave it; all but its start was lost."""
    data = bytearray(whole("wav"))
    audio_bytes = (1 << 32) + 600_000
    samples = audio_bytes // 2
    struct.pack_into("<I", data, 4, (36 + audio_bytes) % 2**32)
    struct.pack_into("<I", data, 40, audio_bytes % 2**32)
    head = bytes(data[:44])
    if form == "RF64":
        ds64 = struct.pack("<4sIQQQI", b"ds64", 28, audio_bytes + 72, audio_bytes, 0, 0)
        head = b"RF64" + b"\xff" * 4 + head[8:12] + ds64 + head[12:40] + b"\xff" * 4
    path = tmp_path / "long"
    with path.open("wb") as file:  # sparse: its middle takes no place
        file.write(head)
        file.seek(len(head) + audio_bytes - len(data[44:]))
        file.write(data[44:])
    assert audio.probe(Locator(str(path))).frames == samples
    with audio.open_stream(Locator(str(path))) as stream:
        start = samples - len(data[44:]) // 2
        assert stream.skip_to(start)
        tail = np.concatenate(list(stream.blocks(audio.BLOCK_FRAMES)))
        assert stream.faults == []
    assert np.array_equal(
        tail, heard(bytes(data[:40]) + struct.pack("<I", len(data) - 44) + data[44:], tmp_path)[0]
    )


@pytest.mark.parametrize("between", [b"", b"LIST" + struct.pack("<I", 5) + b"INFOx\0"])
def test_a_wav_of_several_chunks_of_audio_is_read_to_its_end(
    tmp_path: Path, between: bytes
) -> None:
    data = whole("wav")
    good, _ = heard(data, tmp_path)
    more = data[44 : 44 + 3000]
    second = between + b"data" + struct.pack("<I", len(more)) + more
    path = tmp_path / "two"
    path.write_bytes(data[:4] + struct.pack("<I", len(data) + len(second) - 8) + data[8:] + second)
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks(audio.BLOCK_FRAMES)))
        assert stream.faults == []
        assert stream.notes == ["its audio lies in 2 chunks: they were read one after the other"]
    assert np.array_equal(samples[: len(good)], good)
    assert np.array_equal(samples[len(good) :], good[: len(more) // 2])


@pytest.mark.parametrize(
    "rest", [bytes(200_000), b"LIST" + struct.pack("<I", 200_000) + b"x" * 200_000, b"x" * 9_999]
)
def test_chunks_and_padding_after_the_audio_are_no_audio(tmp_path: Path, rest: bytes) -> None:
    good, _ = heard(whole("wav"), tmp_path)
    samples, faults = heard(whole("wav") + rest, tmp_path)
    assert faults == []
    assert np.array_equal(samples, good)


def test_a_wma_whose_end_is_zeros_is_doubtful_there(tmp_path: Path) -> None:
    """As a copy that never ended leaves it; its packets have no length of the whole."""
    data = whole("wma", seconds=8.0)
    good, faults = heard(data, tmp_path)
    assert faults == []
    for kept in range(len(data) // 2, len(data) * 2 // 3, 1000):
        samples, faults = heard(data[:kept] + bytes(len(data) - kept), tmp_path)
        assert len(samples) < len(good) * 3 // 4
        assert faults[-1].end == len(samples)
        assert not faults[-1].shifts


def test_what_breaks_midway_is_told_in_words(tmp_path: Path) -> None:
    """It was `[Errno 1094995529] Invalid data found when processing input: '<none>'; last …`."""
    data = whole("vorbis", seconds=40.0)
    with pytest.raises(ItemError) as caught:
        heard(data[: len(data) // 3] + bytes(len(data) * 2 // 3), tmp_path)
    assert caught.value.code == "decode_error"
    assert caught.value.detail == (
        "Invalid data found when processing input; ogg: CRC mismatch!; get the file again from "
        "where it came from"
    )


def test_a_lost_page_of_vorbis_costs_itself_where_blocks_are_long_and_short(tmp_path: Path) -> None:
    """FFmpeg's time of a packet between a long block and a short one is too late. Each was taken
    for a hole, so that one lost page cost the whole recording."""
    clicks = sound(seconds=12.0) * np.float32(0.2)
    clicks[3_000::4_700] = 0.9
    pages = ogg_pages(by_sndfile("OGG", "VORBIS", HZ, clicks))
    good, faults = heard(b"".join(pages), tmp_path)
    assert faults == []
    middle = len(pages) // 2
    samples, faults = heard(b"".join(pages[:middle] + pages[middle + 1 :]), tmp_path)
    assert len(samples) == len(good)
    [fault] = faults
    assert not fault.shifts
    same = (np.abs(samples - good) < 1e-4).all(axis=1)
    assert same[: fault.start].all()
    assert same[fault.end :].all()


@pytest.mark.parametrize("earlier", [(), (4,)])
@pytest.mark.parametrize("kind", ["vorbis", "opus", "oggflac"])
def test_a_lost_page_before_the_last_is_in_doubt_everywhere(
    tmp_path: Path, kind: str, earlier: tuple[int, ...]
) -> None:
    """FFmpeg lets the last page follow at once, and a hole elsewhere did not explain that."""
    pages = ogg_pages(whole(kind, seconds=12.0))
    lost = {*earlier, len(pages) - 2}
    data = b"".join(page for number, page in enumerate(pages) if number not in lost)
    samples, faults = heard(data, tmp_path)
    assert [(f.start, f.end, f.shifts) for f in faults] == [(0, len(samples), True)]


def wav(samples: Any, promised: int | None = None) -> bytes:
    """int16 [n, channels] as WAV whose data chunk promises so many bytes."""
    data: bytes = samples.astype("<i2").tobytes()
    channels = samples.shape[1]
    form = struct.pack("<IHHIIHH", 16, 1, channels, HZ, HZ * 2 * channels, 2 * channels, 16)
    size = len(data) if promised is None else promised
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body) - len(data) + size) + body


@pytest.mark.parametrize("channels", [1, 2])
def test_one_missing_byte_of_a_wav_costs_the_last_frame(tmp_path: Path, channels: int) -> None:
    pcm = np.round(sound(channels=channels) * 32767)
    path = tmp_path / "case"
    path.write_bytes(wav(pcm)[:-1])
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks()))
        assert stream.notes == [f"its last frame has {2 * channels - 1} of {2 * channels} bytes"]
        assert stream.faults == []
    assert np.array_equal(samples, pcm[:-1].astype(np.float32) / 32768)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_what_follows_a_byte_that_fell_out_of_a_wav_is_damaged(
    tmp_path: Path, share: float, channels: int
) -> None:
    pcm = np.tile(np.round(sound(channels=channels) * 32767), (8, 1))
    data = wav(pcm)
    at = round(len(data) * share)
    lost = (at - 44) // (2 * channels)
    samples, faults = heard(data[:at] + data[at + 1 :], tmp_path)
    assert len(samples) == len(pcm) - 1
    [fault] = faults
    assert fault.shifts
    assert fault.end == len(samples)
    assert lost - 70_000 < fault.start <= lost
    assert fault.what.startswith(f"1 of {2 * channels * len(pcm)} bytes fell out")
    assert np.array_equal(samples[: fault.start], pcm[: fault.start].astype(np.float32) / 32768)


def test_a_byte_that_fell_out_is_seen_in_quiet_noise(tmp_path: Path) -> None:
    noise = np.random.default_rng(3).integers(-4, 5, (60_000, 1))
    data = wav(noise)
    [fault] = heard(data[:60_001] + data[60_002:], tmp_path)[1]
    assert fault.shifts
    assert heard(data[:-1], tmp_path)[1] == []
    assert heard(wav(noise * 2048)[:-1], tmp_path)[1] == []  # of 8 bits, as it were


def test_a_byte_that_fell_out_of_silence_is_not_placed_behind_it(tmp_path: Path) -> None:
    pcm = np.tile(np.round(sound() * 32767), (8, 1))
    pcm[100_000:300_000] = 0
    data = wav(pcm)
    samples, faults = heard(data[:400_001] + data[400_002:], tmp_path)
    [fault] = faults
    assert 60_000 < fault.start <= 100_000
    assert (fault.end, fault.shifts) == (len(samples), True)


def test_a_byte_that_fell_out_of_floats_fails_them(tmp_path: Path) -> None:
    data = whole("wavfloat")
    with pytest.raises(ItemError, match="truncated"):
        heard(data[:20_000] + data[20_001:], tmp_path)


@pytest.mark.parametrize(
    "kind", ["wav", "aiff", "au", "caf", "w64", "rf64", "wav24", "wavfloat", "sphere"]
)
def test_a_block_that_fell_out_of_plain_audio_fails_it(tmp_path: Path, kind: str) -> None:
    data = whole(kind)
    assert heard(data, tmp_path)[1] == []
    with pytest.raises(ItemError, match="truncated"):
        heard(data[:20_000] + data[24_000:], tmp_path)


def test_libraries_say_nothing_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for kind in ("mp3", "lavfmp3", "flac", "vorbis", "m4a", "webm"):
        data = bytearray(whole(kind))
        data[len(data) // 2 : len(data) // 2 + 400] = bytes(400)
        with suppress(ItemError):
            heard(bytes(data), tmp_path)
    assert capfd.readouterr().err == ""


def test_a_place_that_no_file_has_draws_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """PyAV wrote to the terminal that it drops an exception, wherever a header led there."""

    class Short(io.FileIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            if offset > 1 << 40:  # ext4 refuses it, tmpfs does not
                raise OSError(22, "Invalid argument")
            return super().seek(offset, whence)

    data = bytearray(whole("w64"))
    data[56] ^= 1
    (tmp_path / "case").write_bytes(data)
    for _ in range(2):
        with suppress(ValueError, av.FFmpegError), Short(tmp_path / "case") as file:
            ffmpeg.open_container(file).close()
    assert capfd.readouterr().err == ""


# Fuzz: what differs is said


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(data) // 8, len(data) * 7 // 8)
        changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)


def removed(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) // 8, len(data) * 6 // 8)
    return data[:at] + data[at + chance.choice((1, 7, 64, 500, 1000, 4096)) :]


def zeroed(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) // 8, len(data) * 6 // 8)
    count = chance.choice((8, 64, 500, 1000))
    return data[:at] + bytes(count) + data[at + count :]


def dropped(data: bytes, chance: random.Random) -> bytes:
    """Pages of an Ogg, or blocks of 512 bytes."""
    if data[:4] == b"OggS":
        pages = ogg_pages(data)
        del pages[chance.randrange(3, len(pages) - 1)]
        return b"".join(pages)
    at = chance.randrange(len(data) // 4096, len(data) // 640) * 512
    return data[:at] + data[at + 512 :]


def swapped(data: bytes, chance: random.Random) -> bytes:
    """Two blocks change places."""
    size = chance.choice((256, 1024))
    at = chance.randrange(len(data) // 8, len(data) * 5 // 8)
    return b"".join((data[:at], data[at + size : at + 2 * size], data[at : at + size],
                     data[at + 2 * size :]))  # fmt: skip


#: Kinds whose bytes have checksums, and the damage that those show; of the others only what changes
#: their length, since nothing tells one sample from another.
CHECKED = ("flac", "flac24", "oggflac", "vorbis", "opus", "mp3", "lavfmp3", "wavpack", "tta",
           "mkvflac", "mkvopus")  # fmt: skip
LENGTHS = ("wav", "wav24", "wavfloat", "rf64", "w64", "aiff", "au", "caf", "sphere")
#: Kinds whose frames have checksums and are all of one length, so that nobody misses whole ones.
FRAMED = ("ac3",)
CASES = 15  # a kind; by night 40


#: Kinds whose decoder adds noise of its own, which is another one after a frame that it lost; its
#: peak.
DITHER = {"ac3": 0.05}


def outcome(data: bytes, good: Any, folder: Path, noise: float = 1e-4) -> str:
    """`same`, `seen` (an error, or faults wherever the samples differ), `part` (faults, but not at
    all of these) or `missed`. Two decoders may differ by `noise`."""
    try:
        samples, faults = heard(data, folder)
    except ItemError:
        return "seen"
    if samples.shape == good.shape:
        same = (np.abs(samples - good) < noise).all(axis=1)
        if same.all():
            return "same"
        last = len(good) - 1
        covered = np.zeros(len(good), bool)
        for f in faults:
            covered[max(f.start - HZ // 5, 0) : last + 1 if f.shifts else f.end + HZ] = True
        if (same | covered).all():
            return "seen"
        return "part" if faults else "missed"
    return "seen" if faults else "missed"


@pytest.mark.parametrize("kind", [*CHECKED, *LENGTHS, *FRAMED])
@pytest.mark.parametrize("cases", [CASES, nightly(40)])
def test_damage_in_the_middle_is_seen(tmp_path: Path, kind: str, cases: int) -> None:
    data = whole(kind, seconds=12.0 if kind in ("vorbis", "opus") else SECONDS)
    good, faults = heard(data, tmp_path)
    assert faults == []
    damages = [removed, dropped]
    if kind in CHECKED:
        damages = [flipped, removed, zeroed, dropped, swapped]
    elif kind in FRAMED:
        damages = [flipped, zeroed, swapped]
    found = []
    for number in range(cases):
        chance = random.Random(f"{kind} {number}")
        damage = damages[number % len(damages)]
        noise = DITHER.get(kind, 1e-4)
        said = outcome(damage(data, chance), good, tmp_path, noise)
        found.append((said, damage.__name__, number))
    missed = [case for case in found if case[0] in ("missed", "part")]
    seen = sum(case[0] == "seen" for case in found)
    assert seen > cases // 2
    assert len(missed) <= 0.01 * (seen + len(missed)), missed


def test_a_flac_whose_header_is_wrong_about_its_blocks_is_whole(tmp_path: Path) -> None:
    """FFmpeg works out the times of frames from the largest block that the header names."""
    data = bytearray(whole("flac"))
    good, _ = heard(bytes(data), tmp_path)
    assert data[8:12] == struct.pack(">HH", 4096, 4096)
    data[8:12] = struct.pack(">HH", 4096, 16_384)
    samples, faults = heard(bytes(data), tmp_path)
    assert faults == []
    assert np.array_equal(samples, good)


def test_a_time_that_ffmpeg_does_not_know_is_no_number() -> None:
    """It printed the smallest integer as a time: `CRC error at PTS -9223372036854775808`."""
    told = [
        (16, "flac", "CRC error at PTS -9223372036854775808\n"),
        (16, "flac", "CRC error at PTS 4096\n"),
        (16, "ogg", "bad packet pts=-9223372036854775808, skipped"),
    ]
    expected = ["flac: CRC error", "flac: CRC error at PTS 4096", "ogg: bad packet, skipped"]
    assert packets.in_words(told) == expected
