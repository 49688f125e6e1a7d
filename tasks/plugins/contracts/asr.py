"""Recognisers turn PCM into text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ...scoring.alphabet import SPACES as SPACES
from ...scoring.alphabet import Alphabet as Alphabet
from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    from ... import speech
    from ...base.arrays import Float32s


@dataclass(frozen=True, slots=True, eq=False)
class SharedWindow:
    """Utterances of a recording that are recognised together, at once or in turn: float32 [n] mono
    at the backend's RATE, and the start and end of each in it, in samples."""

    samples: Float32s
    bounds: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SpeechClip:
    """One utterance for a recogniser: float32 [n] mono at the backend's RATE, and a forced
    language. `window`: where it is recognised, as number `place`; only if `shared_seconds` is above
    0. Its text must depend on that window alone."""

    samples: Float32s
    language: str | None = None
    window: SharedWindow | None = None
    place: int = 0

    @cached_property
    def speech(self) -> tuple[speech.Span, ...]:
        """Spans of speech, in seconds; only if RATE is 16 kHz."""
        from ... import speech  # here: it imports the decoders

        return speech.spans(self.samples)


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its time: seconds in the clip, 0 <= start <= end, and its probability. The words
    of a clip joined are its text: each includes the space before it."""

    word: str
    start: float
    end: float
    probability: float | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A recogniser's result. Probabilities in 0..1; `avg_logprob` in nats per token; None: unknown.
    `text` is None if no recogniser ran, `words` if no times were requested. `text_probability`:
    that a short clip's words were said, by two hearings. `text_end`: end of the last word, s.
    `hole`: start of the longest stretch of speech that no word covers, and seconds of speech in it.
    `detected_language`: the recogniser's own choice, which a forced language overrules. `error`:
    why this clip was refused."""

    text: str | None
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    error: str | None = None
    words: tuple[Word, ...] | None = None
    text_end: float | None = None
    hole: tuple[float, float] | None = None
    detected_language: str | None = None
    detected_probability: float | None = None
    text_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Abilities:
    """Facts about a recogniser. `languages`: ISO 639 codes; `longest`: most audio that it takes at
    once, s; `scores`: the columns of a transcript that it fills, as far as known in advance;
    `licence`: of its weights, as their owner writes it. None: unknown."""

    languages: tuple[str, ...] | None = None
    longest: float | None = None
    scores: tuple[str, ...] = ()
    licence: str | None = None


class Backend(Protocol):
    """A loaded model: one per worker process, kept between shards. It may also have `warm()`, work
    to do once before the first shard, and `chunk_seconds`, if it benefits from more audio per call
    than others."""

    @property
    def RATE(self) -> int | None:
        """Sample rate of the clips that it needs, Hz; None: it needs no samples."""

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order. A bad clip gives a Transcript with `error`, never an
        exception; RunError, which ends the run, is for faults that would affect every clip (a
        server that is gone, a key that is refused)."""


@runtime_checkable
class EmittingBackend(Protocol):
    """A backend of a CTC model that can return its scores: its class has the method."""

    alphabet: Alphabet

    def emissions(self, samples: Float32s) -> Float32s:
        """Log-probabilities [T, V] of V tokens in T frames of equal length, which cover the clip
        (float32 [n] at the backend's RATE). RuntimeError if the model refuses the clip."""


@runtime_checkable
class AligningBackend(Protocol):
    """A backend that finds the time of each word of a given text: its class has the method."""

    def align(self, clips: Sequence[SpeechClip], texts: Sequence[str]) -> Iterator[Transcript]:
        """One transcript per clip, in order: its text, and the text's words with times and
        probabilities, whose mean shows how well the text fits the sound. `error` if it cannot be
        aligned."""


class BackendClass(Protocol):
    """The class `Backend` of a recogniser; loading the model belongs here, with heavy imports."""

    @property
    def RATE(self) -> int | None: ...

    def __call__(self, settings: PluginSettings) -> Backend: ...


class Recogniser(VersionedPlugin):
    @property
    @abstractmethod
    def Backend(self) -> BackendClass: ...

    @abstractmethod
    def weights(self, settings: PluginSettings) -> str:
        """Identity of the model: a sha256, or the name of one that a server runs. ConfigError if it
        is missing or a different one."""

    #: False: its texts do not depend on the audio, so they cast no doubt on references.
    LISTENS: bool = True

    def shared_seconds(self, settings: PluginSettings) -> float:
        """Most audio of a recording's consecutive utterances that it recognises together, s; 0: it
        recognises each by itself."""
        return 0.0

    def language_fault(self, settings: PluginSettings, language: str) -> str | None:
        """Why it refuses every clip whose source states this language, without loading a model;
        None if it accepts them. Called before a worker starts."""
        return None

    def abilities(self, settings: PluginSettings) -> Abilities:
        """Its abilities, without loading a model: for `uttermill plugins asr.NAME` and, the
        licence, for the data card."""
        return Abilities()
