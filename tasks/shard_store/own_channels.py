"""Turns of windows that are transcribed from their own channels, as in a call with one channel for
each speaker.

A window's clip is the mix, in which recognisers miss most of a short turn inside another's. So each
turn gets PCM of its channel alone, as if that were a recording (`channels: apart`), and a
transcript, which shares windows of the recogniser with other turns of the channel, as utterances
do. If the channel is unknown or its PCM could not be made, a turn keeps the words of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import plugins
from ..base.counting import counted
from ..base.schema import EnhancedRow, TranscriptRow, WordRow
from ..recording import turns
from ..recording.turns import Range, SpokenTurn, Turn
from ..settings import ResampleSettings
from ..settings.job import Job
from . import requests
from .requests import Window

BESIDE_S = 0.1  # s of audio added on each side of a turn
#: The recipe of a span's PCM, by its first sample and its end.
AudioRecipe = Callable[[int, int], str]


class OwnTurn(NamedTuple):
    """A turn, and the span of its channel that is transcribed."""

    turn: SpokenTurn  # in samples of the window
    channel: int
    start: int  # samples of the recording
    end: int
    audio: str  # recipe of the span's PCM
    window: Window | None


class ChannelTurn(NamedTuple):
    """A turn of a transcribed window, with what is stored for its channel."""

    own: OwnTurn
    recipe: str  # of its transcript
    language: str | None  # recognised in the window
    pcm: EnhancedRow | None
    row: TranscriptRow | None

    @property
    def unheard(self) -> bool:
        """Whether the turn has PCM but no transcript yet."""
        return self.row is None and self.pcm is not None and not self.pcm["error_code"]

    @property
    def fault(self) -> str | None:
        """Why the turn keeps the words of the window; None: it has a transcript, or will get
        one."""
        failed = [row for row in (self.pcm, self.row) if row and row["error_code"]]
        return f"{failed[0]['error_code']}: {failed[0]['error_detail']}" if failed else None


class HeardTurn(NamedTuple):
    """The transcript of a turn; times of `words` are in s of the window, None: unknown."""

    turn: SpokenTurn
    text: str
    words: list[WordRow] | None


def asked(job: Job) -> bool:
    """Whether the job transcribes turns from their own channels if these are known."""
    holds_turns = plugins.SEGMENTERS.load(job.filter.segmenter.use).HOLDS_TURNS
    chosen = job.transcribe
    return holds_turns and chosen.turns_by == "channel" and chosen.backend.use != "none"


def writes_sides(job: Job) -> bool:
    """Whether a format writes both channels of clips whose speakers have channels of their own."""
    formats = (plugins.FORMATS.resolve(plugin) for plugin in job.package.formats)
    return any(module.own_channels(settings) for module, settings in formats)


def converted(settings: ResampleSettings) -> ResampleSettings:
    return settings.model_copy(update={"mono": "mean"})


def own_turns(
    window: Range,
    rate: int,
    speech: Sequence[Turn],
    shared_seconds: float,
    audio: Callable[[int], AudioRecipe],
) -> Iterator[OwnTurn]:
    """The turns of a window with known channels, by channel. `window`: first and last sample in the
    recording; `speech`: the recording's turns; `audio(channel)`: gives recipes of a channel's PCM;
    `shared_seconds`: length of a recogniser's shared window."""
    first, last = window
    stretches = turns.within(speech, first, last)
    channels = {one.speaker: one.channel for one in stretches if one.channel is not None}
    spoken = turns.spoken_turns(stretches, rate) if channels else ()
    beside = round(BESIDE_S * rate)
    for speaker, channel in sorted(channels.items()):
        of_speaker = [turn for turn in spoken if turn.speaker == speaker]
        spans = [
            (first + max(turn.start - beside, 0), min(first + turn.end + beside, last))
            for turn in of_speaker
        ]
        recipe_of = audio(channel)
        window_of = dict[Range, Window]()
        if shared_seconds:
            window_of = requests.by_span(spans, rate, shared_seconds, recipe_of)
        for turn, span in zip(of_speaker, spans, strict=True):
            yield OwnTurn(turn, channel, *span, recipe_of(*span), window_of.get(span))


def heard(turns: Iterable[ChannelTurn], first: int, rate: int) -> list[HeardTurn]:
    """The transcripts of the turns of the window that begins at sample `first` of the recording."""
    heard_turns = []
    for one in turns:
        if one.row is not None and not one.row["error_code"]:
            words, later = one.row.get("word_times"), (one.own.start - first) / rate
            moved: list[WordRow] | None = words and [
                {**word, "start": word["start"] + later, "end": word["end"] + later}
                for word in words
            ]
            heard_turns.append(HeardTurn(one.own.turn, one.row["text"] or "", moved))
    return heard_turns


def faults(turns: Iterable[ChannelTurn]) -> str:
    """A text that says how many turns of each channel keep the words of the window, and why the
    first of them does; empty if none does."""
    by_channel: dict[int, list[str]] = {}
    for one in turns:
        if fault := one.fault:
            by_channel.setdefault(one.own.channel, []).append(fault)
    return "; ".join(
        f"{counted(len(details), 'turn')} of channel {channel} by the window's words: {details[0]}"
        for channel, details in by_channel.items()
    )
