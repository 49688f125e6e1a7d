"""Stage transcribe: PCM in, text out, in batches across the files of a shard.

An item is an utterance. Before: a row with its PCM in a blob. After: a row with the text, the
language, the recogniser's own scores, and exact error counts against the source's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks import plugins, scoring, speech
from tasks.asr import SharedWindow, SpeechClip, Transcript
from tasks.checkpoints import blobs, view, written
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.utterance import Utterance
from tasks.checkpoints.written import Asked
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.plugins import backends
from tasks.plugins.contracts.asr import Backend
from tasks.schema import TRANSCRIPTS
from tasks.served import llm_text
from tasks.settings import Plugin
from tasks.settings.servers import LlmText

Samples = NDArray[np.float32]

SCHEMA = TRANSCRIPTS
CHUNK_SECONDS = 300.0  # audio in memory at once
#: A second one for clips whose language the vote of their recording overrules, one more for further
#: recognisers, which are asked by what the first one heard, and one for a language model, which is
#: asked about the texts that they leave.
ROUNDS = 4
BATCHED = True
FAR = 1 << 30  # in the order of recognisers, a language model's place


@dataclass(frozen=True, slots=True)
class Sharing:
    """The window in which an utterance is heard: recipes and rows of the PCM of all that share it
    (None: it could not be made), the silence between them in s, and the utterance's place."""

    audio: tuple[str, ...]
    rows: tuple[Row | None, ...]
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
    pcm: Row
    shard: str
    language: str | None
    reference: str | None
    sharing: Sharing | None = None
    backend: int = 0  # which of the recognisers
    asked: Asked | None = None  # the text that a language model is asked about, and no recogniser

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


def meta(job: Job) -> JsonObject:
    return {}


def todo(shard: view.ShardView) -> tuple[list[Unit], int]:
    """Utterances without a transcript, and how many have one. Longest windows first, of which each
    utterance that shares none is one; utterances of one window follow each other."""
    units: dict[str, Unit] = {}
    reused = 0
    for utterance in shard.decided():
        if utterance.heard is not None:
            reused += 1
            if utterance.unwritten and (question := written.asked(shard.job, utterance)):
                assert utterance.pcm is not None
                reused += question.recipe in units
                units[question.recipe] = Unit(
                    question.recipe, utterance.pcm, shard.shard, None, None, asked=question
                )
            further = shard.further_recipes(utterance) if utterance.missing else ()
            for number in utterance.missing:
                recipe = further[number]
                reused += recipe in units
                assert utterance.pcm is not None
                units[recipe] = Unit(
                    recipe,
                    utterance.pcm,
                    shard.shard,
                    utterance.forced,
                    utterance.reference,
                    backend=number + 1,
                )
        elif utterance.outcome.stage == "transcribe" and utterance.pcm is not None:
            recipe = shard.transcript_recipe(utterance)
            reused += recipe in units  # equal samples are transcribed once
            units[recipe] = Unit(
                recipe,
                utterance.pcm,
                shard.shard,
                utterance.forced,
                utterance.reference,
                _sharing(utterance, shard.audio),
            )
    return sorted(units.values(), key=_order), reused


def _sharing(utterance: Utterance, audio: dict[str, Row]) -> Sharing | None:
    company = utterance.company
    if company is None:
        return None
    rows = (audio.get(recipe) for recipe in company.audio)
    usable = tuple(row if row and not row["error_code"] else None for row in rows)
    place = company.audio.index(utterance.audio)
    return Sharing(company.audio, usable, company.pauses, place)


def _order(unit: Unit) -> tuple[int, float, tuple[str, ...], int, str]:
    shared = unit.sharing
    if unit.asked is not None:  # of about one length, so in the order of recipes
        return FAR, 0.0, (), 0, unit.transcript
    if shared is None:
        return unit.backend, -unit.seconds, (), 0, unit.transcript
    return unit.backend, -shared.seconds, shared.audio, shared.place, unit.transcript


