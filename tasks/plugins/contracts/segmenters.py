"""Segmenters cut one recording, streamed in blocks, into spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...base.arrays import Float32s
    from ...recording import Segment, TimedWord
    from ...recording.turns import Voices
    from ...settings import Plugin
    from .asr import Alphabet

Kind = Literal["utterance", "non_speech", "unsegmented"]


@dataclass(frozen=True, slots=True)
class Span:
    """Samples `start` (inclusive) to `end` (exclusive) of a recording, at its native rate.

    `given`: index of the source's segment that it equals; it gets that segment's text. `turn`:
    index of the segment that it is a part of; it gets that segment's speaker, and no text. `voice`:
    the diarizer's number of the speaker whose turn it was cut from.
    `reason`: why a span of kind `unsegmented` is not an utterance. An utterance of no samples is a
    given segment outside of the recording. `text`: its part of the recording's text, where the
    segmenter found it there, and `match`, how well that agrees with what was heard, in 0..1; one of
    no samples was not said.
    """

    start: int
    end: int
    kind: Kind = "utterance"
    given: int | None = None
    reason: str | None = None
    turn: int | None = None
    text: str | None = None
    match: float | None = None
    voice: int | None = None


@dataclass(frozen=True, slots=True)
class Emissions:
    """The output of a CTC model for a recording: (start, s; length, s; float16 [T, V]) of each
    piece, log-probabilities of frames that divide the piece evenly."""

    alphabet: Alphabet
    pieces: tuple[tuple[float, float, NDArray[np.float16]], ...]


@dataclass(frozen=True, slots=True)
class RecordingTranscript:
    """A recogniser's output for a whole recording: words in order, and spans of speech, in seconds;
    `language`: the forced one, else the most frequent one. `emissions` in place of words, if the
    segmenter wants them."""

    words: tuple[TimedWord, ...]
    speech: tuple[tuple[float, float], ...]
    language: str | None
    emissions: Emissions | None = None


class Segmenter(Protocol):
    """Cuts one recording. Utterances may overlap (given segments); all spans together cover each
    sample at least once, which `tasks.accounting.ledger` checks against the decoded count."""

    def push(self, block: Float32s) -> list[Span]:
        """Takes the next block, float32 [n, channels]; returns the finished spans."""

    def finish(self) -> list[Span]:
        """Called at the end of the recording; returns the remaining spans."""

    @property
    def needed_from(self) -> int:
        """First sample that a later span may contain; the caller may release earlier ones."""


class SegmenterPlugin(VersionedPlugin):
    @abstractmethod
    def start(self, settings: PluginSettings, rate: int, given: Sequence[Segment]) -> Segmenter:
        """A segmenter for one recording of `rate` Hz; `given` are the source's own segments."""

    #: (settings, rate, given, voices) -> a segmenter that cuts where the speaker changes; `voices`:
    #: a diarizer's turns. None: it does not use turns.
    at_turns: Callable[[PluginSettings, int, Sequence[Segment], Voices], Segmenter] | None = None
    #: Its utterances hold several voices: `at_turns` gets the turns of every recording (none if
    #: nobody is known to speak), and the turns of a clip are published.
    HOLDS_TURNS: bool = False
    #: It cuts by sound: it gets the output of `tasks.audio.channels.Heard` for several channels.
    LISTENS: bool = False

    def uses_speakers(self, settings: PluginSettings) -> bool:
        """Whether the speakers of given segments affect its cuts: then the recipe includes them."""
        return False

    def without_text(self, settings: PluginSettings) -> PluginSettings:
        """The settings with which it cuts a recording that has no text."""
        return settings

    def hears(self, settings: PluginSettings) -> Plugin | None:
        """The recogniser that transcribes a recording with a text before it is cut, for
        `start_heard`; None: `start` suffices."""
        return None

    def wants_emissions(self, settings: PluginSettings) -> bool:
        """Whether `start_heard` takes the emissions of a CTC model in place of words."""
        return False

    def start_heard(
        self, settings: PluginSettings, rate: int, text: str, heard: RecordingTranscript
    ) -> Segmenter:
        """A segmenter for one recording with a known text and transcript."""
        raise NotImplementedError
