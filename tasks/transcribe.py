"""Stage transcribe: PCM in, text out, in batches across the files of a shard.

An item is an utterance. Before: a row with its PCM in a blob. After: a row with the text, the
language, the recogniser's own scores, and exact error counts against the source's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tasks import plugins, scoring, speech
from tasks.asr import SpeechClip, Transcript
from tasks.checkpoints import blobs, texts, view
from tasks.checkpoints.manifest import Row
from tasks.job import Job
from tasks.plugins import gpu
from tasks.plugins.contracts.asr import Backend, WarmedBackend
from tasks.schema import TRANSCRIPTS
from tasks.settings import Plugin

SCHEMA = TRANSCRIPTS
CHUNK_SECONDS = 300.0  # audio in memory at once
ROUNDS = 2  # a second one for clips whose language the vote of their recording overrules
BATCHED = True


@dataclass(frozen=True, slots=True)
class Unit:
    """One utterance to transcribe: its PCM row, the recipe of its transcript, its reference."""

    transcript: str
    pcm: Row
    shard: str
    language: str | None
    reference: str | None

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


def meta(job: Job) -> dict[str, Any]:
    return {}


def todo(shard: view.ShardView) -> tuple[list[Unit], int]:
    """Utterances without a transcript, longest first, and how many have one."""
    units: dict[str, Unit] = {}
    reused = 0
    for utterance in shard.decided():
        if utterance.heard is not None:
            reused += 1
        elif utterance.outcome.stage == "transcribe" and utterance.pcm is not None:
            recipe = shard.transcript_recipe(utterance)
            reused += recipe in units  # equal samples are transcribed once
            units[recipe] = Unit(
                recipe, utterance.pcm, shard.shard, utterance.forced, utterance.reference
            )
    ordered = sorted(units.values(), key=lambda u: (-u.pcm["num_samples"], u.transcript))
    return ordered, reused


def compute(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """One row per unit, in order. PCM is read in chunks of CHUNK_SECONDS to bound memory."""
    backend = _backend(job.transcribe.backend)
    listens = backend.RATE == speech.RATE and texts.listens(job)
    for chunk in _chunks(units):
        clips = [_clip(unit, job.out, backend.RATE) for unit in chunk]
        for unit, clip, heard in zip(chunk, clips, backend.transcribe(clips), strict=True):
            yield [_row(unit, heard, clip if listens else None)]


def load(job: Job) -> None:
    """Load the model now instead of with the first chunk."""
    _backend(job.transcribe.backend)


def failure(unit: Unit, code: str, detail: str) -> list[Row]:
    return [
        {
            "transcript": unit.transcript,
            "audio": unit.pcm["audio"],
            "error_code": code,
            "error_detail": detail[:500],
        }
    ]


@lru_cache(maxsize=1)
def _backend(plugin: Plugin) -> Backend:  # not its JSON, which hides secrets
    """The model of this worker process: loaded and warmed up once, then kept."""
    recogniser, settings = plugins.resolve("asr", plugin)
    if recogniser.wants_gpu(settings):
        gpu.load_libraries()
    backend = recogniser.Backend(settings)
    if isinstance(backend, WarmedBackend):
        backend.warm()
    return backend


def _chunks(units: list[Unit]) -> Iterator[list[Unit]]:
    chunk: list[Unit] = []
    held = 0.0
    for unit in units:
        if chunk and held + unit.seconds > CHUNK_SECONDS:
            yield chunk
            chunk, held = [], 0.0
        chunk.append(unit)
        held += unit.seconds
    if chunk:
        yield chunk


def _clip(unit: Unit, out: Path, rate: int | None) -> SpeechClip:
    if rate is None:
        return SpeechClip(np.zeros(0, np.float32), unit.language)
    samples = blobs.read(out, unit.shard, unit.pcm).astype(np.float32) / np.float32(32768.0)
    if unit.pcm["rate"] != rate:
        import soxr  # imported and warmed by tasks.preload before the first task

        samples = soxr.resample(samples, unit.pcm["rate"], rate, quality="HQ")
    return SpeechClip(samples, unit.language)


def _row(unit: Unit, heard: Transcript, clip: SpeechClip | None) -> Row:
    if heard.error:
        return failure(unit, "asr_error", heard.error)[0]
    row: Row = {
        "transcript": unit.transcript,
        "audio": unit.pcm["audio"],
        "raw_text": heard.text,
        "language": heard.language,
        "language_probability": heard.language_probability,
        "avg_logprob": heard.avg_logprob,
        "no_speech_probability": heard.no_speech_probability,
        "compression_ratio": heard.compression_ratio,
        "detected_language": heard.detected_language,
        "detected_probability": heard.detected_probability,
        **_speech(heard, clip),
        "word_times": None if heard.words is None else [asdict(word) for word in heard.words],
    }
    return scoring.scored(row, unit.reference, unit.language)


def _speech(heard: Transcript, clip: SpeechClip | None) -> Row:
    """Seconds of detected speech, in the clip and after the last word; None: unknown."""
    if clip is None or heard.text is None:
        return {"speech_seconds": None, "speech_after_text": None}
    length = len(clip.samples) / speech.RATE
    after = heard.text_end
    return {
        "speech_seconds": speech.within(clip.speech, 0.0, length),
        "speech_after_text": None if after is None else speech.within(clip.speech, after, length),
    }
