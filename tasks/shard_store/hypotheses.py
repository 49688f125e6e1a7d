"""Looks up transcripts: the first recogniser's, in the language of most of its recording's speech,
and those of further recognisers; decides which of these run, and which text results.

Each hypothesis is a transcript with its own recipe, as if its recogniser were the only one: adding
a recogniser computes only that one. A further recogniser transcribes each utterance by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from .. import scoring
from ..base.schema import AnyRow, MeasureValue, TranscriptRow
from ..settings import TranscribeSettings
from ..settings.job import Job, Spoken
from .utterance import SURER, Utterance, is_doubtful, is_surer, more_probable, vote_of

#: The filter whose label and measure vote with `transcribe.language_by: sound`.
BY_SOUND = ("audio_language", "audio_language_probability")
#: The transcript in the language that the recogniser is told, with its errors counted.
Lookup = Callable[[Utterance], TranscriptRow | None]


def asked(
    settings: TranscribeSettings, heard: AnyRow, measures: Mapping[str, MeasureValue]
) -> bool:
    """Whether further recognisers transcribe an utterance: each of the first one's scores in `when`
    is unknown or within its limits, or a measure of `also_when` is within them."""
    for column, limits in settings.also_when.items():
        measure = measures.get(column)
        if isinstance(measure, float) and limits.holds(measure):
            return True
    for column, limits in settings.when.items():
        value = heard.get(column)
        if isinstance(value, int | float) and not limits.holds(float(value)):
            return False
    return bool(settings.when or not settings.also_when)


def texts(utterance: Utterance) -> list[tuple[str, str]]:
    """(text, normalised) of every recogniser with a transcript, the first one's first."""
    rows = [row for row in (utterance.transcript, *utterance.others) if row]
    pairs = ((row["text"], row["normalised"]) for row in rows)
    return [(text, normalised or "") for text, normalised in pairs if text is not None]


def spoken(job: Job, utterance: Utterance) -> str | None:
    """The recognised text by `transcribe.asr`; None if no recogniser ran."""
    first = utterance.transcript.get("text") if utterance.transcript else None
    if job.transcribe.asr == "first" or not utterance.others or first is None:
        return first
    from ..scoring import agreement  # imported late: only several recognisers need it

    heard = texts(utterance)
    if job.transcribe.asr == "medoid":
        return heard[agreement.medoid([normalised for _, normalised in heard])][0]
    return agreement.rover([text for text, _ in heard]).text


def compared(utterance: Utterance, text: str) -> str | None:
    for written, normalised in texts(utterance):
        if written == text:
            return normalised
    heard = utterance.transcript["language"] if utterance.transcript else None
    language = scoring.language_of(utterance.language, utterance.reference, heard)
    return scoring.normalise(text, language)


def hear(utterances: Sequence[Utterance], lookup: Lookup, by: str, spoken: Spoken) -> None:
    """Looks up the transcripts of the utterances of one recording, and, unless `by` is clip, sets
    `vote` and `voted`. `by`: `transcribe.language_by`; `spoken`: the languages of sources.

    The vote is taken once every clip has a transcript, so it does not depend on their order. Clips
    that it overrules get the transcript in the recording's language, or None until there is one;
    their own, if it is surer. Where a recording has no language, so do doubtful clips in the
    source's.
    """
    sound: list[tuple[Utterance, TranscriptRow]] = []
    heard = 0
    for utterance in utterances:
        utterance.transcript = row = lookup(utterance)
        heard += row is not None
        if row is not None and not row["error_code"]:
            sound.append((utterance, row))
    if by == "clip" or heard < len(utterances) or not sound:
        return
    voters = [(_voter(one, row) if by == "sound" else row) for one, row in sound]
    vote = vote_of(zip(voters, (one.seconds for one, _ in sound), strict=True))
    for (utterance, row), voter in zip(sound, voters, strict=True):
        utterance.vote = vote
        if utterance.language:
            continue
        if vote is not None and vote.language is not None:
            if vote.overrules(row, utterance.seconds, voter):
                _hear_in(vote.language, utterance, row, lookup, SURER)
        elif by == "recording":
            languages = spoken.get(utterance.recording["dataset"], [])
            if is_doubtful(row, languages):  # other recordings say less of a clip than its own
                _hear_in(languages[0], utterance, row, lookup, 0.0)


def _voter(utterance: Utterance, row: TranscriptRow) -> TranscriptRow:
    """The row with the language of the filter audio_language in place of the recogniser's."""
    language, probability = (utterance.measures.get(name) for name in BY_SOUND)
    voter: Any = {**row, "detected_language": language, "detected_probability": probability}
    return cast(TranscriptRow, voter)


def _hear_in(
    language: str, utterance: Utterance, row: TranscriptRow, lookup: Lookup, margin: float
) -> None:
    """Takes the transcript in another language, unless the utterance's own `row` is surer."""
    utterance.voted = language
    row_in_it = lookup(utterance)
    if row_in_it is None:
        utterance.transcript = None
    elif row_in_it["error_code"]:
        utterance.voted = None
    elif is_surer(row, row_in_it, margin):
        utterance.voted = None
        utterance.transcript = row if margin else more_probable(row, row_in_it)
    else:
        detected = {name: row.get(name) for name in ("detected_language", "detected_probability")}
        utterance.transcript = cast(TranscriptRow, {**row_in_it, **detected})
