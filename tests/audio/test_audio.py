"""Decoding: exact where it can be, the right code where it cannot, and never more than a block."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from numpy.typing import NDArray

from tests.helpers import bombs, loopback, sounding, tiers
from tests.helpers.fetched import CORPUS
from uttermill.tasks import audio
from uttermill.tasks.audio.damage.mp3 import crc16
from uttermill.tasks.base.errors import CODES, ItemError
from uttermill.tasks.recording import Locator, container
from uttermill.tasks.recording.faults import Fault

Samples = NDArray[np.float32]


def tones(frames: int, channels: int = 1, rate: int = 16_000) -> Samples:
    """A different tone in every channel."""
    at = np.arange(frames)[:, None] / rate
    return (0.3 * np.sin(2 * np.pi * (200 + 37 * np.arange(channels)) * at)).astype(np.float32)


def write(path: Path, samples: Samples, rate: int = 16_000, subtype: str | None = None) -> Locator:
    kind = "OGG" if path.suffix == ".opus" else None
    with sf.SoundFile(path, "w", rate, samples.shape[1], subtype, format=kind) as file:
        for at in range(0, len(samples), 65_536):  # one long OGG write crashes libsndfile
            file.write(samples[at : at + 65_536])
    return Locator(str(path))


def write_m4a(path: Path, samples: Samples, rate: int = 16_000) -> Locator:
    path.write_bytes(sounding.by_ffmpeg("mp4", "aac", rate, samples))
    return Locator(str(path))


def decode(locator: Locator, frames: int = audio.BLOCK_FRAMES) -> Samples:
    with audio.open_stream(locator) as stream:
        return np.concatenate(list(stream.blocks(frames)))


def fails(locator: Locator) -> ItemError:
    with pytest.raises(ItemError) as caught:
        decode(locator)
    assert caught.value.code in CODES
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("name", "subtype", "step"),
    [("a.wav", "PCM_16", 2**-15), ("a.wav", "PCM_U8", 2**-7), ("a.wav", "PCM_24", 2**-23),
     ("a.wav", "PCM_32", 2**-24), ("a.wav", "FLOAT", 0), ("a.wav", "ULAW", 0.02),
     ("a.aiff", "PCM_16", 2**-15), ("a.ogg", "VORBIS", 0.1),
     ("a.opus", "OPUS", 0.5)],
)  # fmt: skip
def test_formats_decode_to_what_was_written(
    tmp_path: Path, name: str, subtype: str, step: float
) -> None:
    samples = tones(48_000, 2)
    locator = write(tmp_path / name, samples, subtype=subtype)
    header, found = audio.probe(locator), decode(locator)
    assert (header.rate, header.channels, header.decoder) == (16_000, 2, "soundfile")
    assert header.frames == len(samples)
    assert header.format.endswith("/" + subtype.lower())
    assert found.dtype == np.float32
    assert found.shape == samples.shape
    assert np.abs(found - samples).max() <= step


@pytest.mark.parametrize(("subtype", "bits"), [("PCM_S8", 8), ("PCM_16", 16), ("PCM_24", 24)])
@pytest.mark.parametrize("channels", [1, 2, 5, 8])
def test_flac_is_exact(tmp_path: Path, subtype: str, bits: int, channels: int) -> None:
    samples = tones(48_000, channels)
    locator = write(tmp_path / "a.flac", samples, subtype=subtype)
    header, found = audio.probe(locator), decode(locator)
    expected = audio.Header(16_000, channels, 48_000, f"flac/{subtype.lower()}", "")
    assert replace(header, decoder="", weights=None) == expected
    assert np.array_equal(found, sf.read(locator.path, dtype="float32", always_2d=True)[0])
    assert np.abs(found - samples).max() <= 2.0 ** (1 - bits)
    assert np.array_equal(found, decode(locator, 777))
    assert faults(locator) == []


@pytest.mark.parametrize(
    ("frames", "channels", "rate"),
    [(1, 1, 16_000), (1000, 8, 16_000), (8000, 1, 8_000), (5000, 2, 192_000), (70_000, 3, 11_025)],
)
def test_any_shape_of_wav(tmp_path: Path, frames: int, channels: int, rate: int) -> None:
    samples = tones(frames, channels, rate)
    locator = write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
    assert audio.probe(locator) == audio.Header(rate, channels, frames, "wav/float", "soundfile")
    assert np.array_equal(decode(locator, 777), samples)


def test_m4a_by_ffmpeg_is_whole_and_the_same_every_time(tmp_path: Path) -> None:
    samples = tones(40_000)
    locator = write_m4a(tmp_path / "a.m4a", samples)
    header, found = audio.probe(locator), decode(locator)
    assert (header.rate, header.channels, header.format) == (16_000, 1, "mov/aac")
    assert header.decoder == "av"
    assert 0 <= len(found) - len(samples) < 1024
    assert np.abs(found[2000:38_000] - samples[2000:38_000]).max() < 0.05
    assert np.array_equal(found, decode(locator, 1000))


SCALES = {"u8": 128, "s16": 2**15, "s32": 2**31, "flt": 1, "dbl": 1}


def write_by_ffmpeg(
    path: Path, samples: Samples, codec: str, form: str, layout: str, rate: int = 16_000
) -> Locator:
    kind = form.removesuffix("p")
    ideal = samples.astype(np.float64) * SCALES[kind] + (128 if kind == "u8" else 0)
    values = np.ascontiguousarray(ideal.astype({"u8": "u1", "s16": "i2", "s32": "i4", "flt": "f4",
                                                "dbl": "f8"}[kind]))  # fmt: skip
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate, layout=layout)
        stream.codec_context.format = form
        size = stream.codec_context.frame_size or 1000
        for at in range(0, len(values), size):
            part = values[at : at + size]
            frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), kind, layout)
            frame.sample_rate = rate
            if form != kind:
                [frame] = av.AudioResampler(format=form).resample(frame)
            frame.sample_rate, frame.pts = rate, at
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return Locator(str(path))


NIGHT = pytest.mark.nightly
LAYOUTS = ("mono", "stereo", "5.1", "5.1(side)", "7.1", "hexadecagonal")
WRITTEN = [
    ("a.mkv", "pcm_u8", "u8", 2**-7), ("a.mkv", "pcm_s16le", "s16", 2**-15),
    ("a.mkv", "pcm_s32le", "s32", 2**-24), ("a.mkv", "pcm_f32le", "flt", 0),
    ("a.mkv", "pcm_f64le", "dbl", 2**-24), ("a.wv", "wavpack", "s16p", 2**-15),
    ("a.wv", "wavpack", "s32p", 2**-24), ("a.wv", "wavpack", "fltp", 0),
    ("a.mka", "aac", "fltp", 0.2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "name", "codec", "form", "step"),
    # By day each layout and each form once. AAC has one 5.1, and no 16 channels.
    [pytest.param(layout, *each, marks=() if layout == LAYOUTS[place % 6] else NIGHT)
     for place, each in enumerate(WRITTEN) for layout in LAYOUTS
     if each[1] != "aac" or layout in ("mono", "stereo", "5.1", "7.1")],
)  # fmt: skip
def test_sample_formats_of_ffmpeg_in_any_number_of_channels(
    tmp_path: Path, layout: str, name: str, codec: str, form: str, step: float
) -> None:
    samples = tones(20_000, av.AudioLayout(layout).nb_channels)
    locator = write_by_ffmpeg(tmp_path / name, samples, codec, form, layout)
    assert audio.probe(locator).decoder == "av"
    found = decode(locator)
    at = 1024 if codec == "aac" and len(found) > len(samples) + 1000 else 0
    assert found.shape[1] == samples.shape[1]
    assert 0 <= len(found) - at - len(samples) < 1024
    # AAC keeps but the lowest notes of the fourth channel, which is for a subwoofer.
    inner = slice(3000, 18_000), slice(0, 3) if codec == "aac" else slice(None)
    assert np.abs(found[at:][inner] - samples[inner]).max() <= step
    assert np.array_equal(found, decode(locator, 777))


def disordered(path: Path, samples: Samples) -> Locator:
    """A film whose three channels come in an order of their own (CoreAudio's MPEG_3_0_B): PyAV
    would end the process over it."""
    write_by_ffmpeg(path, samples, "pcm_s16le", "s16", "3.0")
    usual, other = (struct.pack(">I", tag << 16 | 3) for tag in (113, 114))
    head, found, rest = path.read_bytes().partition(b"chan" + bytes(4) + usual)
    assert found
    path.write_bytes(head + b"chan" + bytes(4) + other + rest)
    return Locator(str(path))


def test_channels_in_an_order_of_their_own(tmp_path: Path) -> None:
    samples = tones(70_000, 3)
    locator = disordered(tmp_path / "a.mov", samples)
    for _ in range(3):
        assert audio.probe(locator).channels == 3
        assert np.abs(decode(locator) - samples).max() < 2**-15
    bare = "import av, sys; [f.layout for f in av.open(sys.argv[1]).decode(audio=0)]"
    ended = subprocess.run([sys.executable, "-c", bare, locator.path], capture_output=True)
    assert ended.returncode < 0, "control: PyAV is mended, and `_forget_order` can go"


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
@pytest.mark.parametrize("kind", ["mp3", "flac in ogg", "flac", "vorbis", "opus"])
def test_channels_that_change_midway_are_mixed(
    tmp_path: Path, kind: str, counts: tuple[int, int]
) -> None:
    """Each part sounds in the channels of the first."""
    parts = []
    for channels in counts:
        samples = np.repeat(tones(44_100), channels, axis=1)
        if kind == "mp3":
            parts.append(mp3(samples, path := tmp_path / "a.mp3"))
        elif kind == "flac in ogg":
            path = tmp_path / "a.oga"
            write_by_ffmpeg(path, samples, "flac", "s16", ["mono", "stereo"][channels - 1])
            parts.append(path.read_bytes())
        else:
            path = tmp_path / {"flac": "a.flac", "vorbis": "a.ogg", "opus": "a.opus"}[kind]
            write(path, samples, subtype={"flac": "PCM_16"}.get(kind, kind.upper()))
            data = path.read_bytes()
            parts.append(data if kind != "flac" or not parts else sounding.flac_frames(data))
    path.write_bytes(b"".join(parts))
    locator = Locator(str(path))
    found = decode(locator)
    assert found.shape[1] == counts[0]
    assert abs(len(found) - 2 * 44_100) < 3000
    first, second = (np.abs(found[at : at + 30_000]).max() for at in (8_000, 52_000))
    assert first == pytest.approx(0.3, abs=0.03)
    assert second == pytest.approx(0.3, abs=0.03)
    assert np.array_equal(found, decode(locator, 777))
    if kind != "mp3":  # its second part begins without the bits before it
        assert faults(locator) == []


def faults(locator: Locator) -> list[Fault]:
    with audio.open_stream(locator) as stream:
        for _ in stream.blocks():
            pass
        return stream.faults


@pytest.mark.parametrize("kind", ["flac", "vorbis"])
def test_a_rate_that_changes_midway_is_resampled(tmp_path: Path, kind: str) -> None:
    name = {"flac": "a.flac", "vorbis": "a.ogg"}[kind]
    one = Path(write(tmp_path / name, tones(32_000), 16_000).path).read_bytes()
    other = Path(write(tmp_path / name, tones(88_200, rate=44_100), 44_100).path).read_bytes()
    (tmp_path / name).write_bytes(one + (sounding.flac_frames(other) if kind == "flac" else other))
    locator = Locator(str(tmp_path / name))
    found = decode(locator)
    assert audio.probe(locator).rate == 16_000
    assert len(found) == pytest.approx(64_000, abs=40)
    ideal = tones(32_000)
    assert np.abs(found[33_000:60_000] - ideal[1_000:28_000]).max() < 0.05
    assert np.array_equal(found, decode(locator, 777))
    assert faults(locator) == []


def test_a_midi_sample_dump_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.sds"
    sf.write(path, tones(9_000)[:, 0], 16_000, "PCM_16", format="SDS")
    error = fails(Locator(str(path)))
    assert error.code == "unreadable"
    assert "convert it to WAV" in error.detail


def mp3(samples: Samples, path: Path) -> bytes:
    sf.write(path, samples, 16_000, "MPEG_LAYER_III", format="MP3", bitrate_mode="VARIABLE")
    return path.read_bytes()


def test_junk_after_an_mp3_is_no_error_but_inside_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    loud = np.random.default_rng(0).uniform(-0.5, 0.5, (80_000, 1)).astype(np.float32)
    data = mp3(loud, path)
    path.write_bytes(data + b"<html>not found</html>" * 40)
    assert len(decode(Locator(str(path)))) == 80_000
    half = len(data) // 2
    path.write_bytes(data[:half] + b"<html>not found</html>" * 40 + data[half:])
    assert len(decode(Locator(str(path)))) > 80_000
    [fault] = faults(Locator(str(path)))
    assert 0 < fault.start < fault.end < 80_000
    assert fault.shifts  # nobody knows what the page took the place of


def test_broken_flac_delivers_what_lies_before_the_break(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, (100_000, 1)).astype(np.float32)
    write(path, noise, subtype="PCM_16")
    whole = decode(Locator(str(path)))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 9 // 10])
    locator = Locator(str(path))
    for size in (1000, 65_536, 200_000):  # the prefix does not depend on the size of a block
        found = np.empty((0, 1), np.float32)
        with audio.open_stream(locator) as stream, pytest.raises(ItemError) as caught:  # noqa: PT012
            for block in stream.blocks(size):
                found = np.concatenate([found, block])
        assert caught.value.decoded == len(found)
        assert 80_000 < len(found) < 100_000
        assert np.array_equal(found, whole[: len(found)])


def test_truncated_wav_keeps_count_of_its_prefix(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write(path, tones(100_000), subtype="PCM_16")
    path.write_bytes(path.read_bytes()[: 44 + 2 * 70_000])
    error = fails(Locator(str(path)))
    assert (error.code, error.decoded, error.rate) == ("truncated", 70_000, 16_000)


def test_a_lying_header_allocates_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    write(path, tones(20_000), subtype="PCM_16")
    data = bytearray(path.read_bytes())
    data[21] |= 0x0F  # the upper bits of the number of samples: 2^36
    data[22:26] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        assert audio.probe(Locator(str(path))).frames is None
        assert len(decode(Locator(str(path)))) == 20_000  # and its MD5 says that this is all
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_long_recording_is_decoded_in_the_memory_of_a_block(tmp_path: Path) -> None:
    locator = write(tmp_path / "a.flac", np.zeros((12_000_000, 1), np.float32), subtype="PCM_16")
    tracemalloc.start()
    try:
        with audio.open_stream(locator) as stream:
            assert sum(len(block) for block in stream.blocks()) == 12_000_000
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_samples_fail_all_of_it(tmp_path: Path, bad: float) -> None:
    samples = tones(200_000)
    samples[100_000] = bad
    error = fails(write(tmp_path / "a.wav", samples, subtype="FLOAT"))
    assert (error.code, error.decoded) == ("non_finite", 200_000)
    assert error.detail.startswith("a sample at 6.25 s is NaN or infinite")


def test_what_cannot_be_opened_has_its_code(tmp_path: Path) -> None:
    assert fails(Locator(str(tmp_path / "gone.wav"))).code == "missing"
    assert fails(Locator(str(tmp_path))).code == "unreadable"
    os.mkfifo(tmp_path / "pipe.wav")  # opening it would wait for a writer for ever
    assert fails(Locator(str(tmp_path / "pipe.wav"))).code == "unreadable"
    for name, data, code in (
        ("page.wav", b"<!DOCTYPE html><html><body>404</body></html>" * 50, "unreadable"),
        ("none.mp3", b"", "empty"),
        ("lfs.mp3", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "unreadable"),
        ("pcm.raw", tones(20_000).tobytes(), "unreadable"),
        ("noise.vox", np.random.default_rng(0).bytes(50_000), "unreadable"),
    ):
        (tmp_path / name).write_bytes(data)
        assert fails(Locator(str(tmp_path / name))).code == code


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"RIFF", "it has 4 bytes, too few for audio; get it again"),
        (b"\x1f\x8b\x08\0" * 99, "it is compressed with gzip; decompress it first"),
        (b"PK\x03\x04\x14\0" * 99, "it is a ZIP archive; unpack it first"),
        (b"\xef\xbb\xbf\n<!doctype HTML><html>", "it is a web page"),
        (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code>', "it is a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "run git lfs pull"),
        (bytes(70_000), "its first 4096 bytes are 0"),
        ("你好".encode() * 900, "it is text, not audio"),  # 4096 bytes end within a character
        (b"RIFF$\0\0\0WAVEfmt \x10", "FFmpeg: .*; get the file again from where it came"),
    ],
)
def test_what_is_no_recording_is_told_in_words(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "a.wav").write_bytes(data)
    error = fails(Locator(str(tmp_path / "a.wav")))
    assert error.code == "unreadable"
    assert re.match(rf"[^\n]*{words}", error.detail), error.detail


def test_of_an_mp4_without_its_index_the_reader_hears_why(tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    write_m4a(path, tones(48_000))
    path.write_bytes(path.read_bytes()[:-5_000])  # the index comes last
    detail = fails(Locator(str(path))).detail
    assert "(the moov atom) is missing" in detail
    assert "get the file again from where it came from" in detail


def test_a_file_that_may_not_be_read_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had the number of the error and the path a second time."""
    locator = write(tmp_path / "a.wav", tones(100))

    def refuse(path: str, *args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(container, "open", refuse, raising=False)
    assert fails(locator).detail == (
        "it cannot be read (Permission denied); let the account that runs this read it"
    )


@pytest.mark.parametrize("frames", [4, 10, 31, 32, 200])
def test_raw_gsm_needs_no_name(tmp_path: Path, frames: int) -> None:
    """FFmpeg alone recognises it from 32 frames on."""
    raw, path = io.BytesIO(), tmp_path / "prompt"
    sf.write(raw, tones(160 * frames, rate=8000), 8000, "GSM610", format="RAW")
    assert len(raw.getvalue()) == 33 * frames
    path.write_bytes(raw.getvalue())
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks()))
        assert (stream.format, stream.rate, stream.faults) == ("gsm/gsm", 8000, [])
    assert samples.shape == (160 * frames, 1)
    assert 0.1 < np.sqrt(np.mean(samples[160:] ** 2)) < 0.3
    if frames < 200:
        path.write_bytes(raw.getvalue()[:33] + bytes(33) + raw.getvalue()[66:])
        assert frames == 32 or fails(Locator(str(path))).code == "unreadable"


