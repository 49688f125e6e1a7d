"""Settings of sources, and of the stages shard, filter and resample; the CLI, the flow's
parameters, the UI's form, the deployment file and the tests all use these models. Plug-ins are
named `{use: <file name>, ...its own settings}`; `tasks.plugins` checks those."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from ..base import language_codes
from ..base.json_types import JsonObject
from .base import (
    READ,
    SWITCH,
    WORDS,
    Masked,
    Plugin,
    Shelf,
    StageSettings,
    Threshold,
    Transient,
)

Diarizer = Annotated[Plugin, Shelf("diarizers", "Diarizer")]
Segmenter = Annotated[Plugin, Shelf("segmenters", "Segmenter")]
Filter = Annotated[Plugin, Shelf("filters", "Filter", listed=True)]
Enhancer = Annotated[Plugin, Shelf("enhance", "Enhancer")]
Resampler = Annotated[Plugin, Shelf("resamplers", "Resampler")]
Level = Annotated[Plugin, Shelf("levels", "Level", listed=True)]
DAMAGE = "decode_faults"  # the filter that finds damage


class Source(Masked):
    """One source; `kind` names a file in `tasks/sources/`, which checks the rest."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field("folder", description="Kind of source.")
    path: str = Field(description="Folder, list or file to read.")

    @property
    def options(self) -> JsonObject:
        return dict(self.model_extra or {})


#: A source in the settings of a run; its form shows the settings of each kind.
AnySource = Annotated[Source, Shelf("sources", "Source", listed=True)]


