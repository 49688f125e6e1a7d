"""Speaks lines with espeak-ng, in a child process; returns samples."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...tasks import storage
from ...tasks.base import environment
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.speech import espeak
from ...tasks.storage import write_atomic

RATE = espeak.RATE
SCALE = np.float32(32768)  # of int16

Samples = NDArray[np.float32]  # (frames,) or (frames, channels), -1..1
VERSION = 2
MARKER = ".uttermill-demo"
OWN = {MARKER, "sentences", "sentences.jsonl", "long", "odds"}
LONG_SECONDS = 300
ROOM_RMS = 0.001  # of full scale
#: Settings of `uttermill demo` beside the defaults; they drop its German sentences.
DEMO_SETTINGS: JsonObject = {
    "transcribe": {
        "verdicts": [{"use": "empty_text"}, {"use": "language", "allowed": ["en", "es"]}]
    }
}
_TEXTS = (
    files("uttermill.flows.demo").joinpath("sentences.txt").read_text("utf-8").strip().split("\n\n")
)
#: Sentences written for the corpus, without digits or names. The Spanish ones are longer: Whisper
#: needs more of a synthetic Spanish voice to be sure of it. The story is for the long recording.
ENGLISH, SPANISH, GERMAN, STORY = (tuple(text.split("\n")) for text in _TEXTS)
#: Voice and pitch: of those tried, the ones that Whisper base transcribes best.
VOICES = {
    "en": (("en-us", 50), ("en-us+f2", 55), ("en", 45), ("en-us+m3", 40), ("en-us+f3", 60)),
    "es": (("es-419+m3", 45), ("es+m3", 45), ("es-419+m3", 55)),
    "de": (("de", 50), ("de+m3", 45)),
}
SPEEDS = (140, 155, 130, 165, 148)
#: Extension, libsndfile subtype, rate in Hz, channels; sentences take them in turn.
FORMATS = (
    ("wav", "PCM_16", 16000, 1),
    ("flac", "PCM_16", 22050, 1),
    ("mp3", "MPEG_LAYER_III", 44100, 1),
    ("wav", "PCM_24", 48000, 2),
    ("ogg", "VORBIS", 44100, 1),
    ("m4a", "", 44100, 1),
    ("wav", "FLOAT", 22050, 1),
    ("flac", "PCM_24", 48000, 2),
    ("wav", "PCM_16", 8000, 1),
    ("mp3", "MPEG_LAYER_III", 22050, 2),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance for espeak-ng; speed in words a minute, pitch 0..99."""

    text: str
    voice: str
    speed: int
    pitch: int = 50


def speak(lines: list[Line]) -> list[Samples]:
    """Samples of each line, mono at RATE; ConfigError without espeak-ng."""
    if find_spec("espeakng_loader") is None:
        raise ConfigError("the demo needs a voice: pip install 'uttermill[demo]'")
    child = subprocess.run(
        environment.python(espeak.__file__, "speak"),
        env=environment.of_child(),
        input=json.dumps([asdict(line) for line in lines]).encode(),
        capture_output=True,
        check=False,
    )
    if child.returncode:
        reason = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ConfigError(
            f"espeak-ng cannot speak ({reason or f'exit {child.returncode}'}): pip install "
            "--force-reinstall espeakng-loader"
        )
    clips: list[Samples] = []
    rest = memoryview(child.stdout)
    for _ in lines:
        size = int.from_bytes(rest[:8], "little")
        clips.append(np.frombuffer(rest[8 : 8 + size], np.dtype("<i2")).astype(np.float32) / SCALE)
        rest = rest[8 + size :]
    return clips


def make_corpus(folder: Path) -> list[JsonObject]:
    """Make the corpus unless it exists; returns the settings `sources`."""
    if not _is_made(folder):
        for name, data in chain(_files(), [(MARKER, json.dumps({"version": VERSION}).encode())]):
            path = folder / name  # an identical file keeps its time
            if not path.is_file() or path.read_bytes() != data:
                write_atomic(path, data)
    return [
        {"kind": "jsonl", "path": str(folder / "sentences.jsonl"), "name": "sentences"},
        {"kind": "folder", "path": str(folder / "long"), "name": "long"},
        {"kind": "folder", "path": str(folder / "odds"), "name": "odds", "expect_broken": True},
    ]


def _is_made(folder: Path) -> bool:
    """Whether the corpus is there; ConfigError for a folder that holds other things."""
    with suppress(OSError, ValueError, AttributeError):
        if json.loads(storage.read(folder / MARKER)).get("version") == VERSION:
            return True
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted(set(os.listdir(folder)) - OWN)
    except OSError as error:
        why = f"the demo corpus cannot be made in {folder}: {error.strerror}"
        raise ConfigError(why) from error
    if foreign:
        raise ConfigError(
            f"{folder} holds other things ({foreign[0]!r}); give the demo an empty folder"
        )
    return False


def sentences() -> list[tuple[str, Line]]:
    """Language and line of each sentence; voices and speeds change along the list."""
    texts = {"en": ENGLISH, "es": SPANISH, "de": GERMAN}
    lines = []
    for language, spoken in texts.items():
        for i, text in enumerate(spoken):
            voice, pitch = VOICES[language][i % len(VOICES[language])]
            lines.append((language, Line(text, voice, SPEEDS[i % len(SPEEDS)], pitch)))
    return lines


