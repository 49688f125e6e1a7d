"""What the transcribe stage still has to do for an utterance: requests to recognisers and other
models, each with the recipe under which the answer is stored.

All answers are rows of one table, `ShardView.transcripts`, by recipe. A request is one of four: to
recognise a clip, to ask a question about its text, to align a text with it, or to rewrite its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from ..base.schema import EnhancedRow
from ..plugins.contracts.text import Question
from ..settings import Plugin


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

Range = tuple[int, int]  # start and end in samples


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
    if len(filled) < 2 or _seconds(filled[-1], rate) >= longest / 2:
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


def _seconds(window: Sequence[Range], rate: int) -> float:
    spoken = sum(end - start for start, end in window) / rate
    return spoken + sum(pause(*pair, rate) for pair in pairwise(window))


def pause(before: Range, after: Range, rate: int) -> float:
    least, most = PAUSE
    return min(max((after[0] - before[1]) / rate, least), most)
