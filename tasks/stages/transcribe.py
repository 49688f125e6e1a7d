"""Stage transcribe: PCM in, text out, in batches across the files of a shard.

Four steps: recognise clips, ask models about their texts, align texts with clips, rewrite texts.
Each answers requests of one kind (`shard_store.requests`), in a round for each step that needs the
answers of those before it.

An item is an utterance. Before: a row with its PCM in a blob. After: a row with the text, the
language, the recogniser's own scores, and exact error counts against the source's text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from .. import plugins, scoring, speech
from ..asr import SharedWindow, SpeechClip, Transcript
from ..base.arrays import Float32s
from ..base.errors import shortened
from ..base.schema import TRANSCRIPTS, EnhancedRow, TranscriptRow, WordRow
from ..plugins import gpu
from ..plugins.contracts.asr import AligningBackend, Backend
from ..plugins.contracts.text import Answer, TextVerdict
from ..plugins.served import chat
from ..plugins.served.chat import Written
from ..settings import Plugin, StageSettings
from ..settings.job import Job
from ..shard_store import blobs, shard_view, text_values
from ..shard_store.requests import (
    Alignment,
    Asked,
    Recognition,
    Request,
    Rewriting,
    TextQuestion,
    WindowAudio,
    asks_channels,
)

SCHEMA = TRANSCRIPTS
BATCHED = True
Rows = Iterator[list[TranscriptRow]]


def rounds(job: Job) -> int:
    """One, and one more for each of these in use: clips whose language is overruled by their
    recording's vote; further recognisers, which depend on the first one's results; questions of
    plug-ins on text; word times of sources' texts, if a rule judges them and a language model
    follows; and last the language model, other word times, and turns in own channels."""
    asr = job.transcribe
    votes = asr.language_by != "clip" and asr.backend.use != "none"
    last = asr.llm_text is not None or asr.reference_words or asks_channels(job)
    asks = bool(text_values.asking(asr))
    before_last = asr.llm_text is not None and bool(text_values.rules_on_fit(asr))
    return 1 + votes + bool(asr.backends) + asks + before_last + last


def todo(shard: shard_view.ShardView) -> tuple[list[Request[Any]], int]:
    """What utterances lack in this round, and the number of those that have a transcript. Longest
    windows first (an utterance that shares none is its own window); utterances of one window are
    adjacent."""
    requests: dict[str, Request[Any]] = {}
    reused = 0
    for utterance in shard.transcribed():
        reused += utterance.transcript is not None
        for request in utterance.missing:
            reused += request.recipe in requests  # equal samples are transcribed once
            requests[request.recipe] = request
    return sorted(requests.values(), key=_order), reused


def _order(request: Request[Any]) -> tuple[Any, ...]:
    """The step of a request, and its place in that."""
    asked = request.asked
    place: tuple[Any, ...]
    if isinstance(asked, Recognition):
        window = asked.window
        if window is None:
            place = asked.recogniser, -request.seconds, (), 0
        else:
            place = asked.recogniser, -window.seconds, window.audio, window.place
    elif isinstance(asked, TextQuestion):
        place = asked.plugin.use, asked.question.hears
    elif isinstance(asked, Alignment):
        place = (-request.seconds,)
    else:  # of similar length
        place = ()
    return [*STEPS].index(type(asked)), *place, request.recipe


def compute(units: list[Request[Any]], job: Job) -> Rows:
    """One row per request, in order. PCM is read some minutes at a time."""
    for asked, group in groupby(units, key=lambda request: type(request.asked)):
        yield from STEPS[asked]([*group], job)


def _recognised(requests: list[Request[Recognition]], job: Job) -> Rows:
    for number, group in groupby(requests, key=attrgetter("asked.recogniser")):
        plugin = job.transcribe.recognisers[number]
        backend = backend_of(plugin, job.transcribe.recognisers)
        listens = backend.RATE == speech.RATE and plugins.ASR.load(plugin.use).LISTENS
        most = getattr(backend, "chunk_seconds", CHUNK_SECONDS)
        for chunk in chunks([*group], most):
            spoken = sound_of(chunk, job.out, backend.RATE)
            transcripts = backend.transcribe(spoken)
            for request, clip, transcript in zip(chunk, spoken, transcripts, strict=True):
                yield [_row(request, transcript, clip if listens else None)]


def _answered(requests: list[Request[TextQuestion]], job: Job) -> Rows:
    by_model = groupby(requests, key=lambda one: (one.asked.plugin, one.asked.question.hears))
    for (plugin, hears), group in by_model:
        module, settings = plugins.TEXT.resolve(plugin)
        of_model = [*group]
        if hears:
            answers = _by_ear(of_model, module, settings, job)
        else:
            asked = [(one.asked.question, one.asked.text) for one in of_model]
            answers = module.answer(asked, settings)
        for request, answer in zip(of_model, answers, strict=True):
            text = request.asked.text
            yield [_row_of_answer(request, text, answer.reply, answer.value, answer)]


def _by_ear(
    requests: list[Request[TextQuestion]], module: TextVerdict, settings: StageSettings, job: Job
) -> Iterator[Answer]:
    """The answers of models that get the clips, some minutes of them at a time."""
    for chunk in chunks(requests):
        spoken = sound_of(chunk, job.out, speech.RATE)
        asked = [
            (one.asked.question, one.asked.text, clip.samples)
            for one, clip in zip(chunk, spoken, strict=True)
        ]
        yield from module.answer_by_ear(asked, settings)


def _aligned(requests: list[Request[Alignment]], job: Job) -> Rows:
    backend = backend_of(job.transcribe.backend, job.transcribe.recognisers)
    assert isinstance(backend, AligningBackend)
    for chunk in chunks(requests):
        spoken = sound_of(chunk, job.out, backend.RATE)
        texts = [request.asked.text for request in chunk]
        for request, transcript in zip(chunk, backend.align(spoken, texts), strict=True):
            if transcript.error:
                yield failure(request, "align_error", transcript.error)
                continue
            yield [
                {
                    "transcript": request.recipe,
                    "audio": request.pcm["audio"],
                    "raw_text": transcript.text,
                    "language": transcript.language,
                    "avg_logprob": transcript.avg_logprob,
                    "word_times": [cast(WordRow, asdict(word)) for word in transcript.words or ()],
                }
            ]


def _rewritten(requests: list[Request[Rewriting]], job: Job) -> Rows:
    assert job.transcribe.llm_text is not None
    texts = [(request.asked.text, request.asked.language) for request in requests]
    answers = _writer(job.transcribe.llm_text).write(texts)
    for request, (text, language), answer in zip(requests, texts, answers, strict=True):
        row = _row_of_answer(request, text, answer.answer, answer.text, answer)
        yield [{**row, "language": language or None}]


#: The steps, in order, by what is asked.
STEPS: dict[type[Asked], Callable[[list[Any], Job], Rows]] = {
    Recognition: _recognised,
    TextQuestion: _answered,
    Alignment: _aligned,
    Rewriting: _rewritten,
}


def _row_of_answer(
    request: Request[Any], asked: str, reply: str | None, text: str | None, answer: Written | Answer
) -> TranscriptRow:
    row: TranscriptRow = {
        "transcript": request.recipe,
        "audio": None,  # no recogniser ran
        "raw_text": reply,
        "text": text,
        "reference": asked,
    }
    if answer.reason:
        row["error_code"], row["error_detail"] = answer.reason, shortened(answer.detail)
    return row


#: This worker process's client.
_writer = lru_cache(maxsize=1)(chat.Writer)


def loaded_backend(plugin: Plugin) -> Backend:
    """A recogniser's model, loaded and warmed up. ConfigError as by `Shelf.resolve`."""
    recogniser, settings = plugins.ASR.resolve(plugin)
    if recogniser.wants_gpu(settings):
        gpu.load_libraries()
    backend = recogniser.Backend(settings)
    if hasattr(backend, "warm"):
        backend.warm()
    return backend


