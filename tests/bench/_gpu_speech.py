"""Speech for the benchmark of GPUs: real clips with texts, if there are any, and synthetic ones."""

import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from tests.bench import transcribe
from tests.bench.transcribe import Said
from uttermill.flows.demo.corpus import ENGLISH, Line, encode, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks.asr import SpeechClip

RATE = 16_000  # Hz
RECORDING_SECONDS = 600.0
NOISE = 10 ** (-70 / 20)  # of full scale; differs from recording to recording
PAUSES = (0.6, 1.4)  # s, between two clips
#: Extension, subtype, rate in Hz, channels; each other recording.
FORMATS = (("mp3", "MPEG_LAYER_III", 44_100, 2), ("flac", "PCM_16", 16_000, 1))

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Speech:
    """Clips with texts, mono at `RATE`; `kind` says where they come from."""

    kind: str
    said: tuple[Said, ...]


def found(corpus: Path | None, most: int) -> list[Speech]:
    """Real speech of a corpus, and synthetic speech if espeak-ng is installed; at least one of
    them."""
    speeches = []
    if corpus is not None:
        real = transcribe.clips(corpus, "en/librispeech/", most, "en")
        if real:
            speeches.append(Speech("real", tuple(real)))
    if find_spec("espeakng_loader"):
        lines = [Line(text, "en-us", 130 + 2 * n) for n, text in enumerate(ENGLISH[:most])]
        wide = [soxr.resample(voice, VOICE_RATE, RATE, "HQ") for voice in speak(lines)]
        clips = [SpeechClip(voice.astype(np.float32), "en") for voice in wide]
        made = tuple(map(Said, clips, (line.text for line in lines)))
        speeches.append(Speech("made", made))
    return speeches


def write(speeches: Sequence[Speech], folder: Path, seconds: float, workers: int) -> float:
    """Write recordings of these clips in a random order, of about `seconds` in all; returns their
    length. No two have equal samples."""
    folder.mkdir(parents=True)
    each = min(RECORDING_SECONDS, seconds / 4)
    jobs = []
    for number in range(max(4, round(seconds / each))):
        speech = speeches[number % len(speeches)]
        clips = [said.clip.samples for said in speech.said]
        jobs.append((folder, speech.kind, number, clips, each))
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return sum(pool.map(_recording, jobs))


def _recording(job: tuple[Path, str, int, list[Floats], float]) -> float:
    folder, kind, number, clips, seconds = job
    chance = np.random.default_rng([number, zlib.crc32(kind.encode())])
    pieces: list[Floats] = []
    length = 0
    while length < seconds * RATE:
        clip = clips[chance.integers(len(clips))]
        pieces += [clip, np.zeros(round(chance.uniform(*PAUSES) * RATE), np.float32)]
        length += len(clip) + len(pieces[-1])
    extension, subtype, rate, channels = FORMATS[number // 2 % len(FORMATS)]
    samples = np.concatenate(pieces)
    wide = samples if rate == RATE else soxr.resample(samples, RATE, rate, "HQ")
    grid = np.repeat(wide[:, None], channels, axis=1)
    grid = grid + NOISE * chance.standard_normal(grid.shape, np.float32)
    data = encode(np.clip(grid, -1, 1).astype(np.float32), rate, extension, subtype)
    (folder / f"{kind}{number:04d}.{extension}").write_bytes(data)
    return length / RATE
