"""The settings of package: formats, splits, shares, layout, and when nothing is published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from tasks.settings import portions
from tasks.settings.base import THRESHOLD, TRANSIENT, Plugin, Shelf, StageSettings, named
from tasks.settings.portions import Split

#: `wenet` stands for `{use: wenet}`.
Format = Annotated[
    Plugin,
    BeforeValidator(
        named, json_schema_input_type=Annotated[Plugin | str, Shelf("formats", "Format")]
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
        0.25,
        gt=0,
        json_schema_extra=THRESHOLD,
        description="Audio hours per tar shard, about; more where a split has more than 40,000 of "
        "them.",
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
