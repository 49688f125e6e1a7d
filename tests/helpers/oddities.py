"""Odd files that are sound all the same, compared with FFmpeg's own decoder (PyAV, its defaults).

The verdicts:

    same            both decode it, to the same samples; lossy ones to the same sound
    ours right      FFmpeg refuses it, complains or differs; ours are the samples that were written
    refused alike   both refuse it, or FFmpeg complains of what we refuse
    WRONG           refused, complained of, or decoded to something else
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from tests.helpers.sounding import HZ, by_sndfile, flac_frames, sound
from uttermill.tasks import audio
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator

SECONDS = 1.5
FLAC = ("FLAC", "PCM_16")
SAME = 2e-4  # largest difference of two decoders of one codec: an 8-bit or lossy one rounds twice


@dataclass(frozen=True)
class Case:
    kind: str  # format/codec
    what: str
    data: bytes
    written: NDArray[np.float32] | None = None  # what it was made of, at HZ


@dataclass(frozen=True)
class Heard:
    """What a decoder made of a file: samples [n, channels] and rate, or nothing; complaints."""

    samples: NDArray[np.float32] | None
    rate: int
    said: tuple[str, ...]


def ours(data: bytes, path: Path) -> Heard:
    path.write_bytes(data)
    try:
        with audio.open_stream(Locator(str(path))) as stream:
            blocks = list(stream.blocks())
            said = tuple(f"{f.what} at {f.start}" for f in stream.faults)
            return Heard(np.concatenate(blocks), stream.rate, said)
    except ItemError as error:
        return Heard(None, 0, (str(error),))


def ffmpegs(data: bytes) -> Heard:
    """First audio stream, as `ffmpeg -i x -map a:0`: each frame in the first one's form."""
    said: list[str] = []
    blocks: list[NDArray[np.float32]] = []
    form: Any = None
    chain: Any = None
    last: Any = None
    rate = 0
    av.logging.set_level(av.logging.ERROR)
    try:
        with av.logging.Capture() as log, av.open(io.BytesIO(data)) as container:
            opening = len(log)  # what it says of tags
            source: Any = container
            stream = source.streams.audio[0]
            stream.codec_context.thread_count = 1
            packets: Any = source.demux(stream)
            while len(said) < 1000:
                packet = None
                try:
                    packet = next(packets, None)
                    if packet is None:
                        break
                    frames = packet.decode()
                except av.FFmpegError as error:
                    said.append(str(error))
                    if packet is None:
                        break
                    continue
                for frame in frames:
                    if form is None:
                        form, rate = _usual(frame.layout), frame.sample_rate
                    kind = (frame.sample_rate, frame.layout.nb_channels, frame.format.name)
                    if kind != last:
                        blocks += [_floats(f) for f in chain.resample(None)] if last else []
                        chain, last = av.AudioResampler("s16" if last else "flt", form, rate), kind
                    frame.pts = None
                    blocks += [_floats(f) for f in chain.resample(frame)]
            blocks += [_floats(f) for f in chain.resample(None)] if last else []
            said += [words for level, _, words in log[opening:] if level <= av.logging.ERROR]
    except (av.FFmpegError, IndexError, ValueError) as error:
        said.append(str(error) or type(error).__name__)
    finally:
        av.logging.set_level(None)
    blocks = [b for b in blocks if len(b)]
    return Heard(np.concatenate(blocks) if blocks else None, rate, tuple(said))


def _usual(layout: Any) -> str:
    channels = layout.nb_channels
    return ["mono", "stereo"][channels - 1] if channels <= 2 else str(layout.name)


def _floats(frame: Any) -> NDArray[np.float32]:
    """Of flt or s16; FFmpeg keeps the level of a mix only in integers."""
    channels = frame.layout.nb_channels
    kind, full = (np.float32, 1.0) if frame.format.name == "flt" else (np.int16, 32768.0)
    values: Any = np.frombuffer(frame.planes[0], kind, frame.samples * channels)
    with np.errstate(all="ignore"):  # damaged floats
        grid: NDArray[np.float32] = (values.reshape(-1, channels) / full).astype(np.float32)
    return grid