def test_g722_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.g722"
    samples = tones(16_000)
    path.write_bytes(sounding.by_ffmpeg("g722", "g722", 16_000, samples))
    assert path.stat().st_size == 8000
    locator = Locator(str(path), headerless="g722")
    decoded = decode(locator)
    assert decoded.shape == (16_000, 1)
    lag = np.argmax(np.correlate(decoded[200:1200, 0], samples[300:1000, 0]))
    assert np.abs(decoded[200 + lag : 15_000 + lag] - samples[300:15_100]).max() < 0.02
    assert audio.probe(locator).format == "g722/g722"
    assert fails(Locator(str(path))).code == "unreadable"
    # Its content counts where it has one.
    path.write_bytes(b"<!DOCTYPE html>" + bytes(99))
    assert "it is a web page" in fails(locator).detail
    write(tmp_path / "b.wav", samples)
    (tmp_path / "b.wav").rename(path)
    assert audio.probe(locator).format == "wav/pcm_16"


def test_a_file_without_a_header_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.sln"
    path.write_bytes(np.random.default_rng(0).bytes(20_000))
    error = fails(Locator(str(path), headerless="sln"))
    assert error.code == "unreadable"
    assert error.detail == (
        "a .sln file has no header, so nothing states its sample rate and coding; convert it to "
        "WAV, such as with `ffmpeg -f s16le -ar 8000 -i a.sln a.wav` if it is 16-bit PCM of 8 kHz"
    )
    error = fails(Locator(str(path), headerless="alaw"))
    assert error.detail.endswith(
        "`ffmpeg -f alaw -ar 8000 -i a.alaw a.wav` if it is A-law of 8 kHz"
    )


