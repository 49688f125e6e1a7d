"""What the transcribe stage still has to do for an utterance: requests to recognisers and other
models, each with the recipe under which the answer is stored.

All answers are rows of one table, `ShardView.transcripts`, by recipe. A request is one of four: to
recognise a clip, to ask a question about its text, to align a text with it, or to rewrite its text.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """A question of a plug-in about one text."""

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
