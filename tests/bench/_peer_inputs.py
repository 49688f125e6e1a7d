"""Inputs of the benchmark of peers, made once from the corpus's speech."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import soxr

from tests.helpers.corpus_speech import RATE, Floats, read, transcribed
from uttermill.flows.demo.corpus import encode

#: Extension, subtype, rate in Hz, channels of the hour's files, in turn.
KINDS = (
    ("mp3", "MPEG_LAYER_III", 44100, 2),
    ("flac", "PCM_16", 48000, 1),
    ("wav", "PCM_16", 44100, 2),
    ("ogg", "VORBIS", 48000, 1),
    ("m4a", "", 44100, 2),
)
HOUR_FILES, HOUR_SECONDS = 240, 15.0
SHORT_FILES, SHORT_SECONDS = 3000, 4.0
JUICER_FILES = 1000
LONG_SECONDS = 3 * 3600.0
APPLIO_FILES, APPLIO_SECONDS = 96, (6.0, 40.0)
BLOCK = 1152 * 100  # samples a time


def made(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The input `name` in `folder`, which is made if it is missing; never incomplete."""
    home = folder / name
    if not home.is_dir():
        building = home.with_suffix(".building")
        building.mkdir(parents=True, exist_ok=True)
        make(building)
        building.rename(home)
    return home


def speech() -> Iterator[Floats]:
    """Transcribed clips of the corpus, mono at 16 kHz, over and over, in a seeded order."""
    corpus = Path(os.environ["UTTERMILL_CORPUS"])
    paths = [
        corpus / row["path"]
        for row in transcribed(corpus)
        if row["path"].startswith(("en/", "de/", "es/", "zh/")) and row["seconds"] > 1
    ]
    clips = [read(path) for path in paths]
    chance = np.random.default_rng(18)
    while True:
        for index in chance.permutation(len(clips)):
            yield clips[index]


class Tape:
    """Endless speech, with pauses of 0.2 to 1.5 s of faint noise between the clips."""

    def __init__(self, seed: int) -> None:
        self._clips, self._chance = speech(), np.random.default_rng(seed)
        self._held = np.zeros(0, np.float32)

    def take(self, count: int) -> Floats:
        """The next samples at 16 kHz."""
        pieces = [self._held]
        while sum(map(len, pieces)) < count:
            pieces.append(next(self._clips))
            pause = int(self._chance.uniform(0.2, 1.5) * RATE)
            pieces.append(self._chance.standard_normal(pause).astype(np.float32) * 3e-4)
        whole = np.concatenate(pieces)
        self._held = whole[count:]
        return whole[:count]


def _write(path: Path, mono: Floats, rate: int, channels: int, subtype: str) -> None:
    samples = soxr.resample(mono, RATE, rate, "HQ") if rate != RATE else mono
    grid = np.stack([np.roll(samples, 13 * channel) for channel in range(channels)], axis=1)
    path.write_bytes(encode(np.clip(grid, -1, 1), rate, path.suffix[1:], subtype))


def hour(files: int = HOUR_FILES) -> Callable[[Path], None]:
    """`files` of 15 s, a fifth of each kind."""

    def make(home: Path) -> None:
        tape = Tape(1)
        for number in range(files):
            extension, subtype, rate, channels = KINDS[number % len(KINDS)]
            mono = tape.take(int(HOUR_SECONDS * RATE))
            _write(home / f"r{number:04d}.{extension}", mono, rate, channels, subtype)

    return make


def short(files: int = SHORT_FILES) -> Callable[[Path], None]:
    """`files` clips of 4 s, FLAC at 16 kHz."""

    def make(home: Path) -> None:
        tape = Tape(2)
        for number in range(files):
            mono = tape.take(int(SHORT_SECONDS * RATE))
            _write(home / f"c{number:05d}.flac", mono, RATE, 1, "PCM_16")

    return make


def long(home: Path) -> None:
    """One MP3 of three hours, 44.1 kHz mono, 96 kbit/s."""
    tape, rate = Tape(3), 44100
    resampler = soxr.ResampleStream(RATE, rate, 1, "float32", "HQ")
    with av.open(home / "long.mp3", "w", container_options={"fflags": "+bitexact"}) as out:
        stream = out.add_stream("mp3", rate=rate, layout="mono", bit_rate=96_000)
        at, left = 0, int(LONG_SECONDS * RATE)
        while left:
            count = min(left, BLOCK)
            left -= count
            samples = resampler.resample_chunk(tape.take(count), last=not left)
            for start in range(0, len(samples), 1152):
                block = np.ascontiguousarray(samples[None, start : start + 1152])
                frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="mono")
                frame.sample_rate, frame.pts = rate, at
                at += block.shape[1]
                out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def voices(home: Path) -> None:
    """96 recordings of 6 to 40 s for Applio, WAV at 44.1 and 48 kHz, with hum and longer pauses."""
    tape, chance = Tape(4), np.random.default_rng(4)
    for number in range(APPLIO_FILES):
        seconds = chance.uniform(*APPLIO_SECONDS)
        mono = tape.take(int(seconds * RATE)).copy()
        for _ in range(int(seconds / 6)):
            at = int(chance.uniform(0, seconds - 1) * RATE)
            mono[at : at + int(chance.uniform(0.3, 2.0) * RATE)] *= 0.002
        time = np.arange(len(mono)) / RATE
        hum = chance.uniform(0, 0.012) * np.sin(2 * np.pi * chance.choice([20, 50]) * time)
        rate = (44100, 48000)[number % 2]
        _write(home / f"v{number:03d}.wav", (mono + hum).astype(np.float32), rate, 1, "PCM_16")


def broken(home: Path) -> None:
    """40 files of the hour's kinds; the eleventh, a FLAC, is noise after its first 200 bytes."""
    hour(40)(home)
    victim = home / "r0011.flac"
    head = victim.read_bytes()[:200]
    victim.write_bytes(head + np.random.default_rng(5).bytes(60_000))
