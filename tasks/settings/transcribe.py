"""The settings of transcribe: recognisers, rules on texts, and which text is packaged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from .base import ROW, WORDS, Plugin, Shelf, StageSettings, Threshold, as_data
from .servers import LlmText

Backend = Annotated[Plugin, Shelf("asr", "Recogniser")]
OneOfBackends = Annotated[Plugin, Shelf("asr", "Recogniser", listed=True)]
Verdict = Annotated[Plugin, Shelf("text", "Verdict", listed=True)]


class Bounds(StageSettings):
    """Limits of a score: at least `min`, at most `max`."""

    min: float | None = Threshold(None, "Least value.")
    max: float | None = Threshold(None, "Largest value.")

    def holds(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


#: Scores of the first recogniser that may decide whether further ones run.
DOUBTS = ("avg_logprob", "no_speech_probability", "compression_ratio", "language_probability")


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
        (
            Plugin(use="empty_text"),
            Plugin(use="language"),
            Plugin(use="no_speech"),
            Plugin(use="compression"),
            Plugin(use="repetition"),
            Plugin(use="hallucination"),
            Plugin(use="completeness"),
            Plugin(use="char_rate"),
            Plugin(use="confidence"),
            Plugin(use="expected_wer"),
            Plugin(use="error_rate"),
        ),
        "Rules that drop an utterance for its text; replaces the whole default list.",
    )
    language_by: Literal["recording", "clip", "sound"] = Threshold(
        "recording",
        "recording: clips of a recording vote on its language, and a clip that seems to be in "
        "another, without strong evidence, is transcribed again in the recording's; sound: the "
        "same, but they vote by what the filter audio_language hears; clip: each by itself.",
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
        if len({recogniser.model_dump_json() for recogniser in self.backends}) != len(
            self.backends
        ):
            raise ValueError("backends names a recogniser with equal settings twice")
        return self