#: This worker process's models, by plug-in: not by its JSON, which hides secrets.
_kept: dict[Plugin, Backend] = {}


def backend_of(plugin: Plugin, chosen: Collection[Plugin]) -> Backend:
    """A recogniser's model, loaded once, and kept as long as the settings choose it."""
    for other in _kept.keys() - {*chosen}:
        del _kept[other]
    if plugin not in _kept:
        _kept[plugin] = loaded_backend(plugin)
    return _kept[plugin]


def load(job: Job) -> None:
    backend_of(job.transcribe.backend, job.transcribe.recognisers)


def failure(unit: Request[Any], code: str, detail: str) -> list[TranscriptRow]:
    return [
        {
            "transcript": unit.recipe,
            "audio": unit.pcm["audio"],
            "error_code": code,
            "error_detail": shortened(detail),
        }
    ]


def _row(
    request: Request[Recognition], transcript: Transcript, clip: SpeechClip | None
) -> TranscriptRow:
    if transcript.error:
        return failure(request, "asr_error", transcript.error)[0]
    hole, words = transcript.hole, transcript.words
    spoken = after_text = None  # seconds of detected speech, in the clip and after the last word
    if clip is not None and transcript.text is not None:
        length = len(clip.samples) / speech.RATE
        spoken = speech.within(clip.speech, 0.0, length)
        if transcript.text_end is not None:
            after_text = speech.within(clip.speech, transcript.text_end, length)
    row: TranscriptRow = {
        "transcript": request.recipe,
        "audio": request.pcm["audio"],
        "raw_text": transcript.text,
        "language": transcript.language,
        "language_probability": transcript.language_probability,
        "avg_logprob": transcript.avg_logprob,
        "no_speech_probability": transcript.no_speech_probability,
        "compression_ratio": transcript.compression_ratio,
        "text_probability": transcript.text_probability,
        "detected_language": transcript.detected_language,
        "detected_probability": transcript.detected_probability,
        "speech_seconds": spoken,
        "speech_after_text": after_text,
        "speech_without_words_start": None if hole is None else hole[0],
        "speech_without_words": None if hole is None else hole[1],
        "word_times": None if words is None else [cast(WordRow, asdict(word)) for word in words],
    }
    return scoring.scored(row, request.asked.reference, request.asked.language)


