"""The settings of each stage; their defaults stand here and nowhere else.

The CLI, the flow's parameters, the UI's form, the deployment file and the tests all use these
models. Plug-ins are named `{use: <file on the shelf>, ...its own settings}`; `tasks.plugins`
checks those.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tasks.settings import portions
from tasks.settings.base import THRESHOLD, TRANSIENT, Plugin, Shelf, StageSettings
from tasks.settings.portions import Split
from tasks.settings.servers import LlmText

Diarizer = Annotated[Plugin, Shelf("diarizers", "Diarizer")]
Segmenter = Annotated[Plugin, Shelf("segmenters", "Segmenter")]
Filter = Annotated[Plugin, Shelf("filters", "Filter", listed=True)]
Enhancer = Annotated[Plugin, Shelf("enhance", "Enhancer")]
Resampler = Annotated[Plugin, Shelf("resamplers", "Resampler")]
Level = Annotated[Plugin, Shelf("levels", "Level", listed=True)]
Backend = Annotated[Plugin, Shelf("asr", "Recogniser")]
OneOfBackends = Annotated[Plugin, Shelf("asr", "Recogniser", listed=True)]
Verdict = Annotated[Plugin, Shelf("text", "Verdict", listed=True)]


class ShardSettings(StageSettings):
    """Grouping of recordings into shards, the unit of work, checkpoint and retry."""

    hours: float | None = Field(
        None,
        gt=0,
        le=24,
        json_schema_extra=TRANSIENT,
        description="Audio hours per shard; default: new hours / 64, between 1 min (15 min with no "
        "recogniser) and 1 h.",
    )
    settle_seconds: float = Field(
        2.0,
        ge=0,
        json_schema_extra=TRANSIENT,
        description="A file changed more recently than this is looked at twice; "
        "if it is still growing, it is left for the next run.",
    )
    probe_batch: int = Field(
        50, ge=1, json_schema_extra=TRANSIENT, description="Recordings probed per worker call."
    )
    retry: bool = Field(
        False,
        json_schema_extra=TRANSIENT,
        description="Try crashed, timeout, out_of_memory, asr_error and no_answer items again.",
    )


class FilterSettings(StageSettings):
    """Cutting into utterances, measures, and verdicts on them."""

    segmenter: Segmenter = Field(
        Plugin(use="auto"), description="How recordings are cut into utterances."
    )
    filters: tuple[Filter, ...] = Field(
        (
            Plugin(use="duration"),
            Plugin(use="silence"),
            Plugin(use="clipping"),
            Plugin(use="decode_faults"),
        ),
        description="What is measured, and limits of what is kept; given, it is the whole list.",
    )
    measure_all: bool = Field(
        False,
        json_schema_extra=TRANSIENT,
        description="Take costly measures of utterances too that a cheap one already rejects.",
    )


class ResampleSettings(StageSettings):
    """Target rate, mono rule and resampler; the result is int16, clamped and rounded."""

    rate: int = Field(16000, ge=4000, le=192000, description="Target sample rate, Hz.")
    mono: Literal["mean", "first"] | int = Field(
        "mean", description="Mean of the channels, the first one, or a channel's index from 0."
    )
    resampler: Resampler = Field(Plugin(use="soxr_hq"), description="What changes the sample rate.")
    levels: tuple[Level, ...] = Field(
        (), description="What is done to an utterance after resampling, in this order."
    )


class Bounds(StageSettings):
    """Limits of a score: at least `min`, at most `max`."""

    min: float | None = Field(None, json_schema_extra=THRESHOLD, description="Least value.")
    max: float | None = Field(None, json_schema_extra=THRESHOLD, description="Largest value.")

    def holds(self, value: float) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


#: Scores of the first recogniser that may say whether further ones are asked.
DOUBTS = ("avg_logprob", "no_speech_probability", "compression_ratio", "language_probability")


class TranscribeSettings(StageSettings):
    """Speech recognition, scores against a reference, and verdicts on text."""

    backend: Backend = Field(
        Plugin(use="faster_whisper"), description="The recogniser; none: the sources' texts alone."
    )
    hear: Literal["original", "enhanced"] = Field(
        "original",
        json_schema_extra=THRESHOLD,
        description="What recognisers hear of a clip that the step enhance has cleaned; most hear "
        "the original better.",
    )
    backends: tuple[OneOfBackends, ...] = Field(
        (),
        description="Several recognisers, the first of which is `backend`: each text is kept, and "
        "the verdict `agreement` compares them.",
    )
    when: dict[str, Bounds] = Field(
        {},
        json_schema_extra=THRESHOLD,
        description="Further recognisers hear only what the first leaves doubtful: "
        "{avg_logprob: {max: -0.4}}; a score that it does not give counts as doubtful. "
        "Default: everything.",
    )
    asr: Literal["first", "rover", "medoid"] = Field(
        "first",
        json_schema_extra=THRESHOLD,
        description="Which text was heard, where several recognisers did: the first one's, the "
        "words that most of them vote for, or the one that is nearest to all others.",
    )
    verdicts: tuple[Verdict, ...] = Field(
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
            Plugin(use="error_rate"),
        ),
        json_schema_extra=THRESHOLD,
        description="What drops an utterance for its text; given, it is the whole list.",
    )
    language_by: Literal["recording", "clip"] = Field(
        "recording",
        json_schema_extra=THRESHOLD,
        description="recording: clips of a recording vote on its language, and one that seems to "
        "be in another without strong evidence is heard again in it; clip: each for itself.",
    )
    text: Literal["reference", "asr", "reference_if_close"] = Field(
        "reference",
        json_schema_extra=THRESHOLD,
        description="Text to package: the source's own where there is one; what was heard; or the "
        "source's where it is close to what was heard, else what was heard.",
    )
    close_wer: float = Field(
        0.3,
        ge=0,
        json_schema_extra=THRESHOLD,
        description="Largest word error rate (characters, where a script has no spaces) of a "
        "reference that is close.",
    )

    llm_text: LlmText | None = Field(
        None,
        title="Llm Text",
        description="A language model behind HTTP that writes the texts with punctuation and case; "
        "package.text_form llm_text packages what it writes. Default: nobody is asked.",
    )

    @property
    def recognisers(self) -> tuple[Plugin, ...]:
        """All of them, the first one first."""
        return self.backends or (self.backend,)

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, data: object) -> object:
        """`backends: [a, b]` says `backend: a`, and a single one no more than that."""
        given = data.get("backends") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(given, list | tuple) or not given:
            return data
        first, *rest = given
        if "backend" in data and _named(data["backend"]) != _named(first):
            raise ValueError("backend is the first of backends: give one of the two")
        return {**data, "backend": first, "backends": given if rest else ()}

    @field_validator("when")
    @classmethod
    def _known_scores(cls, value: dict[str, Bounds]) -> dict[str, Bounds]:
        if unknown := [name for name in value if name not in DOUBTS]:
            raise ValueError(f"{unknown[0]!r} is no score of a transcript: {', '.join(DOUBTS)}")
        return value

    @model_validator(mode="after")
    def _distinct(self) -> TranscribeSettings:
        if len({each.model_dump_json() for each in self.backends}) != len(self.backends):
            raise ValueError("backends names a recogniser with equal settings twice")
        return self


def _named(value: object) -> object:
    return {"use": value} if isinstance(value, str) else value


#: `wenet` stands for `{use: wenet}`.
Format = Annotated[
    Plugin,
    BeforeValidator(
        _named, json_schema_input_type=Annotated[Plugin | str, Shelf("formats", "Format")]
    ),
]


class PackageSettings(StageSettings):
    """What is published, and when publishing is refused."""

    formats: tuple[Format, ...] = Field(
        (Plugin(use="wenet"),),
        json_schema_extra=THRESHOLD,
        min_length=1,
        description="What is written of a version, each once.",
    )
    audio: Literal["enhanced", "original", "both"] = Field(
        "enhanced",
        json_schema_extra=THRESHOLD,
        description="Which audio of a clip is packaged: what the step enhance gave, where it is "
        "on; the original; or both, as two fields of formats that can hold them.",
    )
    compression: Literal["none"] = Field(
        "none",
        json_schema_extra=THRESHOLD,
        description="Of tars: none; a compressed one cannot be read in parts.",
    )
    text_form: Literal["as_is", "normalised", "llm_text"] = Field(
        "as_is",
        json_schema_extra=THRESHOLD,
        description="as_is: texts as the source or the recogniser writes them; normalised: "
        "lower case, no punctuation, numbers in words by language; llm_text: with the punctuation "
        "and case of transcribe.llm_text, where it changed no word.",
    )
    seed: int = Field(0, json_schema_extra=THRESHOLD, description="Order of clips in shards.")
    splits: dict[str, float | Split] = Field(
        {},
        json_schema_extra=THRESHOLD,
        description="Splits beside train: a fraction of the hours, {hours: …} or {list: …} each. "
        "No speaker and no recording is in two, and what was published stays where it is.",
    )
    resplit: bool = Field(
        False,
        json_schema_extra=THRESHOLD,
        description="Deal the splits anew: what was published may come to another one.",
    )
    weights: dict[str, float] = Field(
        {},
        json_schema_extra=THRESHOLD,
        description="Share of a dataset's clips that is packaged, by its name; above 0, up to 1.",
    )
    max_hours_per_speaker: float | None = Field(
        None,
        gt=0,
        json_schema_extra=THRESHOLD,
        description="Most hours of a speaker that are packaged; published clips stay first, others "
        "come by a seeded draw.",
    )
    tar_hours: float = Field(
        0.25, gt=0, json_schema_extra=THRESHOLD, description="Audio hours per tar shard, about."
    )
    readers: int = Field(
        1,
        ge=1,
        json_schema_extra=THRESHOLD,
        description="Ranks × workers of the trainer: a full layout has a multiple of it as tars.",
    )
    rebalance: Literal["grow", "full"] = Field(
        "grow",
        json_schema_extra=THRESHOLD,
        description="grow: the last version's tars stay, new clips get new ones; full: all anew.",
    )
    rebalance_above: float = Field(
        0.2,
        ge=0,
        json_schema_extra=THRESHOLD,
        description="All tars anew when the worst reader would get this fraction more than the "
        "mean.",
    )
    keep: int | None = Field(
        30,
        ge=1,
        json_schema_extra=TRANSIENT,
        description="Versions that stay: a run that publishes one removes those before the newest "
        "so many. null: all stay. Files that a newer version links stay with it.",
    )
    table_rows: int = Field(
        20_000,
        ge=1,
        json_schema_extra=THRESHOLD,
        description="A table with more rows than this is a folder of parts of about so many.",
    )
    refit: bool = Field(
        False,
        json_schema_extra=THRESHOLD,
        description="Work out anew the bounds that the first version froze.",
    )
    max_failed_fraction: float = Field(
        0.10,
        ge=0,
        le=1,
        json_schema_extra=TRANSIENT,
        description="Nothing is published when more of the recordings failed.",
    )
    max_removed_fraction: float = Field(
        0.10,
        ge=0,
        le=1,
        json_schema_extra=TRANSIENT,
        description="Nothing is published when more of the last version's recordings are gone.",
    )

    @field_validator("formats")
    @classmethod
    def _refuse_twice(cls, value: tuple[Plugin, ...]) -> tuple[Plugin, ...]:
        if len({plugin.use for plugin in value}) != len(value):
            raise ValueError("a format is named twice")
        return value

    _splits = field_validator("splits", mode="before")(portions.check_splits)
    _weights = field_validator("weights", mode="before")(portions.check_weights)

    @model_validator(mode="before")
    @classmethod
    def _refuse_compression(cls, data: object) -> object:
        wanted = data.get("compression", "none") if isinstance(data, dict) else "none"
        if wanted != "none":
            raise ValueError(
                f"compression {wanted!r} is refused: a compressed tar cannot be read in parts, so "
                "it starves readers and hangs multi-GPU training; leave package.compression out"
            )
        return data