def compute(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """One row per unit, in order. PCM is read in chunks of CHUNK_SECONDS to bound memory."""
    for number, own in groupby(units, key=lambda unit: FAR if unit.asked else unit.backend):
        if number == FAR:
            yield from _written([*own], job)
        else:
            yield from _heard_by(job.transcribe.recognisers[number], [*own], job)


def _written(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """One row per unit, in order, by the language model."""
    assert job.transcribe.llm_text is not None
    questions = [unit.asked for unit in units if unit.asked]
    answers = _writer(job.transcribe.llm_text).write([(q.text, q.language) for q in questions])
    for unit, question, answer in zip(units, questions, answers, strict=True):
        row = failure(unit, answer.reason, answer.detail)[0] if answer.reason else {}
        yield [
            {
                **row,
                "transcript": unit.transcript,
                "audio": None,  # nobody heard anything
                "raw_text": answer.answer,
                "text": answer.text,
                "reference": question.text,
                "language": question.language or None,
            }
        ]


@lru_cache(maxsize=1)
def _writer(settings: LlmText) -> llm_text.Writer:
    """The client of this worker process."""
    return llm_text.Writer(settings)


def _heard_by(plugin: Plugin, units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """One row per unit, in order, by one recogniser."""
    backend = _backend(plugin, job.transcribe.recognisers)
    listens = backend.RATE == speech.RATE and plugins.load("asr", plugin.use).LISTENS
    for chunk in _chunks(units):
        clips = _clips(chunk, job.out, backend.RATE)
        for unit, clip, heard in zip(chunk, clips, backend.transcribe(clips), strict=True):
            yield [_row(unit, heard, clip if listens else None)]


def load(job: Job) -> None:
    """Load the model now instead of with the first chunk."""
    _backend(job.transcribe.backend, job.transcribe.recognisers)


def failure(unit: Unit, code: str, detail: str) -> list[Row]:
    return [
        {
            "transcript": unit.transcript,
            "audio": unit.pcm["audio"],
            "error_code": code,
            "error_detail": detail[:500],
        }
    ]


#: The models of this worker process, by plug-in: not by its JSON, which hides secrets.
_models: dict[Plugin, Backend] = {}


def _backend(plugin: Plugin, chosen: Sequence[Plugin]) -> Backend:
    """The model of a recogniser: loaded and warmed up once, then kept while it is one of those
    that are chosen."""
    for other in _models.keys() - set(chosen):
        del _models[other]
    if plugin not in _models:
        _models[plugin] = backends.loaded(plugin)
    return _models[plugin]


def _chunks(units: list[Unit]) -> Iterator[list[Unit]]:
    """Units of about CHUNK_SECONDS. A window is not divided: it would be heard twice."""
    chunk: list[Unit] = []
    held = 0.0
    for _, group in groupby(units, key=lambda u: u.sharing.audio if u.sharing else u.transcript):
        window = list(group)
        seconds = sum(unit.seconds for unit in window)
        if chunk and held + seconds > CHUNK_SECONDS:
            yield chunk
            chunk, held = [], 0.0
        chunk += window
        held += seconds
    if chunk:
        yield chunk


def _clips(units: list[Unit], out: Path, rate: int | None) -> list[SpeechClip]:
    """A clip of each unit; those of one window have the same object as their window."""
    windows: dict[tuple[str, ...], SharedWindow] = {}
    found = []
    for unit in units:
        shared = unit.sharing
        if rate is None:
            found.append(SpeechClip(np.zeros(0, np.float32), unit.language))
        elif shared is None:
            found.append(SpeechClip(_samples(unit.shard, unit.pcm, out, rate), unit.language))
        else:
            if shared.audio not in windows:
                windows[shared.audio] = _window(shared, unit.shard, out, rate)
            window = windows[shared.audio]
            first, last = window.bounds[shared.place]
            own = window.samples[first:last]
            found.append(SpeechClip(own, unit.language, window, shared.place))
    return found


def _window(shared: Sharing, shard: str, out: Path, rate: int) -> SharedWindow:
    pieces: list[Samples] = []
    bounds: list[tuple[int, int]] = []
    at = 0
    for row, pause in zip(shared.rows, (*shared.pauses, 0.0), strict=True):
        samples = np.zeros(0, np.float32) if row is None else _samples(shard, row, out, rate)
        bounds.append((at, at + len(samples)))
        pieces += [samples, np.zeros(round(pause * rate), np.float32)]
        at += len(pieces[-2]) + len(pieces[-1])
    return SharedWindow(np.concatenate(pieces), tuple(bounds))


def _samples(shard: str, row: Row, out: Path, rate: int) -> Samples:
    """PCM of a row as float32 [n] at `rate` Hz."""
    samples = blobs.read(out, shard, row).astype(np.float32) / np.float32(32768.0)
    if row["rate"] != rate:
        import soxr  # imported and warmed by tasks.preload before the first task

        samples = soxr.resample(samples, row["rate"], rate, quality="HQ")
    return samples


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
