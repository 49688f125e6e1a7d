"""Looks up transcripts: the first recogniser's, in the language of most of its recording's speech,
and those by further recognisers; which of these are asked, and the text that results.

Each hypothesis is a transcript with its own recipe, as if its recogniser were the only one: adding
a recogniser computes that one alone. A further recogniser hears each utterance by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from tasks import scoring
from tasks.base.schema import Row
from tasks.settings import Plugin, TranscribeSettings
from tasks.settings.job import Job
from tasks.shard_store import language_vote, recipe
from tasks.shard_store.utterance import Utterance

Lookup = Callable[[Utterance], Row | None]


@lru_cache(maxsize=8)
def further(recognisers: tuple[Plugin, ...]) -> tuple[TranscribeSettings, ...]:
    """The settings of each further recogniser, as if it were the only one."""
    return tuple(TranscribeSettings(backend=each) for each in recognisers[1:])


def recipes(settings: TranscribeSettings, weights: str, utterance: Utterance) -> tuple[str, ...]:
    """The recipe of each further transcript. `weights`: identities of all models, one a line."""
    others = zip(further(settings.recognisers), weights.split("\n")[1:], strict=True)
    audio, language = utterance.hears or utterance.audio, utterance.forced
    return tuple(recipe.of_transcript(s, w, audio, language) for s, w in others)


def asked(settings: TranscribeSettings, heard: Row) -> bool:
    """Whether further recognisers hear an utterance: each of the first one's scores in `when` is
    unknown or within its limits."""
    for column, limits in settings.when.items():
        value = heard.get(column)
        if value is not None and not limits.holds(float(value)):
            return False
    return True


def attach(
    utterance: Utterance, wanted: tuple[str, ...], lookup: Callable[[str], Row | None]
) -> None:
    """Set `others`, and in `missing` those that have not been computed yet."""
    rows = [lookup(each) for each in wanted]
    utterance.missing = tuple(n for n, row in enumerate(rows) if row is None)
    stated, reference = utterance.language, utterance.reference
    utterance.others = tuple(
        scoring.scored(row, reference, stated)
        for row in rows
        if row is not None and not row["error_code"]
    )


def texts(utterance: Utterance) -> list[tuple[str, str]]:
    """(text, normalised) of every recogniser that heard it, the first one's first."""
    rows = [row for row in (utterance.heard, *utterance.others) if row]
    return [(row["text"], row["normalised"]) for row in rows if row["text"] is not None]


def spoken(job: Job, utterance: Utterance) -> str | None:
    """The text that counts by `transcribe.asr`; None if no recogniser ran."""
    first: str | None = (utterance.heard or {}).get("text")
    if job.transcribe.asr == "first" or not utterance.others or first is None:
        return first
    from tasks.scoring import agreement  # here: for several recognisers only

    heard = texts(utterance)
    if job.transcribe.asr == "medoid":
        return heard[agreement.medoid([normalised for _, normalised in heard])][0]
    return agreement.rover([text for text, _ in heard]).text


def compared(utterance: Utterance, text: str) -> str | None:
    """A recogniser's text, normalised for comparison."""
    row = utterance.heard or {}
    for written, normalised in texts(utterance):
        if written == text:
            return normalised
    language = scoring.language_of(utterance.language, utterance.reference, row["language"])
    return scoring.normalise(text, language)


def attach_first(utterances: Sequence[Utterance], lookup: Lookup, by_vote: bool) -> None:
    """Set `heard` on the utterances of one recording and, if `by_vote`, `vote` and `voted`.

    The vote is taken once every clip has a transcript, so it does not depend on their order. Clips
    that it overrules get the transcript in the recording's language, or None until there is one.
    """
    for utterance in utterances:
        _set_heard(utterance, lookup(utterance))
    if not by_vote or any(u.heard is None for u in utterances):
        return
    sound = [u for u in utterances if u.heard and not u.heard["error_code"]]
    vote = language_vote.count((u.heard or {}, u.seconds) for u in sound)
    if vote is None:
        return
    for utterance in sound:
        utterance.vote = vote
        if not utterance.language and vote.overrules(utterance.heard or {}, utterance.seconds):
            utterance.voted = vote.language
            _set_heard(utterance, lookup(utterance))


def _set_heard(utterance: Utterance, row: Row | None) -> None:
    if row and not row["error_code"]:
        # Errors are counted again in case the source's text or the rules changed.
        row = scoring.scored(row, utterance.reference, utterance.language)
    utterance.heard = row
