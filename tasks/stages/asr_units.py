"""Utterances that lack a transcript, and their clips for recognisers.

In: rows of PCM in blobs. Out: float32 clips at the recogniser's rate, some minutes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from ..asr import SharedWindow, SpeechClip
from ..base.arrays import Float32s
from ..base.schema import EnhancedRow
from ..shard_store import blobs
from ..shard_store.llm_answers import ModelRequest
from ..shard_store.model_answers import TextRequest
from ..shard_store.shared_windows import Company

CHUNK_SECONDS = 300.0  # audio in memory at once, unless the recogniser wants more


@dataclass(frozen=True, slots=True)
class Sharing:
    """The window in which an utterance is recognised: recipes and rows of the PCM of all that share
    it (None: it could not be made), the silence between them in s, and the utterance's place."""

    audio: tuple[str, ...]
    rows: tuple[EnhancedRow | None, ...]
    pauses: tuple[float, ...]
    place: int

    @property
    def seconds(self) -> float:
        audio = sum(row["num_samples"] / row["rate"] for row in self.rows if row)
        return float(audio + sum(self.pauses))


@dataclass(frozen=True, slots=True)
class Unit:
    """One utterance to transcribe: its PCM row, the recipe of its transcript, its reference."""

    transcript: str
    pcm: EnhancedRow
    shard: str
    language: str | None
    reference: str | None
    sharing: Sharing | None = None
    backend: int = 0  # which of the recognisers
    request: ModelRequest | None = None  # for a language model, without a recogniser
    question: TextRequest | None = None  # of a plug-in on text, also without a recogniser
    aligned: bool = False  # only find the times of the reference's words

    @property
    def name(self) -> str:
        return f"{self.pcm['recording']} {self.pcm['start']}-{self.pcm['end']}"

    @property
    def recording_name(self) -> str:
        return str(self.pcm["recording"])

    @property
    def items(self) -> int:
        return 1

    @property
    def seconds(self) -> float:
        return float(self.pcm["num_samples"] / self.pcm["rate"])


def sharing_of(
    recipe: str, company: Company | None, audio: dict[str, EnhancedRow]
) -> Sharing | None:
    """The window that the PCM of this recipe shares with others; `audio`: the shard's PCM rows by
    recipe."""
    if company is None:
        return None
    rows = (audio.get(member) for member in company.audio)
    usable = tuple(row if row and not row["error_code"] else None for row in rows)
    place = company.audio.index(recipe)
    return Sharing(company.audio, usable, company.pauses, place)


def chunks(units: list[Unit], most: float = CHUNK_SECONDS) -> Iterator[list[Unit]]:
    """Units of about CHUNK_SECONDS, or of `most` if they share windows. A window is not divided: it
    would be recognised twice."""
    chunk: list[Unit] = []
    total = 0.0
    for _, group in groupby(units, key=lambda u: u.sharing.audio if u.sharing else u.transcript):
        window = list(group)
        seconds = sum(unit.seconds for unit in window)
        limit = most if window[0].sharing else CHUNK_SECONDS
        if chunk and total + seconds > limit:
            yield chunk
            chunk, total = [], 0.0
        chunk += window
        total += seconds
    if chunk:
        yield chunk


def clips(units: list[Unit], out: Path, rate: int | None) -> list[SpeechClip]:
    """A clip of each unit; those in one window have the same `SharedWindow` object."""
    windows: dict[tuple[str, ...], SharedWindow] = {}
    speech_clips = []
    for unit in units:
        shared = unit.sharing
        if rate is None:
            speech_clips.append(SpeechClip(np.zeros(0, np.float32), unit.language))
        elif shared is None:
            speech_clips.append(
                SpeechClip(_samples(unit.shard, unit.pcm, out, rate), unit.language)
            )
        else:
            if shared.audio not in windows:
                windows[shared.audio] = _window(shared, unit.shard, out, rate)
            window = windows[shared.audio]
            first, last = window.bounds[shared.place]
            samples = window.samples[first:last]
            speech_clips.append(SpeechClip(samples, unit.language, window, shared.place))
    return speech_clips


def _window(shared: Sharing, shard: str, out: Path, rate: int) -> SharedWindow:
    pieces: list[Float32s] = []
    bounds: list[tuple[int, int]] = []
    start = 0
    for row, pause in zip(shared.rows, (*shared.pauses, 0.0), strict=True):
        samples = np.zeros(0, np.float32) if row is None else _samples(shard, row, out, rate)
        bounds.append((start, start + len(samples)))
        pieces += [samples, np.zeros(round(pause * rate), np.float32)]
        start += len(pieces[-2]) + len(pieces[-1])
    return SharedWindow(np.concatenate(pieces), tuple(bounds))


def _samples(shard: str, row: EnhancedRow, out: Path, rate: int) -> Float32s:
    """PCM of a row as float32 [n] at `rate` Hz."""
    samples = blobs.read(out, shard, row).astype(np.float32) / np.float32(32768.0)
    if row["rate"] != rate:
        import soxr  # imported and warmed by uttermill.tasks.preload before the first task

        samples = soxr.resample(samples, row["rate"], rate, quality="HQ")
    return samples
