"""Films: noise as the sound, beside a picture that begins at 0, in containers of many kinds."""

import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from uttermill.tasks import audio
from uttermill.tasks.recording import Locator

RATE = 48_000
FRAMES = 25  # of the picture in a second
SECONDS = 12
CODECS = {"webm": "libopus", "mpg": "mp2", "wtv": "mp2"}  # others: AAC
FORMATS = {"ts": "mpegts", "mkv": "matroska", "mpg": "vob"}

Packets = list[tuple[float, Any]]  # with their times, s


@cache
def noise() -> NDArray[np.float32]:
    """The sound of each film, which correlates with itself in one place only."""
    samples = np.random.default_rng(0).standard_normal(SECONDS * RATE) * 0.05
    return samples.astype(np.float32)


def _sound(stream: Any) -> Packets:
    context = stream.codec_context
    context.open()
    size = context.frame_size
    resampler = av.AudioResampler(context.format, "mono", RATE)
    packets = []
    for start in range(0, SECONDS * RATE - size + 1, size):
        frame = av.AudioFrame.from_ndarray(noise()[None, start : start + size], "fltp", "mono")
        frame.sample_rate, frame.pts = RATE, start
        [ready] = resampler.resample(frame)
        ready.pts = start
        packets += stream.encode(ready)
    packets += stream.encode(None)
    return [(float(packet.pts * packet.time_base), packet) for packet in packets]


def _picture(stream: Any) -> Packets:
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    packets = []
    for number in range(5 * (SECONDS + 6)):
        frame = av.VideoFrame(64, 48, "yuv420p")
        frame.pts = number
        packets += stream.encode(frame)
    return [(float(packet.pts * packet.time_base), packet) for packet in packets]


def made(
    path: Path,
    late: float = 0.0,
    hole: tuple[float, float] | None = None,
    moved: Callable[[int], float] = lambda number: 0.0,
    picture: bool = True,
    options: dict[str, str] | None = None,
) -> Path:
    """A film whose sound begins `late` s after its picture and lacks the packets of the `hole`;
    `moved`: by how many s each packet comes late."""
    kind = path.suffix[1:]
    codecs = {"webm": "libvpx", "flv": "flv", "mpg": "mpeg2video", "wtv": "mpeg2video"}
    with av.open(str(path), "w", format=FORMATS.get(kind, kind), options=options or {}) as film:
        pictures: Any = film.add_stream(codecs.get(kind, "mpeg4"), rate=FRAMES) if picture else None
        sounds: Any = film.add_stream(CODECS.get(kind, "aac"), rate=RATE, layout="mono")
        packets = []
        for number, (time, packet) in enumerate(_sound(sounds)):
            if hole is None or not hole[0] <= time < hole[1]:
                later = round((late + moved(number)) / packet.time_base)
                packet.pts, packet.dts = packet.pts + later, packet.dts + later
                packets.append((time + late, packet))
        packets += _picture(pictures) if picture else []
        for _, packet in sorted(packets, key=lambda timed: timed[0]):
            film.mux(packet)
    return path


def lateness(path: Path, *places: tuple[float, float]) -> tuple[list[float], list[str]]:
    """How late, in s by the file's time, the noise at each place is heard, each (place in the
    noise, right time in the film); and the faults."""
    with audio.open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks()))[:, 0]
        start, faults = stream.header.start, [fault.what for fault in stream.faults]
    late = []
    for place, time in places:
        piece = noise()[round(place * RATE) : round((place + 0.5) * RATE)]
        where = int(np.abs(fftconvolve(samples, piece[::-1], "valid")).argmax())
        late.append(where / RATE + start - time)
    return late, faults


Entry = tuple[float, float]  # length in s; place in the media in s, below 0: nothing is played


def edited(path: Path, *entries: Entry) -> Path:
    """An MP4 with another edit list of its sound; its index has to be its last box."""
    listed = b"".join(
        struct.pack(
            ">IiI", round(1000 * length), -1 if at < 0 else 1024 + round(at * RATE), 0x10000
        )
        for length, at in entries
    )
    edits = struct.pack(">II", 0, len(entries)) + listed
    path.write_bytes(b"".join(_boxes(path.read_bytes(), edits)))
    return path


def _boxes(data: bytes, edits: bytes | None) -> Iterator[bytes]:
    while data:
        size, kind = struct.unpack(">I4s", data[:8])
        body, data = data[8:size], data[size:]
        if kind == b"trak" and b"soun" not in body:
            pass
        elif kind in (b"moov", b"trak", b"edts"):
            body = b"".join(_boxes(body, edits))
        elif kind == b"elst" and edits:
            body = edits
        yield struct.pack(">I4s", len(body) + 8, kind) + body
