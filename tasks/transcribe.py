"""Stage transcribe: PCM in, text out, in batches across the files of a shard.

An item is an utterance. Before: a row with its PCM in a blob. After: a row with the text, the
language, the recogniser's own scores, and exact error counts against the source's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from . import plugins, scoring, speech
from .asr import SpeechClip, Transcript
from .base.errors import shortened
from .base.schema import TRANSCRIPTS, TranscriptRow, WordRow
from .plugins import backends
from .plugins.contracts import asr
from .plugins.contracts.asr import AligningBackend, ChunkedBackend
from .plugins.contracts.text import Answer, TextVerdict
from .served import llm_text
from .served.llm_text import Written
from .settings import Plugin, StageSettings
from .settings.job import Job
from .shard_store import (
    llm_answers,
    model_answers,
    own_channels,
    reference_words,
    shard_view,
)
from .shard_store.model_answers import TextRequest
from .shard_store.utterance import FinalUtterance
from .stages.asr_units import CHUNK_SECONDS, Sharing, Unit, chunks, clips, sharing_of

SCHEMA = TRANSCRIPTS
BATCHED = True
LLM_LAST = 1 << 30  # a language model's place in the order of recognisers
ALIGNED = LLM_LAST - 1  # the place of alignments
ASKED = LLM_LAST - 2  # the place of questions of plug-ins on text


def rounds(job: Job) -> int:
    """One, and one more for each of these in use: clips whose language is overruled by their
    recording's vote; further recognisers, which depend on the first one's results; questions of
    plug-ins on text; word times of sources' texts, if a rule judges them and a language model
    follows; and last the language model, other word times, and turns in own channels."""
    asr = job.transcribe
    votes = asr.language_by != "clip" and asr.backend.use != "none"
    last = asr.llm_text is not None or asr.reference_words or own_channels.asked(job)
    asks = bool(model_answers.asking(asr))
    before_last = asr.llm_text is not None and bool(reference_words.rules_on_fit(asr))
    return 1 + votes + bool(asr.backends) + asks + before_last + last


def todo(shard: shard_view.ShardView) -> tuple[list[Unit], int]:
    """Utterances without a transcript, and the number of those with one. Longest windows first (an
    utterance that shares none is its own window); utterances of one window are adjacent."""
    units: dict[str, Unit] = {}
    reused = 0
    for utterance in shard.transcribed():
        reused += utterance.heard.transcript is not None
        for unit in lacking(utterance, shard):
            reused += unit.transcript in units  # equal samples are transcribed once
            units[unit.transcript] = unit
    return sorted(units.values(), key=_order), reused


def lacking(utterance: FinalUtterance, shard: shard_view.ShardView) -> Iterator[Unit]:
    """What an utterance lacks in this round: its transcript, or results that depend on it."""
    pcm = utterance.heard.pcm
    if pcm is None:
        return

    def unit(recipe: str, backend: int = 0, sharing: Sharing | None = None) -> Unit:
        language, reference = utterance.heard.forced, utterance.cut.reference
        return Unit(recipe, pcm, shard.shard, language, reference, sharing, backend)

    if utterance.heard.transcript is None:
        if utterance.outcome.stage == "transcribe":
            cut = utterance.cut
            shared = sharing_of(cut.audio, cut.company, shard.audio)
            yield unit(shard.transcript_recipe(utterance.heard), 0, shared)
        return
    for turn in utterance.unheard:
        assert turn.pcm is not None
        shared = sharing_of(turn.own.audio, turn.own.company, shard.audio)
        yield Unit(turn.recipe, turn.pcm, shard.shard, turn.language, None, shared)
    for request in utterance.unanswered:
        yield Unit(request.recipe, pcm, shard.shard, None, None, question=request)
    if utterance.llm_unanswered and (
        question := llm_answers.request_for(shard.job, utterance.heard)
    ):
        yield Unit(question.recipe, pcm, shard.shard, None, None, request=question)
    if utterance.unaligned and (
        asked := reference_words.request_for(shard.job, shard.weights, utterance.heard)
    ):
        language = asked.language or None
        yield Unit(asked.recipe, asked.pcm, shard.shard, language, asked.text, aligned=True)
    if utterance.heard.missing:
        further = shard.further_recipes(utterance.heard)
        for number in utterance.heard.missing:
            yield unit(further[number], number + 1)


def _order(unit: Unit) -> tuple[int, float, tuple[str, ...], int, str]:
    shared = unit.sharing
    if unit.request is not None:  # of similar length, so in the order of recipes
        return LLM_LAST, 0.0, (), 0, unit.transcript
    if unit.question is not None:
        asks = unit.question
        return ASKED, 0.0, (asks.plugin.use,), int(asks.question.hears), unit.transcript
    if unit.aligned:
        return ALIGNED, -unit.seconds, (), 0, unit.transcript
    if shared is None:
        return unit.backend, -unit.seconds, (), 0, unit.transcript
    return unit.backend, -shared.seconds, shared.audio, shared.place, unit.transcript


def compute(units: list[Unit], job: Job) -> Iterator[list[TranscriptRow]]:
    """One row per unit, in order. PCM is read some minutes at a time."""
    for number, group in groupby(units, key=lambda unit: _order(unit)[0]):
        if number == LLM_LAST:
            yield from _written([*group], job)
        elif number == ALIGNED:
            yield from _aligned([*group], job)
        elif number == ASKED:
            yield from _answered([*group], job)
        else:
            yield from _heard_by(job.transcribe.recognisers[number], [*group], job)


def _written(units: list[Unit], job: Job) -> Iterator[list[TranscriptRow]]:
    """One row per unit, in order, by the language model."""
    assert job.transcribe.llm_text is not None
    questions = [unit.request for unit in units if unit.request]
    answers = _writer(job.transcribe.llm_text).write([(q.text, q.language) for q in questions])
    for unit, question, answer in zip(units, questions, answers, strict=True):
        row = _row_of_answer(unit, question.text, answer.answer, answer.text, answer)
        yield [{**row, "language": question.language or None}]


def _answered(units: list[Unit], job: Job) -> Iterator[list[TranscriptRow]]:
    """One row per unit, in order, by the models of plug-ins on text."""
    asked = [(unit, unit.question) for unit in units if unit.question]
    for (plugin, hears), group in groupby(asked, key=lambda p: (p[1].plugin, p[1].question.hears)):
        module, settings = plugins.TEXT.resolve(plugin)
        of_plugin = [*group]
        if hears:
            answers = _by_ear(of_plugin, module, settings, job)
        else:
            questions = [(request.question, request.text) for _, request in of_plugin]
            answers = module.answer(questions, settings)
        for (unit, request), answer in zip(of_plugin, answers, strict=True):
            yield [_row_of_answer(unit, request.text, answer.reply, answer.value, answer)]


def _by_ear(
    asked: list[tuple[Unit, TextRequest]], module: TextVerdict, settings: StageSettings, job: Job
) -> Iterator[Answer]:
    """The answers of models that get the clips, some minutes of them at a time."""
    requests = iter([request for _, request in asked])
    for chunk in chunks([unit for unit, _ in asked]):
        spoken = clips(chunk, job.out, speech.RATE)
        yield from module.answer_by_ear(
            [
                (request.question, request.text, clip.samples)
                for clip, request in zip(spoken, requests, strict=False)
            ],
            settings,
        )


def _row_of_answer(
    unit: Unit, asked: str, reply: str | None, text: str | None, answer: Written | Answer
) -> TranscriptRow:
    row: TranscriptRow = {
        "transcript": unit.transcript,
        "audio": None,  # no recogniser ran
        "raw_text": reply,
        "text": text,
        "reference": asked,
    }
    if answer.reason:
        row["error_code"], row["error_detail"] = answer.reason, shortened(answer.detail)
    return row


#: This worker process's client.
_writer = lru_cache(maxsize=1)(llm_text.Writer)


def _heard_by(plugin: Plugin, units: list[Unit], job: Job) -> Iterator[list[TranscriptRow]]:
    """One row per unit, in order, by one recogniser."""
    backend = backends.kept(plugin, job.transcribe.recognisers)
    listens = backend.RATE == speech.RATE and plugins.ASR.load(plugin.use).LISTENS
    most = backend.chunk_seconds if isinstance(backend, ChunkedBackend) else CHUNK_SECONDS
    for chunk in chunks(units, most):
        spoken = clips(chunk, job.out, backend.RATE)
        for unit, clip, heard in zip(chunk, spoken, backend.transcribe(spoken), strict=True):
            yield [_row(unit, heard, clip if listens else None)]


def _aligned(units: list[Unit], job: Job) -> Iterator[list[TranscriptRow]]:
    """One row per unit, in order: its text with the time of each word."""
    backend = backends.kept(job.transcribe.backend, job.transcribe.recognisers)
    assert isinstance(backend, AligningBackend)
    for chunk in chunks(units):
        spoken = clips(chunk, job.out, backend.RATE)
        texts = [unit.reference or "" for unit in chunk]
        for unit, heard in zip(chunk, backend.align(spoken, texts), strict=True):
            if heard.error:
                yield failure(unit, "align_error", heard.error)
                continue
            yield [
                {
                    "transcript": unit.transcript,
                    "audio": unit.pcm["audio"],
                    "raw_text": heard.text,
                    "language": heard.language,
                    "avg_logprob": heard.avg_logprob,
                    "word_times": [_word(word) for word in heard.words or ()],
                }
            ]


def load(job: Job) -> None:
    """Load the model now instead of with the first chunk."""
    backends.kept(job.transcribe.backend, job.transcribe.recognisers)


def failure(unit: Unit, code: str, detail: str) -> list[TranscriptRow]:
    return [
        {
            "transcript": unit.transcript,
            "audio": unit.pcm["audio"],
            "error_code": code,
            "error_detail": shortened(detail),
        }
    ]


def _row(unit: Unit, heard: Transcript, clip: SpeechClip | None) -> TranscriptRow:
    if heard.error:
        return failure(unit, "asr_error", heard.error)[0]
    spoken, after_text = _speech(heard, clip)
    row: TranscriptRow = {
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
        "speech_seconds": spoken,
        "speech_after_text": after_text,
        "speech_without_words_start": None if heard.hole is None else heard.hole[0],
        "speech_without_words": None if heard.hole is None else heard.hole[1],
        "word_times": None if heard.words is None else [_word(word) for word in heard.words],
    }
    return scoring.scored(row, unit.reference, unit.language)


def _word(word: asr.Word) -> WordRow:
    return {
        "word": word.word,
        "start": word.start,
        "end": word.end,
        "probability": word.probability,
    }


def _speech(heard: Transcript, clip: SpeechClip | None) -> tuple[float | None, float | None]:
    """Seconds of detected speech, in the clip and after the last word; None: unknown."""
    if clip is None or heard.text is None:
        return None, None
    length = len(clip.samples) / speech.RATE
    after = heard.text_end
    later = None if after is None else speech.within(clip.speech, after, length)
    return speech.within(clip.speech, 0.0, length), later
