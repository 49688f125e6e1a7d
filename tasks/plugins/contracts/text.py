"""Rules on text judge a transcript by columns, some of which they compute themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ...scoring import MARKS, UNSPACED, said
from .base import Columns, MeasuringPlugin, PluginSettings

if TYPE_CHECKING:
    from ...base.arrays import Float32s
    from ..annotation_kinds import Annotations

_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W_{UNSPACED}]|[{MARKS}]|(?<=\w)['’](?=\w))+")
_ASCII_WORD = re.compile(r"(?:[a-z0-9]+|(?<=\w)'(?=\w))+")  # the same, at a quarter of its cost


@dataclass(unsafe_hash=True)  # a frozen one takes five times as long to make
class ScoredTranscript:
    """A transcript as a rule on text gets it, which changes nothing in it. Probabilities in 0..1,
    log-probability in nats per token, wer and cer as fractions of the reference; None: unknown."""

    text: str  # to train on
    text_source: str  # reference or asr: the origin of `text`
    seconds: float  # of audio
    hypothesis: str | None = None  # the recogniser's text; None: no recogniser ran
    reference: str | None = None  # the source's text
    normalised: str | None = None  # the normalised hypothesis
    reference_normalised: str | None = None  # the normalised reference
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    text_probability: float | None = None
    wer: float | None = None
    cer: float | None = None
    hypotheses: tuple[tuple[str, str], ...] = ()  # (text, normalised text) of each recogniser
    timed_words: tuple[str, ...] | None = None  # recognised words with times; None: no times
    listened: bool = True  # False: no recogniser ran, or `fake` did
    #: Probability of each word of the source's text (None: unknown); None: it is not aligned.
    aligned: tuple[float | None, ...] | None = None
    #: Answers to the plug-in's `questions`, by key; None: no usable one.
    answers: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    @property
    def words(self) -> list[str]:
        return words(self.text)

    @property
    def heard_words(self) -> list[str]:
        return words(self.hypothesis or "")

    @cached_property
    def spoken(self) -> list[str]:
        """Words, or characters, of `text` as it is spoken: figures and spelled letters count as
        what they sound like (`tasks.scoring.said`)."""
        return words(said(self.text, self.language))


@lru_cache(maxsize=16)  # several columns ask for those of one text
def words(text: str) -> list[str]:
    """Words without case and punctuation; of scripts without spaces, characters.

    "No, it's 你好!" -> no, it's, 你, 好."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text.casefold())


class Hidden(NamedTuple):
    """A span of a text that is never published, and its replacement."""

    start: int
    end: int
    mask: str


#: hide(text, language, settings, thorough) -> spans, in order, none within another. `thorough`:
#: also anything similar, since another text of the same words has some.
Hide = Callable[[str, "str | None", PluginSettings, bool], Sequence[Hidden]]


class Question(NamedTuple):
    """A question to a model on a server about each text. The answer is stored; the question is
    repeated when the text or `recipe` changes, or the clip of a question with `hears`."""

    key: str  # the answer's key in `ScoredTranscript.answers`
    recipe: str  # what else can change the answer: the model's name, the wording
    hears: bool = False  # send the clip too; never if a word of its text is hidden


class Answer(NamedTuple):
    """`value` as in `ScoredTranscript.answers`; None, and the reason (`errors.CODES`)."""

    reply: str | None  # the model's own words; None: it gave none
    value: str | None
    reason: str = ""
    detail: str = ""


class TextVerdict(MeasuringPlugin):
    """All settings are thresholds, unless it has `questions`: no other result is stored, so
    changing a setting costs no transcript."""

    #: `verdict` may also limit those that always exist, null if the recogniser gives no such score:
    #: text_chars, language, language_probability, avg_logprob, no_speech_probability,
    #: compression_ratio, wer, cer.
    COLUMNS: Columns = {}  # noqa: RUF012 (a default that is never changed)

    def measure(self, heard: ScoredTranscript, settings: PluginSettings) -> Mapping[str, Any]:
        """Every column of COLUMNS, a number, and every one of ANNOTATIONS, as its kind defines it;
        None if there is nothing to judge: None is never rejected. Pure and cheap (tens of
        microseconds), for any text: it runs again in every run."""
        return {}

    def annotates(self, settings: PluginSettings) -> Annotations:
        """ANNOTATIONS; override if they depend on the settings."""
        return self.ANNOTATIONS

    def questions(self, settings: PluginSettings) -> tuple[Question, ...]:
        """Questions to a model about each text that the other rules keep. Until all are answered,
        `measure` gets the stored answers, and nothing else happens to the text."""
        return ()

    def answer(
        self, asked: Sequence[tuple[Question, str]], settings: PluginSettings
    ) -> Iterator[Answer]:
        """The answer to each (question, text), in order. RunError if no server can be used."""
        return iter(())

    def answer_by_ear(
        self, asked: Sequence[tuple[Question, str, Float32s]], settings: PluginSettings
    ) -> Iterator[Answer]:
        """Answers to questions with `hears`: (question, text, the clip's samples [n] at 16 kHz)."""
        return iter(())

    def mutes(self, settings: PluginSettings) -> bool:
        """Whether the audio of hidden words becomes silence."""
        return False

    #: Spans of a text that are neither published nor shown.
    hide: Hide | None = None
    #: Whether its annotations say the text in another form: of a text in which something is hidden,
    #: they are null.
    REWRITES: bool = False
    #: Whether it uses `ScoredTranscript.aligned`, which exists once the other rules have passed.
    ALIGNED: bool = False
    #: Whether `reject` needs the column `normalised`.
    COMPARES: bool = False
    #: Whether it judges languages that a recogniser detects, if sources state none.
    BY_EAR: bool = False