def test_no_samples_and_odd_rates(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.wav", tones(0), subtype="PCM_16")
    assert fails(empty).code == "empty"
    with pytest.raises(ItemError, match="empty"):
        audio.probe(empty)
    for rate in (999, 768_001):
        odd = write(tmp_path / "b.wav", tones(100), rate, subtype="PCM_16")
        assert fails(odd).code == "bad_sample_rate"


def scripts(secret: Path, url: str) -> dict[str, str]:
    """Texts that FFmpeg would follow to another file or address."""
    hls = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n"
    dash = '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet>'
    return {
        "concat": f"ffconcat version 1.0\nfile '{secret}'\n",
        "relative": f"ffconcat version 1.0\nfile {secret.name}\n",
        "concat of a url": f"ffconcat version 1.0\nfile '{url}'\n",
        "m3u8": f"{hls}#EXTINF:1,\n{secret}\n#EXT-X-ENDLIST\n",
        "m3u8 of a url": f"{hls}#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n",
        "m3u8 with a key": f'{hls}#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n#EXTINF:1,\n{secret}\n',
        "m3u8 with a map": f'{hls}#EXT-X-MAP:URI="{url}"\n#EXTINF:1,\nconcat:{secret}|{url}\n',
        "m3u": f"{secret}\n{url}\n",
        "dash": f"<MPD><Period><BaseURL>{secret}</BaseURL></Period></MPD>",
        "dash of a url": f'{dash}<Representation id="1"><BaseURL>{url}</BaseURL>'
        "</Representation></AdaptationSet></Period></MPD>",
        "smooth streaming": f'<SmoothStreamingMedia><StreamIndex Url="{url}"/>',
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n",
        "cue": f'FILE "{secret}" WAVE\n  TRACK 01 AUDIO\n    INDEX 01 00:00:00\n',
        "pls": f"[playlist]\nFile1={url}\nNumberOfEntries=1\n",
        "asx": f'<asx version="3.0"><entry><ref href="{url}"/></entry></asx>',
        "rtsp text": f"[Reference]\nRef1={url}\n",
        "subtitles": f"1\n00:00:00,000 --> 00:00:01,000\n{url}\n",
        "webvtt": f"WEBVTT\n\n00:00.000 --> 00:01.000\n{url}\n",
        "filter graph": f"amovie={secret}",
        "image": f"P6 {secret} 1 1 255 ",
    }  # fmt: skip


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A URL on this machine, and what was asked of its server."""
    with loopback.web(tmp_path) as server:
        yield f"{server.url}/a.wav", server.asked


@pytest.mark.parametrize("kind", scripts(Path("x"), ""))
@pytest.mark.parametrize("extension", ["m4a", "mp4", "wav", "m3u8"])
def test_a_script_cannot_make_ffmpeg_open_files(
    tmp_path: Path,
    kind: str,
    extension: str,
    asked: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "secret.wav", tones(16_000), subtype="PCM_16")
    path = tmp_path / f"song.{extension}"
    path.write_text(scripts(tmp_path / "secret.wav", asked[0])[kind])
    monkeypatch.chdir(tmp_path)
    assert fails(Locator(str(path))).code == "unreadable"
    assert asked[1] == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["url ", "urn ", "alis", "rsrc"])
def test_an_mp4_reads_no_other_file(
    tmp_path: Path, kind: str, asked: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its samples may be said to lie in another file (ISO/IEC 14496-12, 8.7.2)."""
    secret = tmp_path / "secret.wav"
    write(secret, tones(16_000), 8000, subtype="PCM_16")
    monkeypatch.chdir(tmp_path)
    name = secret.name.encode()
    alias = struct.pack(">I4xHHH", 0, 150, 2, 0) + bytes([len(name)]) + name.ljust(63, b"\0")
    alias = alias.ljust(150, b"\0") + struct.pack(">HH", 2, len(str(secret))) + str(secret).encode()
    said = {"alis": alias + struct.pack(">hH", -1, 0), "url ": bytes(4) + asked[0].encode()}
    body = said.get(kind, bytes(4) + f"file://{secret}".encode()) + b"\0"
    path = tmp_path / "a.m4a"
    path.write_bytes(bombs.m4a(reference=struct.pack(">II", 0, 1) + bombs.box(kind.encode(), body)))
    own = tmp_path / "own.m4a"
    own.write_bytes(bombs.m4a())
    with contextlib.suppress(ItemError):  # it may be refused
        np.testing.assert_array_equal(decode(Locator(str(path))), decode(Locator(str(own))))
    assert asked[1] == []


def test_control_ffmpeg_follows_a_script_that_it_may_read(
    tmp_path: Path, asked: tuple[str, list[str]]
) -> None:
    write(tmp_path / "secret.wav", tones(16_000), subtype="PCM_16")
    path = tmp_path / "song.m4a"
    path.write_text(scripts(tmp_path / "secret.wav", asked[0])["concat"])
    with av.open(str(path), format="concat", options={"safe": "0"}) as found:
        assert found.streams.audio[0].rate == 16_000
    path.write_text(scripts(tmp_path / "secret.wav", asked[0])["concat of a url"])
    with pytest.raises(av.FFmpegError):
        av.open(
            str(path), format="concat", options={"safe": "0", "protocol_whitelist": "file,http,tcp"}
        )
    assert asked[1] != []


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xe9.wav"
    source = write(tmp_path / "a.wav", tones(100), subtype="FLOAT")
    os.rename(source.path, path)
    assert len(decode(Locator(os.fsdecode(path)))) == 100


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3"])
def test_a_span_is_exact_in_every_codec(tmp_path: Path, name: str) -> None:
    locator = write(tmp_path / name, tones(150_000, 2))
    whole = decode(locator)
    for start, stop in ((0, 10), (70_001, 140_003), (65_536, 65_537)):
        assert np.array_equal(audio.read_span(locator, start, stop), whole[start:stop])
    with pytest.raises(ItemError):
        audio.read_span(locator, 0, 10**7)


def test_a_member_of_a_tar_is_read_in_place(tmp_path: Path) -> None:
    samples = tones(30_000)
    parts = {"a.flac": write(tmp_path / "a.flac", samples, subtype="PCM_16").path,
             "b.m4a": write_m4a(tmp_path / "b.m4a", samples).path}  # fmt: skip
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for name, path in parts.items():
            tar.add(path, name)
    with tarfile.open(tmp_path / "all.tar") as tar:
        for member in tar:
            plain = Locator(parts[member.name])
            inside = Locator(str(tmp_path / "all.tar"), member.offset_data, member.size)
            assert np.array_equal(decode(inside), decode(plain))
            assert audio.probe(inside) == audio.probe(plain)
            assert audio.digest(inside) == audio.digest(plain)
            assert np.array_equal(
                audio.read_span(inside, 5, 20_000), audio.read_span(plain, 5, 20_000)
            )
    cut = Locator(str(tmp_path / "all.tar"), 10**9, 100)  # beyond the end of the archive
    assert fails(cut).code == "empty"


@pytest.mark.parametrize("plain", [True, False])
def test_a_cell_of_a_parquet_file(tmp_path: Path, plain: bool) -> None:
    clips = [tones(1000 + i) for i in range(5)]
    files = [Path(write(tmp_path / f"{i}.wav", c, subtype="FLOAT").path).read_bytes()
             for i, c in enumerate(clips)]  # fmt: skip
    cells = files if plain else [{"bytes": f, "path": "x"} for f in files]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"sound": [*cells, None]}), path, row_group_size=2)
    for row, clip in enumerate(clips):
        locator = Locator(str(path), row=row, column="sound")
        assert np.array_equal(decode(locator), clip)
        assert audio.digest(locator) == (hashlib.sha256(files[row]).hexdigest(), len(files[row]))
    for row, column in ((5, "sound"), (6, "sound"), (0, "other")):
        assert fails(Locator(str(path), row=row, column=column)).code == "missing"