def _files() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file of the corpus."""
    spoken = sentences()
    story = [  # enough for five minutes: each voice reads the whole story in turn
        Line(text, voice, speed, pitch)
        for (voice, pitch), speed in zip(VOICES["en"], SPEEDS, strict=True)
        for text in STORY
    ]
    voices = speak([line for _, line in spoken] + story)
    entries = []
    for i, ((language, line), samples) in enumerate(zip(spoken, voices, strict=False)):
        extension, subtype, rate, channels = FORMATS[i % len(FORMATS)]
        name = f"sentences/{language}/{i:03d}.{extension}"
        yield name, encode(_shaped(samples, rate, channels), rate, extension, subtype)
        entries.append({"audio_filepath": name, "text": line.text, "speaker": line.voice})
    lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    yield "sentences.jsonl", "".join(lines).encode()
    long = _with_pauses(voices[len(spoken) :])
    yield "long/lighthouse.mp3", encode(long, RATE, "mp3", "MPEG_LAYER_III")
    for name, data in _odds(voices):
        yield f"odds/{name}", data


def _shaped(samples: Samples, rate: int, channels: int) -> Samples:
    """Add room noise and resample; as stereo, the right channel is half as loud."""
    import soxr

    # Without noise Whisper more often detects Thai.
    room = np.random.Generator(np.random.PCG64(3)).normal(0, ROOM_RMS, len(samples))
    heard = (samples + room).astype(np.float32)
    out: Samples = np.asarray(soxr.resample(heard, RATE, rate, "HQ"), np.float32)
    out = np.clip(out, -1.0, 1.0)
    return out if channels == 1 else np.stack([out, out / 2], axis=1)


def _with_pauses(voices: list[Samples]) -> Samples:
    """Five minutes: pauses of 0.3 to 1.2 s between sentences, and of 5 s after every twelfth."""
    pauses = np.random.Generator(np.random.PCG64(7)).uniform(0.3, 1.2, len(voices))
    parts = []
    for i, (voice, pause) in enumerate(zip(voices, pauses, strict=True)):
        seconds = 5.0 if i % 12 == 11 else float(pause)
        parts += [voice, np.zeros(round(seconds * RATE), np.float32)]
    return np.concatenate(parts)[: LONG_SECONDS * RATE]


def _odds(voices: list[Samples]) -> Iterator[tuple[str, bytes]]:
    """What real folders hold besides good speech, made of the first four sentences."""
    chance = np.random.Generator(np.random.PCG64(11))
    noise = chance.normal(0.0, 0.1, 10 * 16000).astype(np.float32).clip(-1, 1)
    speech = _shaped(voices[0], 16000, 1)
    clipped = np.clip(speech * 12, -1, 1)
    apart = _shaped(voices[1], 44100, 2)
    apart[:, 1] = -apart[:, 0]  # the mean of both channels is silence
    good = encode(_shaped(voices[2], 16000, 1), 16000, "flac", "PCM_16")
    holed = speech.copy()
    holed[5000:5100] = np.nan
    yield "noise.wav", encode(noise, 16000, "wav", "PCM_16")
    yield "silence.wav", encode(np.zeros(5 * 16000, np.float32), 16000, "wav", "PCM_16")
    yield "clipped.wav", encode(clipped, 16000, "wav", "PCM_16")
    yield "opposite_channels.flac", encode(apart, 44100, "flac", "PCM_16")
    yield "video.mp4", encode(_shaped(voices[3], 48000, 2), 48000, "mp4", "")
    yield "empty.wav", b""
    yield "truncated.flac", good[: len(good) // 2]
    yield "page.wav", b"<!DOCTYPE html><html><body><h1>404 Not Found</h1></body></html>\n"
    yield "not_a_number.wav", encode(holed, 16000, "wav", "FLOAT")
    yield "no_frames.wav", encode(np.zeros(0, np.float32), 16000, "wav", "PCM_16")
    # Bytes below 0xFF contain no MPEG frame header.
    yield "garbage.mp3", chance.integers(0, 255, 20000, np.uint8).tobytes()


def encode(samples: Samples, rate: int, extension: str, subtype: str) -> bytes:
    """A whole audio file, which depends neither on the clock nor on chance."""
    buffer = io.BytesIO()
    if extension in ("m4a", "mp4"):
        _aac(buffer, samples, rate)
    elif subtype == "FLOAT":
        from scipy.io import wavfile  # libsndfile writes the time into float files

        wavfile.write(buffer, rate, samples)
    else:
        import soundfile

        soundfile.write(buffer, samples, rate, subtype, format=extension.upper())
    return _renumbered(buffer.getvalue()) if extension == "ogg" else buffer.getvalue()


def _aac(buffer: io.BytesIO, samples: Samples, rate: int) -> None:
    import av

    planes = np.atleast_2d(samples.T)
    layout = "mono" if len(planes) == 1 else "stereo"
    with av.open(buffer, "w", format="mp4", container_options={"fflags": "+bitexact"}) as out:
        stream = out.add_stream("aac", rate=rate, layout=layout)
        for start in range(0, planes.shape[1], 1024):
            block = np.ascontiguousarray(planes[:, start : start + 1024])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=layout)
            frame.sample_rate = rate
            frame.pts = start
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def _renumbered(ogg: bytes) -> bytes:
    """The same packets with a fixed stream number: libsndfile chooses one at random."""
    import av

    buffer = io.BytesIO()
    options = {"fflags": "+bitexact"}
    with (
        av.open(io.BytesIO(ogg), "r") as source,
        av.open(buffer, "w", format="ogg", container_options=options) as out,
    ):
        stream = out.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.dts is not None:  # the last one only marks the end
                packet.stream = stream
                out.mux(packet)
    return buffer.getvalue()
