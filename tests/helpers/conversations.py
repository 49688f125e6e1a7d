"""Makes conversations with an exact ground truth: speech of several people, joined, overlapped,
with noise.

Speech comes from the corpus's long recording of 137 people and from its speakers with several
clips. Each source utterance is cut at its pauses into pieces of 1 to 8 s; speech is found by level
(20 ms frames within 40 dB of the loudest, gaps below 0.2 s closed). A conversation has random
speakers, turns of one to three pieces with pauses or overlaps between, and noise or music. A
speaker's pieces are repeated once all have been used.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uttermill.tasks.audio import open_stream
from uttermill.tasks.audio.channels import mean
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.recording import Locator
from uttermill.tasks.speech.silero import MonoStream

Floats = NDArray[np.float32]
FRAME = 160  # samples of a frame of truth: 10 ms
QUIETEST = 0.1  # least power of a piece, relative to its utterance; softer ones are breath or room


@dataclass(frozen=True, slots=True)
class Piece:
    """Speech of one person: samples at 16 kHz, and for each 10 ms frame whether there is speech."""

    speaker: str
    samples: Floats
    active: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Asked:
    """Parameters of a conversation; `overlap`: share of turns that begin before the previous one
    ends; `snr`: dB."""

    speakers: int
    seconds: float
    overlap: float = 0.0
    snr: float | None = None
    music: bool = False  # between the turns
    seed: int = 0

    @property
    def name(self) -> str:
        noise = "" if self.snr is None else f", {self.snr:.0f} dB"
        extra = ", music between" if self.music else ""
        return f"{self.speakers} speakers, {self.seconds:.0f} s, {self.overlap:.0%}{noise}{extra}"


@dataclass(frozen=True, slots=True)
class Conversation:
    """Samples at 16 kHz, and who speaks: bool [frames, speakers]."""

    asked: Asked
    samples: Floats
    truth: NDArray[np.bool_]
    speakers: tuple[str, ...]


def decoded(path: Path) -> Floats:
    """A file's channel mean at 16 kHz."""
    with open_stream(Locator(str(path))) as stream:
        audio = MonoStream(stream.rate)
        blocks = [audio.push(mean(block, np.float32)) for block in stream.blocks()]
    return np.concatenate([*blocks, audio.finish()])


def load(corpus: Path, limit: int | None = None) -> dict[str, list[Piece]]:
    """Pieces by speaker, in a fixed order; of the first `limit` speakers of the long recording."""
    found: dict[str, list[Piece]] = {}
    whole = decoded(corpus / "long" / "librispeech_137spk.mp3")
    lines = (corpus / "long" / "librispeech_137spk.segments.jsonl").read_text().splitlines()
    for line in lines[:limit]:
        told = json.loads(line)
        part = whole[int(told["start"] * RATE) : int(told["end"] * RATE)]
        found.setdefault(told["speaker"], []).extend(pieces(told["speaker"], part))
    return found


def clips(corpus: Path) -> dict[str, list[Floats]]:
    """Whole clips of the speakers that have several, by speaker."""
    found: dict[str, list[Floats]] = {}
    for line in (corpus / "manifest.jsonl").read_text().splitlines():
        told = json.loads(line)
        folder = told["path"].split("/")[0]
        if told.get("speaker") and told.get("kind") == "speech" and folder in ("en", "de", "zh"):
            found.setdefault(told["speaker"], []).append(decoded(corpus / told["path"]))
    return {speaker: own for speaker, own in found.items() if len(own) >= 4}