# The clips of requests, for recognisers and models that hear.
#
# In: rows of PCM in blobs. Out: float32 clips at the recogniser's rate, some minutes at a time.


R = TypeVar("R", bound=Request[Any])
CHUNK_SECONDS = 300.0  # audio in memory at once, unless the recogniser wants more


def window_of(request: Request[Any]) -> WindowAudio | None:
    return request.asked.window if isinstance(request.asked, Recognition) else None


def chunks(requests: list[R], most: float = CHUNK_SECONDS) -> Iterator[list[R]]:
    """Requests of about CHUNK_SECONDS, or of `most` if they share windows. A window is not divided:
    it would be recognised twice."""
    chunk: list[R] = []
    total = 0.0
    for (audio, _), group in groupby(requests, key=_place):
        together = list(group)
        seconds = sum(map(attrgetter("seconds"), together))
        if chunk and total + seconds > (most if audio else CHUNK_SECONDS):
            yield chunk
            chunk, total = [], 0.0
        chunk += together
        total += seconds
    if chunk:
        yield chunk


def _place(request: Request[Any]) -> tuple[tuple[str, ...], str]:
    """What requests of one window have in common; others have nothing in common."""
    window = window_of(request)
    return (window.audio, "") if window else ((), request.recipe)


def sound_of(requests: Sequence[Request[Any]], out: Path, rate: int | None) -> list[SpeechClip]:
    """The clip of each request; those in one window have the same `SharedWindow` object."""
    windows: dict[tuple[str, ...], SharedWindow] = {}
    speech_clips = []
    for request in requests:
        window = window_of(request)
        asked = request.asked
        language = None if isinstance(asked, TextQuestion) else asked.language or None
        if rate is None:
            speech_clips.append(SpeechClip(np.zeros(0, np.float32), language))
        elif window is None:
            samples = _samples(request.shard, request.pcm, out, rate)
            speech_clips.append(SpeechClip(samples, language))
        else:
            if window.audio not in windows:
                windows[window.audio] = _window(window, request.shard, out, rate)
            shared = windows[window.audio]
            first, last = shared.bounds[window.place]
            samples = shared.samples[first:last]
            speech_clips.append(SpeechClip(samples, language, shared, window.place))
    return speech_clips


def _window(window: WindowAudio, shard: str, out: Path, rate: int) -> SharedWindow:
    pieces: list[Float32s] = []
    bounds: list[tuple[int, int]] = []
    start = 0
    for row, pause in zip(window.rows, (*window.pauses, 0.0), strict=True):
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
