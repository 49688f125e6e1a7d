"""What the transcribe stage still has to do for an utterance: requests to recognisers and other
models, each with the recipe under which the answer is stored.

All answers are rows of one table, `ShardView.transcripts`, by recipe. A request is one of four: to
recognise a clip, to ask a question about its text, to align a text with it, or to rewrite its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from .. import plugins
from ..base.counting import counted
from ..base.schema import EnhancedRow, TranscriptRow, WordRow
from ..plugins.contracts.text import Question
from ..recording import turns
from ..recording.turns import Range, SpokenTurn, Turn
from ..settings import Plugin, ResampleSettings
from ..settings.job import Job
from .recipe import AudioRecipe


class WindowAudio(NamedTuple):
    """The window in which an utterance is recognised: recipes and rows of the PCM of all that share
    it (None: it could not be made), the silence between them in s, and the utterance's place."""

    audio: tuple[str, ...]
    rows: tuple[EnhancedRow | None, ...]
    pauses: tuple[float, ...]
    place: int

    @property
    def seconds(self) -> float:
        audio = sum(row["num_samples"] / row["rate"] for row in self.rows if row)
        return float(audio + sum(self.pauses))


class Recognition(NamedTuple):
    """A clip for a recogniser: the language that it is told, None to detect it; the source's text,
    for scores; the recogniser's number; the window that the clip shares with others."""

    recipe: str
    language: str | None
    reference: str | None
    recogniser: int = 0
    window: WindowAudio | None = None


class TextQuestion(NamedTuple):
    recipe: str
    plugin: Plugin
    question: Question
    text: str


class Alignment(NamedTuple):
    """A text whose words are to be found in the clip, and its language ("" if unknown)."""

    recipe: str
    text: str
    language: str


class Rewriting(NamedTuple):
    """A text for the language model, and its language ("" if unknown)."""

    recipe: str
    text: str
    language: str


Asked = Recognition | TextQuestion | Alignment | Rewriting
A = TypeVar("A", bound=Asked, covariant=True)


@dataclass(frozen=True, slots=True)
class Request(Generic[A]):
    """Something asked about a clip: a unit of the transcribe stage."""

    asked: A
    pcm: EnhancedRow  # of the clip
    shard: str

    @property
    def recipe(self) -> str:
        return self.asked.recipe

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


# Groups utterances of a recording that are recognised together, in one window or passage.
#
# Whisper takes a window of 30 s. It recognises a short utterance better together with its
# neighbours, and a window better after the text of the previous one. So consecutive utterances are
# passed as one, with silence in place of the audio between them. The grouping depends only on the
# cuts, never on rules: a limit that drops an utterance changes no text of its neighbours, since it
# is still recognised with them.


#: Least and most silence between two utterances, s. With less, words cannot be assigned by their
#: times; with more, Whisper tends to end its text.
PAUSE = (0.5, 1.0)
HALVINGS = 8  # bisection steps for the length of equal windows


@dataclass(frozen=True, slots=True)
class Window:
    """A window of several utterances: recipes of their PCM in order, and the silence between each
    and the next, s."""

    audio: tuple[str, ...]
    pauses: tuple[float, ...]


def by_span(
    spans: Sequence[Range], rate: int, longest: float, audio: Callable[[int, int], str]
) -> dict[Range, Window]:
    """The window of each span that shares one; `audio(start, end)`: the recipe of a span's PCM."""
    by_range: dict[Range, Window] = {}
    for window in windows(spans, rate, longest):
        if len(window) > 1:
            recipes = tuple(audio(*span) for span in window)
            pauses = tuple(pause(*pair, rate) for pair in pairwise(window))
            by_range.update(dict.fromkeys(window, Window(recipes, pauses)))
    return by_range


def windows(spans: Sequence[Range], rate: int, longest: float) -> list[tuple[Range, ...]]:
    """Group consecutive spans into windows of up to `longest` seconds, pauses included; a longer
    span is alone. Overlapping spans share no window.

    If the last window would be less than half full, the same number of windows get about equal
    lengths, so that passages searched together also end together: a recording of 4.1 minutes
    becomes two passages of five steps each, not one of nine and one of one.
    """
    filled = _filled(spans, rate, longest)
    last = filled[-1] if filled else ()
    seconds = sum(end - start for start, end in last) / rate
    seconds += sum(pause(*pair, rate) for pair in pairwise(last))
    if len(filled) < 2 or seconds >= longest / 2:
        return filled
    low, high = longest / len(filled), longest
    for _ in range(HALVINGS):
        limit = (low + high) / 2
        shorter = _filled(spans, rate, limit)
        if len(shorter) > len(filled):
            low = limit
        else:
            filled, high = shorter, limit
    return filled


def _filled(spans: Sequence[Range], rate: int, longest: float) -> list[tuple[Range, ...]]:
    """`windows`, each with as many spans as fit."""
    groups: list[list[Range]] = []
    length = 0.0
    for span in sorted(spans):
        duration = (span[1] - span[0]) / rate
        if groups and span[0] >= groups[-1][-1][1]:
            more = pause(groups[-1][-1], span, rate) + duration
            if length + more <= longest:
                groups[-1].append(span)
                length += more
                continue
        groups.append([span])
        length = duration
    return [tuple(window) for window in groups]


def pause(before: Range, after: Range, rate: int) -> float:
    least, most = PAUSE
    return min(max((after[0] - before[1]) / rate, least), most)


# Turns of windows that are transcribed from their own channels, as in a call with one channel for
# each speaker.
#
# A window's clip is the mix, in which recognisers miss most of a short turn inside another's. So
# each turn gets PCM of its channel alone, as if that were a recording (`channels: apart`), and a
# transcript, which shares windows of the recogniser with other turns of the channel, as utterances
# do. If the channel is unknown or its PCM could not be made, a turn keeps the words of the window.


BESIDE_S = 0.1  # s of audio added on each side of a turn


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


def asks_channels(job: Job) -> bool:
    """Whether the job transcribes turns from their own channels if these are known."""
    holds_turns = plugins.SEGMENTERS.load(job.filter.segmenter.use).HOLDS_TURNS
    chosen = job.transcribe
    return holds_turns and chosen.turns_by == "channel" and chosen.backend.use != "none"


def writes_sides(job: Job) -> bool:
    """Whether a format writes both channels of clips whose speakers have channels of their own."""
    formats = map(plugins.FORMATS.resolve, job.package.formats)
    return any(module.own_channels(settings) for module, settings in formats)


def of_one_channel(settings: ResampleSettings) -> ResampleSettings:
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
            window_of = by_span(spans, rate, shared_seconds, recipe_of)
        for turn, span in zip(of_speaker, spans, strict=True):
            yield OwnTurn(turn, channel, *span, recipe_of(*span), window_of.get(span))


def heard_turns(turns: Iterable[ChannelTurn], first: int, rate: int) -> list[HeardTurn]:
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


def turn_faults(turns: Iterable[ChannelTurn]) -> str:
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