def activity(samples: Floats) -> NDArray[np.bool_]:
    """For each 10 ms frame of clean speech, whether somebody speaks; bool [frames]."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    power = np.convolve(np.square(frames).mean(axis=1), [0.5, 0.5], mode="same")
    active: NDArray[np.bool_] = power > power.max() * 3e-4
    edges = np.flatnonzero(np.diff(np.r_[0, active.astype(np.int8), 0])).reshape(-1, 2)
    for (_, end), (start, _) in pairwise(edges):
        if start - end < 20:
            active[end:start] = True
    return active


def pieces(speaker: str, samples: Floats) -> Iterator[Piece]:
    """An utterance cut at its longest pauses into pieces of 1 to 8 s."""
    active = activity(samples)
    level = np.sqrt(np.square(samples).mean()) or 1.0
    samples = samples / level * np.float32(0.05)
    edges = np.flatnonzero(np.diff(np.r_[0, active.astype(np.int8), 0])).reshape(-1, 2)
    if not len(edges):
        return
    start, end = edges[0]
    spans = []
    for low, high in edges[1:]:
        if high - start > 800 or (end - start > 150 and low - end > 35):
            spans.append((start, end))
            start = low
        end = high
    spans.append((start, end))
    for low, high in spans:
        piece = samples[low * FRAME : high * FRAME]
        if high - low >= 100 and np.square(piece).mean() > QUIETEST * 0.05**2:
            yield Piece(speaker, piece, active[low:high])


def made(asked: Asked, voices: dict[str, list[Piece]], beds: Sequence[Floats]) -> Conversation:
    """The conversation with these parameters and this seed."""
    rng = np.random.default_rng(asked.seed)
    names = sorted(name for name, own in voices.items() if own)
    chosen = [names[i] for i in rng.permutation(len(names))[: asked.speakers]]
    frames = round(asked.seconds * 100)
    samples, truth = np.zeros(frames * FRAME, np.float32), np.zeros((frames, asked.speakers), bool)
    used = dict.fromkeys(chosen, 0)
    gain = {name: 10 ** (rng.uniform(-4, 4) / 20) for name in chosen}
    at, speaker = int(rng.uniform(10, 60)), int(rng.integers(asked.speakers))
    while at < frames:
        own = voices[chosen[speaker]]
        begin = at
        for _ in range(int(rng.integers(1, 4))):
            piece = own[used[chosen[speaker]] % len(own)]
            used[chosen[speaker]] += 1
            size = min(len(piece.active), frames - at)
            low, high = at * FRAME, (at + size) * FRAME
            samples[low:high] += piece.samples[: high - low] * gain[chosen[speaker]]
            truth[at : at + size, speaker] |= piece.active[:size]
            at += size + int(rng.uniform(10, 50))
            if at >= frames:
                break
        others = [s for s in range(asked.speakers) if s != speaker]
        if not others:
            at += int(rng.uniform(20, 150))
            continue
        speaker = others[int(rng.integers(len(others)))]
        if rng.random() < asked.overlap * 5:
            at = max(at - int(rng.uniform(100, 300)), begin + 50)
        else:
            gap = int(rng.uniform(10, 120))
            if asked.music and rng.random() < 0.3 and beds:
                gap = int(rng.uniform(200, 600))
                bed = beds[int(rng.integers(len(beds)))]
                low, high = at * FRAME, min((at + gap - 20) * FRAME, len(samples))
                samples[low:high] += _cycled(bed, max(high - low, 0), rng) * 0.5
            at += gap
    if asked.snr is not None and beds:
        noise = _cycled(beds[int(rng.integers(len(beds)))], len(samples), rng)
        speech = np.square(samples).mean()
        samples = samples + noise * np.sqrt(
            speech / max(float(np.square(noise).mean()), 1e-12) / 10 ** (asked.snr / 10)
        )
    noise = rng.normal(0, 1e-4, len(samples)).astype(np.float32)  # of a room
    return Conversation(asked, (samples + noise).astype(np.float32), truth, tuple(chosen))


def _cycled(bed: Floats, size: int, rng: np.random.Generator) -> Floats:
    start = int(rng.integers(len(bed)))
    level = np.sqrt(np.square(bed).mean()) or 1.0
    return np.resize(np.roll(bed, -start), size) / level * np.float32(0.05)
