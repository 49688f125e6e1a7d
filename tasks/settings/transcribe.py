"""The settings of transcribe: recognisers, rules on texts, and models behind HTTP."""

from __future__ import annotations

import os
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from .base import ROW, WORDS, Plugin, Shelf, StageSettings, Threshold, Transient, as_data

Backend = Annotated[Plugin, Shelf("asr", "Recogniser")]
OneOfBackends = Annotated[Plugin, Shelf("asr", "Recogniser", listed=True)]
Verdict = Annotated[Plugin, Shelf("text", "Verdict", listed=True)]


class Bounds(StageSettings):
    """Limits of a score: at least `min`, at most `max`."""

    min: float | None = Threshold(None, "Least value.")
    max: float | None = Threshold(None, "Largest value.")

    def holds(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


#: The default rules on texts.
VERDICTS = (
    *("empty_text", "language", "no_speech", "compression", "repetition", "hallucination"),
    *("completeness", "char_rate", "confidence", "expected_wer", "error_rate"),
)
#: Scores of the first recogniser that may decide whether further ones run.
DOUBTS = ("avg_logprob", "no_speech_probability", "compression_ratio", "language_probability")


class ServerSettings(StageSettings):
    """How to reach a server, and limits on requests. Only the model's name belongs to a recipe, and
    callers add it."""

    PATH: ClassVar[str] = ""  # follows the base address; `url` may include it

    url: str | None = Transient(None, "Base address, such as http://gpu-box:8000/v1.")
    model: str | None = Transient(
        None, "Name of the model on the server; part of the recipe.", min_length=1, mark=WORDS
    )
    api_key_env: str | None = Transient(
        None,
        "Environment variable that holds the key where the run starts and on workers.",
        min_length=1,
    )
    timeout: float = Transient(60.0, "Time limit of a request, s.", gt=0)
    retries: int = Transient(5, "Most tries after the first one.", ge=0)
    backoff: float = Transient(
        1.0, "Pause before the second try, s; doubled each time, up to 30 s.", ge=0
    )
    patience: float = Transient(
        300.0, "Time limit of all tries together, s; with timeout, less than item_timeout.", gt=0
    )
    parallel: int = Transient(
        16,
        "Most requests of a worker at the same time: it begins with 4, sends more while the server "
        "keeps up, and half as many when it pushes back.",
        ge=1,
        le=256,
    )
    ca_file: str | None = Transient(
        None, "PEM file of the authority that signed the server's certificate."
    )

    @field_validator("url")
    @classmethod
    def _checked(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            good = False
        if not good or not value.isascii() or not value.isprintable() or " " in value:
            raise ValueError("is not an address like http://host:8000/v1")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "takes no credentials, `?` or `#`: put a key into the variable of api_key_env"
            )
        return value.rstrip("/").removesuffix(cls.PATH)

    @field_validator("ca_file")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not os.path.isabs(value):
            raise ValueError("must begin with `/`: workers may run in another folder")
        return value


class ChatSettings(ServerSettings):
    """Requests to a language model on any server with OpenAI's `/v1/chat/completions`."""

    PATH: ClassVar[str] = "/chat/completions"

    temperature: float | None = Field(
        0.0,
        ge=0,
        le=2,
        description="Randomness; 0: the likeliest answer; null: not sent, for models that refuse "
        "it.",
    )


class ChatServer(ServerSettings):
    """A language model on such a server, by its name."""

    PATH: ClassVar[str] = ChatSettings.PATH

    model: str | None = Field(
        None, description="Name of the model on the server.", min_length=1, json_schema_extra=WORDS
    )


class LlmText(ChatSettings):
    """A language model that writes punctuation and case: any server with OpenAI's
    `/v1/chat/completions`."""

    prompt: str = Field(
        "The user sends the transcript of something that was said. Write it with "
        "punctuation and capital letters. Keep every word, in its order and spelling: add none, "
        "leave none out, correct nothing, and write no number in figures that is in words. Answer "
        "with that text alone.",
        min_length=1,
        description="Instruction that precedes each text.",
        json_schema_extra=WORDS,
    )


class TranscribeSettings(StageSettings):
    """Speech recognition, scores against a reference, and rules on text."""

    backend: Backend = Field(
        Plugin(use="faster_whisper"), description="The recogniser; none: only the sources' texts."
    )
    hear: Literal["original", "enhanced"] = Threshold(
        "original",
        "Which audio of a clip that the step enhance has cleaned goes to recognisers; most do "
        "better with the original.",
        mark=ROW,
    )
    backends: tuple[OneOfBackends, ...] = Field(
        (),
        description="Several recognisers, the first of which is `backend`: each text is kept, and "
        "the rule `agreement` compares them.",
    )
    when: dict[str, Bounds] = Threshold(
        {},
        "Further recognisers get only the clips that the first leaves doubtful: "
        "{avg_logprob: {max: -0.4}}; a score that it does not give counts as doubtful. Default: "
        "all clips.",
        mark=ROW | WORDS,
    )
    also_when: dict[str, Bounds] = Threshold(
        {},
        "Further recognisers get clips in which a filter measured any of these, too, whatever "
        "`when` says: {music_share: {min: 0.1}, sounds_applause: {min: 0.2}}, where recognisers "
        "invent words. With this alone, they get no others.",
        mark=ROW | WORDS,
    )
    asr: Literal["first", "rover", "medoid"] = Threshold(
        "first",
        "Which text counts where there are several recognisers: the first one's, the "
        "words that most of them vote for, or the one that is nearest to all others.",
        mark=ROW,
    )
    verdicts: tuple[Verdict, ...] = Threshold(
        tuple(Plugin(use=name) for name in VERDICTS),
        "Rules that drop an utterance for its text; replaces the whole default list.",
    )
    language_by: Literal["recording", "clip", "sound"] = Threshold(
        "recording",
        "recording: clips of a recording vote on its language, and a clip that seems to be in "
        "another, without strong evidence, is transcribed again in the recording's, or in its "
        "source's where the recording has none; sound: recordings alone, and their clips vote by "
        "what the filter audio_language hears; clip: each by itself.",
        mark=ROW,
    )
    turns_by: Literal["channel", "window"] = Threshold(
        "channel",
        "Where the texts of turns come from, if clips hold several. channel: what is heard in the "
        "speaker's own channel, where speakers.use is channels; elsewhere, and with window: the "
        "words that are heard in the window.",
        mark=ROW,
    )
    text: Literal["reference", "asr", "reference_if_close"] = Threshold(
        "reference",
        "Text to package: the source's own where there is one; what was heard; or the "
        "source's where it is close to what was heard, else what was heard.",
        mark=ROW,
    )
    close_wer: float = Threshold(
        0.3,
        "Largest word error rate (characters, where a script has no spaces) of a "
        "reference that is close.",
        mark=ROW,
        ge=0,
    )

    reference_words: bool = Field(
        False,
        description="Also store when each word of a source's text is said, by the first "
        "recogniser: the columns reference_words and reference_confidence.",
    )
    llm_text: LlmText | None = Field(
        None,
        title="Llm Text",
        description="A language model behind HTTP that writes the texts with punctuation and case; "
        "package.text_form llm_text packages what it writes. Default: none.",
    )

    @property
    def recognisers(self) -> tuple[Plugin, ...]:
        """All recognisers; the first one is `backend`."""
        return self.backends or (self.backend,)

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, data: object) -> object:
        """`backends: [a, b]` sets `backend: a`; a list of one is the same as `backend` alone.
        `backend` may keep its default beside a list, because forms send defaults."""
        given = data.get("backends") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(given, list | tuple) or not given:
            return data
        first, *rest = given
        stated = as_data(data.get("backend", first))
        if stated not in (as_data(first), as_data(cls.model_fields["backend"].default)):
            raise ValueError("backend is the first of backends: give only one of the two settings")
        return {**data, "backend": first, "backends": given if rest else ()}

    @field_validator("when")
    @classmethod
    def _known_scores(cls, value: dict[str, Bounds]) -> dict[str, Bounds]:
        if unknown := [name for name in value if name not in DOUBTS]:
            raise ValueError(
                f"{unknown[0]!r} is not a score of a transcript; scores are {', '.join(DOUBTS)}"
            )
        return value

    @model_validator(mode="after")
    def _distinct(self) -> TranscribeSettings:
        if len({plugin.model_dump_json() for plugin in self.backends}) < len(self.backends):
            raise ValueError("backends names a recogniser with equal settings twice")
        return self