def verdict(case: Case, mine: Heard, theirs: Heard) -> tuple[str, str]:
    """(verdict, what there is to say of it)."""
    told = (*mine.said, *theirs.said, "")[0]
    clean = theirs.samples is not None and not theirs.said
    if mine.samples is not None and not mine.said:
        if clean and _alike(mine.samples, theirs.samples, mine.rate, theirs.rate):
            return "same", ""
        if case.written is not None and (
            _alike(mine.samples, case.written, mine.rate, HZ)
            or _alike(mine.samples, case.written, HZ, HZ)  # a format of one rate
        ):
            return "ours right", told
        shapes = [h.samples.shape if h.samples is not None else None for h in (mine, theirs)]
        return "WRONG", f"{shapes[0]}, FFmpeg {shapes[1]} {told}"
    if mine.samples is None and not clean:
        return "refused alike", told
    return "WRONG", told


def _alike(one: Any, other: Any, rate: int = 0, other_rate: int = 0) -> bool:
    """Whether two decoders delivered the same; at two rates (Opus), or with a codec's padding cut
    off by one alone, whether it sounds the same."""
    if rate == other_rate and one.shape == other.shape:
        if len(one) == 0 or np.abs(one - other).max() <= SAME:
            return True
        if not rate or one.std() == 0 or other.std() == 0:
            return False
        return bool(np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.99)
    if one.shape[1] != other.shape[1] or not rate:
        return False
    seconds = len(one) / rate, len(other) / other_rate
    if abs(seconds[0] - seconds[1]) > 0.12:
        return False
    grid = np.arange(0, min(seconds), 0.01)
    levels = [_levels(s, r, grid) for s, r in ((one, rate), (other, other_rate))]
    return bool(np.abs(levels[0] - levels[1]).mean() < 0.1 * max(levels[0].mean(), 1e-3))


