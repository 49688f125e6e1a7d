"""Looks up the transcripts of a recording, in the language of most of its speech."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks import scoring
from tasks.checkpoints import language_vote
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.utterance import Utterance

Lookup = Callable[[Utterance], Row | None]


def attach(utterances: Sequence[Utterance], lookup: Lookup, by_vote: bool) -> None:
    """Set `heard` on the utterances of one recording and, if `by_vote`, `vote` and `voted`.

    The vote is taken once every clip has a transcript, so it does not depend on their order. Clips
    that it overrules get the transcript in the recording's language, or None until there is one.
    """
    for utterance in utterances:
        _set(utterance, lookup(utterance))
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
            _set(utterance, lookup(utterance))


def _set(utterance: Utterance, row: Row | None) -> None:
    if row and not row["error_code"]:
        # Errors are counted again in case the source's text or the rules changed.
        row = scoring.scored(row, utterance.reference, utterance.language)
    utterance.heard = row