def test_clips_in_memory_and_lazy_are_alike(tmp_path: Path) -> None:
    samples = tones(200_000, 2)
    locator = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    held = audio.Clip.from_samples(samples[1000:150_000], 16_000)
    lazy = audio.Clip(16_000, 2, 149_000, source=(locator, 1000, 150_000))
    assert held.num_samples == lazy.num_samples == 149_000
    assert np.array_equal(held.samples(), lazy.samples())
    for clip in (held, lazy):
        assert np.array_equal(np.concatenate(list(clip.blocks())), held.samples())
    with pytest.raises(ValueError, match="blocks"):
        audio.Clip(16_000, 2, 601 * 16_000, source=(locator, 0, 601 * 16_000)).samples()


def test_wav_bytes_are_canonical() -> None:
    pcm = np.array([0, 1, -1, 32767, -32768], np.int16)
    data = audio.write_wav_bytes(pcm, 22_050)
    assert len(data) == 44 + 10
    assert audio.write_wav_bytes(pcm, 22_050) == data
    with wave.open(io.BytesIO(data)) as file:
        assert file.getparams()[:4] == (1, 2, 22_050, 5)
        assert file.readframes(5) == pcm.tobytes()


def outcome(locator: Locator) -> float | str:
    """Seconds decoded, or the code."""
    try:
        with audio.open_stream(locator) as stream:
            return sum(len(block) for block in stream.blocks(8192)) / stream.rate
    except ItemError as error:
        return error.code


@pytest.mark.needs("corpus")
@pytest.mark.parametrize("long", [False, tiers.nightly(True)])
def test_every_file_of_the_corpus_decodes_or_has_a_code(long: bool) -> None:
    """By night its long recordings, which are half of its audio."""
    corpus = CORPUS
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        stated = json.loads(line)
        if stated["path"].startswith("long/") != long:
            continue
        found = outcome(Locator(str(corpus / stated["path"])))
        if isinstance(found, str):
            assert found in CODES
            assert stated["seconds"] is None or stated["path"].endswith((".raw", ".flac"))
        else:
            assert stated["seconds"] is None or abs(found - stated["seconds"]) < 0.5


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 5000, 70_001])
def test_crc16_is_that_of_the_bytes_one_by_one(count: int) -> None:
    """CRC-16 of polynomial 8005, reflected, from 0, over any number of whole and broken rows."""
    data = np.random.default_rng(count).bytes(count + 9)
    expected = 0
    for byte in data[4 : 4 + count]:
        expected ^= byte
        for _ in range(8):
            expected = expected >> 1 ^ (0xA001 if expected & 1 else 0)
    assert crc16(io.BytesIO(data), 4, 4 + count) == expected
