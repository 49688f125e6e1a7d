"""The contract of a stage that works shard by shard, and the lookup of stages by name.

Stages are modules of this folder, like plug-ins: `filter`, `resample` and `transcribe`. A stage
finds what a shard lacks, computes it in order, and defines how a failed unit is recorded;
`tasks.stages.stage` does everything else: reuse, commits, isolation, counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeVar, cast

import pyarrow as pa

from ..base.schema import AnyRow, RecordingRow
from ..plugins.contracts import filled
from ..settings.job import Job
from ..shard_store.manifest import Footer
from ..shard_store.shard_view import ShardView

PER_SHARD = ("filter", "resample", "transcribe")
STAGES = ("shard", *PER_SHARD, "package")  # of a run, in order


class Work(Protocol):
    """The smallest piece of work for a disposable process."""

    @property
    def name(self) -> str:
        """Its name, for people."""


class Unit(Work, Protocol):
    """What a stage computes at a time. Frozen and picklable."""

    @property
    def recording_name(self) -> str:
        """Its recording, as in the column `recording`."""

    @property
    def items(self) -> int:
        """The number of items that it computes."""

    @property
    def seconds(self) -> float:
        """Its audio, s."""


@dataclass(frozen=True, slots=True)
class OfRecording:
    """A unit within one recording."""

    recording: RecordingRow

    @property
    def name(self) -> str:
        return str(self.recording["recording"])

    @property
    def recording_name(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        return 1


W = TypeVar("W", bound=Work)
U = TypeVar("U", bound=Unit)


class Worker(Protocol[W]):
    """A module that can run isolated: a stage, or `probe`."""

    def compute(self, units: list[W], job: Job) -> Iterator[Sequence[AnyRow]]:
        """The rows of each unit, in order. An unusable item gives the row of its failure; `pcm` in
        a row is its int16 samples, which are not stored yet. A stage may give rows of the next one
        where it has what that needs."""

    def failure(self, unit: W, code: str, detail: str) -> Sequence[AnyRow]:
        """The rows of a unit that killed its process or exceeded its time."""


class StageModule(Worker[U], Protocol[U]):
    @property
    def SCHEMA(self) -> pa.Schema:
        """The schema of its rows."""

    def todo(self, shard: ShardView) -> tuple[list[U], int]:
        """The units that the shard lacks, and the number of its items."""


class Stage(StageModule[U], Protocol[U]):
    #: Units are computed together: the time of a single one cannot be measured.
    BATCHED: bool = False

    def rounds(self, job: Job) -> int:
        """How often `todo` is called at most: results may show that more is missing."""
        return 1

    def meta(self, job: Job) -> Footer:
        """Metadata for the footer of a part, besides stage and shard; JSON."""
        return {}

    def schema_of(self, rows: Sequence[AnyRow]) -> pa.Schema:
        """The schema of these rows, if some need extra columns."""
        return self.SCHEMA

    def load(self, job: Job) -> None:
        """Load its model into memory, if it has one."""


@cache
def find(stage: str) -> Stage[Unit]:
    """filter, resample or transcribe, with defaults for members that the module omits."""
    return cast(Stage[Unit], filled(_module(stage), Stage))


def worker(name: str) -> Worker[Work]:
    """The module of a stage, or of `probe`."""
    return cast(Worker[Work], _module(name))


def _module(name: str) -> ModuleType:
    return import_module(f"uttermill.tasks.stages.{name}")
