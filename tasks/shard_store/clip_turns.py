"""The turns of a clip that holds several, with the texts and words of each.

A turn's words come from its own channel if there is a transcript of that (`requests.py`), else
from the whole clip: a word belongs to the stretch of speech that it overlaps most, else to the
nearest; if two people speak at once, to the person of the previous word.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import scoring
from ..base.schema import LabelledTurnRow, WordRow
from ..recording import turns
from ..recording.turns import SpokenTurn, Turn
from . import hidden, requests
from .shard_view import ShardView
from .utterance import Utterance


def labelled(
    view: ShardView,
    utterance: Utterance,
    words: Sequence[WordRow] | None,
    language: str | None,
    thorough: bool = False,
) -> list[LabelledTurnRow]:
    """The turns, sorted by start. A turn's text is the source's if that states one for each
    stretch, else the recognised one. `words`: the clip's published words; None: their times are
    unknown; `thorough`: search the texts thoroughly, because the clip has hidden words."""
    heard_turns = requests.heard_turns(utterance.in_channels, utterance.start, utterance.rate)
    in_channels = {one.turn: one for one in heard_turns}
    speech = view.turned(utterance.recording)[1] or ()
    stretches = turns.within(speech, utterance.start, utterance.end)
    segments, place = (
        view.stated_turns(utterance.recording),
        (utterance.start, utterance.end, utterance.rate),
    )
    stated = None if segments is None else turns.texts_in_span(segments, *place)
    labels = turns.labels_in_span(segments or (), *place)
    channel_of = {one.speaker: one.channel for one in stretches}
    rows: list[LabelledTurnRow] = []
    for turn, of_window in with_words(stretches, utterance.rate, words):
        heard: Sequence[WordRow] | None = None if words is None else of_window
        text = None if heard is None else _text(heard)
        inside = {(one.start, one.end) for one in stretches if _holds(turn, one)}
        whole = None
        if stated is not None:
            texts = (text for start, end, text in stated if (start, end) in inside)
            whole = scoring.unmarked(scoring.clean(" ".join(texts)))
        longest = max(  # of the turn's segments; its labels complete the clip's
            ((end - start, kept) for start, end, kept in labels if (start, end) in inside),
            key=lambda pair: pair[0],
            default=(0, dict[str, str]()),
        )
        if (in_channel := in_channels.get(turn)) is not None:
            heard = hidden.words(view.job, in_channel.words, language, thorough)
            whole = in_channel.text if whole is None else whole
        if whole is not None:
            text = hidden.masked(whole, hidden.places(view.job, whole, language, thorough))
        rows.append(
            {
                "speaker": turns.name_of(speech, turn.speaker, utterance.recording["path"]),
                "number": turn.speaker + 1,
                "start": turn.start / utterance.rate,
                "end": turn.end / utterance.rate,
                "backchannel": turn.backchannel,
                "channel": channel_of[turn.speaker],
                "text": text,
                "words": None if heard is None else [*heard],
                "labels": sorted((dict(utterance.labels or ()) | longest[1]).items()) or None,
            }
        )
    return rows


def with_words(
    stretches: Sequence[Turn], rate: int, words: Sequence[WordRow] | None
) -> list[tuple[SpokenTurn, list[WordRow]]]:
    """The turns of stretches in samples at `rate`, each with its words, whose times are in s."""
    spoken = turns.spoken_turns(stretches, rate)
    of_turn: list[list[WordRow]] = [[] for _ in spoken]
    speaker: int | None = None
    for word in (words or ()) if spoken else ():
        start, end = word["start"] * rate, word["end"] * rate
        # The distance of the word from each stretch; negative by the length of their overlap.
        distances = [
            (max(one.start, start) - min(one.end, end), one.speaker != speaker) for one in stretches
        ]
        stretch = stretches[distances.index(min(distances))]
        speaker = stretch.speaker
        holding = (number for number, turn in enumerate(spoken) if _holds(turn, stretch))
        of_turn[next(holding)].append(word)
    return list(zip(spoken, of_turn, strict=True))


def _text(words: Sequence[WordRow]) -> str:
    """The words as a text; a mask of hidden words has no space before it."""
    pieces = [word["word"] for word in words]
    spaced = any(piece.startswith(" ") for piece in pieces)
    return scoring.clean((" " if spaced else "").join(pieces))


def _holds(turn: SpokenTurn, stretch: Turn) -> bool:
    within = turn.start <= stretch.start and stretch.end <= turn.end
    return turn.speaker == stretch.speaker and within