def _levels(samples: NDArray[np.float32], rate: int, grid: Any) -> Any:
    """Level around each time of a grid, of 50 ms."""
    power = np.concatenate([[0.0], np.cumsum((samples**2).mean(axis=1, dtype=np.float64))])
    at = (grid * rate).astype(int)
    end = np.minimum(at + rate // 20, len(samples))
    return np.sqrt((power[end] - power[at]) / np.maximum(end - at, 1))


# The files


def oddities() -> Iterator[Case]:
    """Sound files that are odd and sound all the same."""
    for channels in (1, 2, 3, 5, 6, 7, 8, 12, 16):
        for kind in ("wav/pcm_16", "flac/pcm_16", "caf/float", "ogg/vorbis", "aiff/pcm_24"):
            container, subtype = kind.upper().split("/")
            if container != "FLAC" or channels <= 8:
                samples = sound(HZ, channels, SECONDS)
                yield Case(
                    kind, f"{channels} channels", by_sndfile(container, subtype, HZ, samples)
                )
    for rate in (4_000, 8_000, 11_025, 44_100, 96_000, 192_000, 384_000):
        for kind in ("wav/pcm_16", "flac/pcm_16", "aiff/pcm_16", "w64/float", "ogg/vorbis"):
            container, subtype = kind.upper().split("/")
            if container == "OGG" and rate > 192_000:
                continue
            data = by_sndfile(container, subtype, rate, sound(rate, 1, SECONDS))
            yield Case(kind, f"{rate} Hz", data)
    for bits in (8, 16, 24, 32, 64):
        yield Case("wav", f"{bits}-bit integers", wav_of_bits(bits))
    for count, name in ((0, "no samples"), (1, "one sample")):
        for kind in ("wav/pcm_16", "flac/pcm_16", "ogg/vorbis", "aiff/pcm_16", "au/pcm_16"):
            container, subtype = kind.upper().split("/")
            few = sound(HZ, 1, 1.0)[:count]
            yield Case(kind, name, by_sndfile(container, subtype, HZ, few), written=few)
    pcm = by_sndfile("WAV", "PCM_16", HZ, sound(HZ, 1, SECONDS))
    flac = by_sndfile("FLAC", "PCM_16", HZ, sound(HZ, 1, SECONDS))
    mp3 = by_sndfile("MP3", "MPEG_LAYER_III", HZ, sound(HZ, 1, SECONDS))
    for name, value in (("too short", 1000), ("0", 0), ("streamed", 0xFFFFFFFF)):
        lying = bytearray(pcm)
        struct.pack_into("<I", lying, pcm.find(b"data") + 4, value)
        yield Case("wav", f"data length {name}", bytes(lying))
    for name, frames in (("too short", 9_000), ("unknown", 0), ("2^36", 2**36 - 1)):
        lying = bytearray(flac)
        lying[21] = flac[21] & 0xF0 | frames >> 32
        struct.pack_into(">I", lying, 22, frames & 0xFFFFFFFF)
        yield Case("flac", f"sample count {name}", bytes(lying))
    chunk = b"LIST" + struct.pack("<I", 5000) + bytes(5000)
    at = pcm.find(b"data")
    for name, data in (("before", pcm[:at] + chunk + pcm[at:]), ("after", pcm + chunk)):
        grown = bytearray(data)
        struct.pack_into("<I", grown, 4, len(data) - 8)
        yield Case("wav", f"a chunk {name} the audio", bytes(grown))
    tone = sound(HZ, 1, SECONDS)
    yield Case("wav", "half a frame at the end", pcm[:-1], written=tone[:-1])
    id3 = b"ID3\x03\x00\x00" + bytes([0, 0, 7, 104]) + b"TIT2" + struct.pack(">I", 6) + bytes(992)
    ape = b"APETAGEX" + struct.pack("<IIII", 2000, 32, 0, 0) + bytes(8)
    for kind, data in (("mp3", mp3), ("flac", flac), ("wav", pcm)):
        if kind != "wav":
            yield Case(kind, "ID3v2 in front", id3[:1010] + data, written=tone)
        yield Case(kind, "ID3v1 behind", data + b"TAG" + b"x" * 125, written=tone)
        yield Case(kind, "APE behind", data + ape, written=tone)
        yield Case(kind, "a web page behind", data + b"<html>not found</html>" * 30, written=tone)
    vorbis = [by_sndfile("OGG", "VORBIS", r, sound(r, c, SECONDS))
              for r, c in ((HZ, 1), (HZ, 1), (44_100, 2))]  # fmt: skip
    yield Case("ogg/vorbis", "chained", vorbis[0] + vorbis[1])
    yield Case("mp3", "chained", mp3 + mp3)
    yield Case(
        "flac",
        "frames of another rate behind",
        flac + flac_frames(by_sndfile(*FLAC, 44_100, sound(44_100, 1, SECONDS))),
    )
    yield Case(
        "flac",
        "frames of other channels behind",
        flac + flac_frames(by_sndfile(*FLAC, HZ, sound(HZ, 2, SECONDS))),
    )
    for name in ("a picture", "video and two audio tracks"):
        yield Case("matroska", name, film(2 if "two" in name else 1))


def wav_of_bits(bits: int) -> bytes:
    values = sound(HZ, 1, SECONDS)[:, 0].astype(np.float64) * 2.0 ** (bits - 1)
    wide = np.round(values).astype("<i8")
    if bits == 8:
        data = (wide + 128).astype("u1").tobytes()
    else:
        data = wide.reshape(-1, 1).view("u1")[:, : bits // 8].tobytes()
    width = bits // 8
    form = struct.pack("<IHHIIHH", 16, 1, 1, HZ, HZ * width, width, bits)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def film(tracks: int) -> bytes:
    """Some pictures and audio tracks."""
    memory = io.BytesIO()
    out: Any = av.open(memory, "w", format="matroska")
    with out:
        video = out.add_stream("mjpeg", rate=5)
        video.width, video.height, video.pix_fmt = 64, 48, "yuvj420p"
        sounds = [out.add_stream("pcm_s16le", rate=HZ, layout="mono") for _ in range(tracks)]
        for number in range(5):
            picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 40 * number, np.uint8))
            picture.pts = number
            out.mux(video.encode(picture.reformat(format="yuvj420p")))
        for number, stream in enumerate(sounds):
            pcm = np.round(sound(HZ, 1, SECONDS) * 32767 / (number + 1)).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(pcm.reshape(1, -1), "s16", "mono")
            frame.sample_rate, frame.pts = HZ, 0
            out.mux(stream.encode(frame))
        for stream in (video, *sounds):
            out.mux(stream.encode(None))
    return memory.getvalue()


def judged(case: Case, folder: Path) -> dict[str, str]:
    said, why = verdict(case, ours(case.data, folder / "case"), ffmpegs(case.data))
    return {"kind": case.kind, "what": case.what, "verdict": said, "why": why}
