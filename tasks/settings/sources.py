"""Settings of sources: the entries of a job, and the fields that all kinds share."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from tasks.json_types import JsonObject
from tasks.settings.base import Masked, Shelf, StageSettings


class Source(Masked):
    """One source of recordings; `kind` names a file in `tasks/sources/`, which checks the rest."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field("folder", description="What is read.")
    path: str = Field(description="Folder, list or file to read.")

    @property
    def options(self) -> JsonObject:
        return dict(self.model_extra or {})


#: A source in the settings of a run, whose form shows what its kind has.
AnySource = Annotated[Source, Shelf("sources", "Source", listed=True)]


class SourceSettings(StageSettings):
    """Fields that all kinds of sources share; each kind adds its own."""

    kind: str
    path: str = Field(description="Folder, list or file to read.")
    name: str = Field("", pattern=r"^[A-Za-z0-9_-]{0,40}$", description="Dataset name in ids.")
    licence: str | None = Field(None, description="Carried through to the data card.")
    language: str | None = Field(None, description="Forces this language (ISO 639-1) for ASR.")
    rttm: str | None = Field(
        None,
        description="RTTM file with who speaks when, for `speakers: {use: given}`; X.rttm beside "
        "a recording is read without it.",
    )
    expect_broken: bool = Field(
        False, description="Exempt from max_failed_fraction: broken files are normal here."
    )
