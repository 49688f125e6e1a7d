"""Looks up transcripts: the first recogniser's, in the language of most of its recording's speech,
and those of further recognisers; decides which of these run, and which text results.

Each hypothesis is a transcript with its own recipe, as if its recogniser were the only one: adding
a recogniser computes only that one. A further recogniser transcribes each utterance by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, cast

from .. import scoring
from ..base.schema import AnyRow, MeasureValue, TranscriptRow
from ..settings import TranscribeSettings
from ..settings.job import Job, Spoken
from .utterance import SURER, HeardUtterance, Vote, is_doubtful, is_surer, more_probable, vote_of

#: The filter whose label and measure vote with `transcribe.language_by: sound`.
BY_SOUND = ("audio_language", "audio_language_probability")
Lookup = Callable[[HeardUtterance], TranscriptRow | None]


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


def with_others(utterance: HeardUtterance, rows: Iterable[TranscriptRow | None]) -> HeardUtterance:
    stated, reference = utterance.cut.language, utterance.cut.reference
    others = (
        scoring.scored(row, reference, stated)
        for row in rows
        if row is not None and not row["error_code"]
    )
    return utterance._replace(others=tuple(others))


def texts(utterance: HeardUtterance) -> list[tuple[str, str]]:
    """(text, normalised) of every recogniser with a transcript, the first one's first."""
    rows = [row for row in (utterance.transcript, *utterance.others) if row]
    pairs = ((row["text"], row["normalised"]) for row in rows)
    return [(text, normalised or "") for text, normalised in pairs if text is not None]


def spoken(job: Job, utterance: HeardUtterance) -> str | None:
    """The recognised text by `transcribe.asr`; None if no recogniser ran."""
    first = utterance.transcript.get("text") if utterance.transcript else None
    if job.transcribe.asr == "first" or not utterance.others or first is None:
        return first
    from ..scoring import agreement  # imported late: only several recognisers need it

    heard = texts(utterance)
    if job.transcribe.asr == "medoid":
        return heard[agreement.medoid([normalised for _, normalised in heard])][0]
    return agreement.rover([text for text, _ in heard]).text


def compared(utterance: HeardUtterance, text: str) -> str | None:
    for written, normalised in texts(utterance):
        if written == text:
            return normalised
    heard = utterance.transcript["language"] if utterance.transcript else None
    language = scoring.language_of(utterance.cut.language, utterance.cut.reference, heard)
    return scoring.normalise(text, language)


def first(
    utterances: Sequence[HeardUtterance], lookup: Lookup, by: str, spoken: Spoken
) -> list[HeardUtterance]:
    """The utterances of one recording with `transcript` and, unless `by` is clip, `vote` and
    `voted`. `by`: `transcribe.language_by`; `spoken`: the languages of sources.

    The vote is taken once every clip has a transcript, so it does not depend on their order. Clips
    that it overrules get the transcript in the recording's language, or None until there is one;
    their own, if it is surer. Where a recording has no language, so do doubtful clips in the
    source's.
    """
    rows = [_scored(utterance, lookup(utterance)) for utterance in utterances]
    vote, elects = None, by != "clip" and all(rows)
    if elects:
        clips = zip(rows, utterances, strict=True)
        vote = vote_of((_voter(u, row, by), u.cut.seconds) for row, u in clips if _sound(row))
    return [
        _elected(utterance, row, vote, lookup, by, spoken)
        if elects and _sound(row)
        else utterance._replace(transcript=row)
        for utterance, row in zip(utterances, rows, strict=True)
    ]


def _voter(utterance: HeardUtterance, row: TranscriptRow, by: str) -> TranscriptRow:
    """The row with the language that counts in the vote: the recogniser's, or that of the filter
    audio_language."""
    if by != "sound":
        return row
    language, probability = (utterance.cut.measures.get(name) for name in BY_SOUND)
    voter: Any = {**row, "detected_language": language, "detected_probability": probability}
    return cast(TranscriptRow, voter)


def _sound(row: TranscriptRow | None) -> TypeGuard[TranscriptRow]:
    return row is not None and not row["error_code"]


def _elected(
    utterance: HeardUtterance,
    row: TranscriptRow,
    vote: Vote | None,
    lookup: Lookup,
    by: str,
    spoken: Spoken,
) -> HeardUtterance:
    first_hearing, seconds = utterance._replace(transcript=row, vote=vote), utterance.cut.seconds
    margin = SURER
    if vote is not None and vote.language is not None:
        language, doubted = vote.language, vote.overrules(row, seconds, _voter(utterance, row, by))
    else:
        languages = spoken.get(utterance.cut.recording["dataset"], ()) if by == "recording" else ()
        language, doubted = next(iter(languages), ""), is_doubtful(row, languages)
        margin = 0.0  # other recordings say less of a clip than its own
    if utterance.cut.language or not doubted:
        return first_hearing
    other = first_hearing._replace(voted=language)
    row_in_it = _scored(other, lookup(other))
    if row_in_it is None:
        return other._replace(transcript=None)
    if not _sound(row_in_it):
        return first_hearing
    if is_surer(row, row_in_it, margin):
        text = row if margin else more_probable(row, row_in_it)
        return first_hearing._replace(transcript=text)
    detected = {name: row.get(name) for name in ("detected_language", "detected_probability")}
    return other._replace(transcript=cast(TranscriptRow, {**row_in_it, **detected}))


def _scored(utterance: HeardUtterance, row: TranscriptRow | None) -> TranscriptRow | None:
    """The row with its errors counted again, in case the source's text or the rules changed."""
    if not _sound(row):
        return row
    return scoring.scored(row, utterance.cut.reference, utterance.cut.language)