class SourceSettings(StageSettings):
    """Settings that all kinds of sources share; each kind adds its own."""

    kind: str
    path: str = Field(description="Folder, list or file to read.", json_schema_extra=READ)
    name: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_-]{0,40}$",
        description="Dataset name in ids.",
        json_schema_extra=WORDS,
    )
    licence: str | None = Field(
        None, description="Carried through to the data card.", json_schema_extra=WORDS
    )
    citation: str | None = Field(
        None,
        description="How to cite it, in words or as BibTeX; carried through to the data card.",
        json_schema_extra=WORDS,
    )
    language: str | None = Field(
        None,
        description="Forces this language (ISO 639-1) for ASR; its English name will do.",
        json_schema_extra=WORDS,
    )
    rttm: str | None = Field(
        None,
        description="RTTM file with who speaks when, for `speakers: {use: given}`; X.rttm beside "
        "a recording is read without it.",
        json_schema_extra=READ,
    )
    track: Literal["default", "all"] | Annotated[int, Field(ge=0)] = Field(
        "default",
        description="Audio track of files that have several (films, screen recordings): the one "
        "flagged as default, or the first that is not silent; its number from 0; or all, each as a "
        "recording of its own.",
    )
    channels: Literal["mix", "first", "apart", "auto"] | Annotated[int, Field(ge=0)] = Field(
        "mix",
        description="Channels of a file where the source names none: their mix; the first, or the "
        "one of this number from 0; apart, each as a recording of its own; auto: apart where they "
        "hold different voices, as in a call, else the mix.",
    )
    follow_links: bool = Field(
        False,
        description="Read what links in the source's folder lead to outside of it; off: they are "
        "skipped, as `link_outside`. The path itself, and files that a list names, may be links.",
        json_schema_extra=SWITCH,
    )
    expect_broken: bool = Field(
        False, description="Exempt from max_failed_fraction: broken files are normal here."
    )

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels that the source keeps."""
        return ()

    def speaker_of(self, path: str) -> str | None:
        """Who speaks in the recording `path`, if the source names nobody."""
        return None

    @field_validator("language")
    @classmethod
    def _as_code(cls, language: str | None) -> str | None:
        """Names become codes. What cannot be read stays, and is refused before a run."""
        return (language_codes.read(language) if language else None) or language


class ShardSettings(StageSettings):
    """Grouping of recordings into shards, the unit of work, checkpoint and retry."""

    hours: float | None = Transient(
        None,
        "Audio hours per shard; default: new hours / 64, between 1 min (15 min with no "
        "recogniser) and 1 h, or, beyond 20,000 h of audio, 1/20,000 of it.",
        gt=0,
        le=24,
    )
    settle_seconds: float = Transient(
        2.0,
        "A file changed more recently than this is checked twice; one that is still growing waits "
        "for the next run.",
        ge=0,
    )
    probe_batch: int | None = Transient(
        None, "Recordings probed per worker call; if not set, 50 to 200 by their number.", ge=1
    )
    rehash: float | None = Transient(
        None,
        "Share of the known local recordings whose bytes a run hashes again, a different share "
        "each time; default: 0.03, but no longer than 5 s.",
        ge=0,
        le=1,
    )
    retry: bool = Transient(
        False, "Try crashed, timeout, out_of_memory, asr_error and no_answer items again."
    )


class FilterSettings(StageSettings):
    """Cutting into utterances, measures, and limits on them."""

    segmenter: Segmenter = Field(
        Plugin(use="auto"), description="How recordings are cut into utterances."
    )
    filters: tuple[Filter, ...] = Field(
        tuple(Plugin(use=name) for name in ("duration", "silence", "clipping", DAMAGE)),
        description="Measures of utterances, with limits on what is kept; replaces the whole "
        "default list. What guards against broken audio stays: `damaged`, `non_finite`, and "
        "`channels_cancel` of resample.",
    )
    damaged: Literal["drop", "keep"] = Threshold(
        "drop",
        "drop: an utterance that decode faults touch is not kept, whatever `filters` lists; keep: "
        "it is. Limits of a listed decode_faults go first.",
    )
    non_finite: Literal["fail", "silence"] = Field(
        "fail",
        description="fail: a recording with a sample that is NaN or infinite is not used; silence: "
        "such samples are taken as zero.",
    )
    duplicate_files: Literal["drop", "keep"] = Threshold(
        "drop",
        "drop: a new recording with the bytes of another is not processed again, unless its source "
        "states another text, speaker, language or other spans; keep: it is.",
    )
    max_hours: float = Threshold(
        48.0, "Longest recording, hours; a longer one fails as `too_long`.", gt=0, le=100_000
    )
    max_expansion: float = Threshold(
        3000.0,
        "Most bytes of 16-bit audio that one byte of a recording may decode to, beyond its first "
        "ten minutes; a recording that passes it fails as `expands`.",
        ge=1,
    )
    measure_all: bool = Transient(
        False, "Also take costly measures of utterances that a cheap one already rejects."
    )

    @property
    def all_filters(self) -> tuple[Plugin, ...]:
        """The filters of the list, and `decode_faults`, which always runs."""
        if self.damaged == "drop" and DAMAGE in map(attrgetter("use"), self.filters):
            return self.filters  # as mostly
        listed = next((p for p in self.filters if p.use == DAMAGE), Plugin(use=DAMAGE))
        limits = {"max": None} if self.damaged == "keep" else {}
        damage = Plugin.model_validate({"use": DAMAGE, **limits, **listed.options})
        given = [damage if plugin.use == DAMAGE else plugin for plugin in self.filters]
        return tuple(given if damage in given else [*given, damage])


class ResampleSettings(StageSettings):
    """Target rate, mono rule and resampler; the result is int16, clamped and rounded."""

    rate: int = Field(16000, ge=4000, le=192000, description="Target sample rate, Hz.")
    mono: Literal["mean", "first"] | int = Field(
        "mean", description="Mean of the channels, the first one, or a channel's index from 0."
    )
    channels_cancel: Literal["fail", "keep"] = Field(
        "fail",
        description="fail: an utterance whose channels cancel each other in the mean is not used; "
        "keep: what the mean leaves of it is.",
    )
    resampler: Resampler = Field(
        Plugin(use="soxr_hq"), description="The resampler, which changes the sample rate."
    )
    levels: tuple[Level, ...] = Field(
        (), description="Steps that an utterance goes through after resampling, in this order."
    )
