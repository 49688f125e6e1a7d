"""Rules on text judge a transcript by columns, some of which they compute themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tasks.base.frozen import cached_property, dataclass
from tasks.plugins.contracts.base import Columns, LoadedPlugin, PluginModule, PluginSettings
from tasks.plugins.contracts.corpuswide import CorpusWide
from tasks.scoring import MARKS, UNSPACED, said

if TYPE_CHECKING:
    from tasks.base.arrays import Float32s
    from tasks.plugins.annotation_kinds import Annotations
    from tasks.plugins.rules import Rule

_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W_{UNSPACED}]|[{MARKS}]|(?<=\w)['’](?=\w))+")
_PLAIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*", re.ASCII)  # the same, at half of its cost


@dataclass(frozen=True)
class ScoredTranscript:
    """One transcript as a rule on text gets it. Probabilities in 0..1, log-probability in nats per
    token, wer and cer as fractions of the reference; None: unknown."""

    text: str  # to train on
    text_source: str  # reference or asr: where `text` is from
    seconds: float  # of audio
    hypothesis: str | None = None  # the recogniser's text; None: no recogniser ran
    reference: str | None = None  # the source's text
    normalised: str | None = None  # the hypothesis as it is compared
    reference_normalised: str | None = None  # the reference as it is compared
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    wer: float | None = None
    cer: float | None = None
    hypotheses: tuple[tuple[str, str], ...] = ()  # (text, as it is compared) of each recogniser
    timed_words: tuple[str, ...] | None = None  # heard, with times; None: none have times
    listened: bool = True  # False: no recogniser ran, or `fake` did
    #: Probability of each word of the source's text (None: unknown); None: it is not aligned.
    aligned: tuple[float | None, ...] | None = None
    #: Of models that the plug-in asks, by key; None: no usable one.
    answers: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    @cached_property
    def words(self) -> list[str]:
        """Words of `text` without case and punctuation; of scripts without spaces, characters."""
        return words(self.text)

    @cached_property
    def spoken(self) -> list[str]:
        """The words, or characters, of `text` as it is said: figures and spelled letters count as
        what they sound like (`tasks.scoring.said`)."""
        return words(said(self.text, self.language))


def words(text: str) -> list[str]:
    """Words without case and punctuation; of scripts without spaces, characters.

    "No, it's 你好!" -> no, it's, 你, 好."""
    return [*_words(text)]


def count_of_words(text: str) -> int:
    return len(_words(text))


@lru_cache(maxsize=4)  # several rules ask for those of one text after the other
def _words(text: str) -> tuple[str, ...]:
    plain = text.isascii() and "_" not in text
    return tuple((_PLAIN_WORD if plain else _WORD).findall(text.casefold()))


class Hidden(NamedTuple):
    """A place in a text that is never published, and what stands there instead."""

    start: int
    end: int
    mask: str


#: hide(text, language, settings, thorough) -> places, in order, none within another. `thorough`:
#: also what only resembles them, since another text about the same words has some.
Hide = Callable[[str, "str | None", PluginSettings, bool], Sequence[Hidden]]


class Question(NamedTuple):
    """What a model on a server is asked about each text. Its answer is stored, and asked for again
    when the text or `recipe` changes, or the clip of a question that `hears`."""

    key: str  # of the answer in `ScoredTranscript.answers`
    recipe: str  # all that can change the answer beside the text: the model's name, the wording
    hears: bool = False  # the clip is sent with the text; never one in whose text a word is hidden


class Answer(NamedTuple):
    """`value` as `ScoredTranscript.answers` has it; None and why (`errors.CODES`)."""

    reply: str | None  # as the model gave it; None: it gave none
    value: str | None
    reason: str = ""
    detail: str = ""


class TextVerdictModule(PluginModule, Protocol):
    """All its settings are thresholds, unless it asks `questions`: nothing else of its results is
    stored, so changing one costs no transcript."""

    def verdict(self, settings: PluginSettings) -> tuple[Rule, ...]:
        """Limits on columns: its own, and those that are always there, null if the recogniser
        gives no such score: text_chars, language, language_probability, avg_logprob,
        no_speech_probability, compression_ratio, wer, cer."""


class TextVerdict(TextVerdictModule, CorpusWide, LoadedPlugin, Protocol):
    #: The columns of `measure`: named as the plug-in, or `<plug-in>_<part>`.
    COLUMNS: Columns = {}  # noqa: RUF012 (a default that is never changed)

    #: What it says of a clip beside numbers, by name, which is a column's. `verdict` limits them:
    #: labels by `Allowed`, the share of a label among events by `Limit` on `<name>_<label>`.
    ANNOTATIONS: Annotations = MappingProxyType({})

    def measure(self, heard: ScoredTranscript, settings: PluginSettings) -> Mapping[str, Any]:
        """Every column of COLUMNS, a number, and every one of ANNOTATIONS, as its kind has it; None
        if there is nothing to judge: it is never rejected.
        Pure, cheap (tens of microseconds), for any text: it runs again at every run."""
        return {}

    def annotates(self, settings: PluginSettings) -> Annotations:
        """ANNOTATIONS, where settings say what they are."""
        return self.ANNOTATIONS

    def questions(self, settings: PluginSettings) -> tuple[Question, ...]:
        """What it asks a model about each text that the other rules keep. Until all are answered,
        `measure` gets those answers that are stored, and nothing else is asked of the text."""
        return ()

    def answer(
        self, asked: Sequence[tuple[Question, str]], settings: PluginSettings
    ) -> Iterator[Answer]:
        """The answer to each (question, text), in order. RunError when no server can be used."""
        return iter(())

    def answer_by_ear(
        self, asked: Sequence[tuple[Question, str, Float32s]], settings: PluginSettings
    ) -> Iterator[Answer]:
        """The same of questions that hear: (question, text, the clip's samples [n] at 16 kHz)."""
        return iter(())

    def mutes(self, settings: PluginSettings) -> bool:
        """Whether the audio of words that `hide` hides becomes silence."""
        return False

    #: Places in a text that are neither published nor shown.
    hide: Hide | None = None
    #: Whether it judges `ScoredTranscript.aligned`, which is there once the other rules are passed.
    ALIGNED: bool = False
    #: Whether `reject` asks for the column `normalised`.
    COMPARES: bool = False
    #: Whether it judges languages that a recogniser detects where sources state none.
    BY_EAR: bool = False
