"""What a worker gets: the settings, and where OUT is. Small, frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from . import (
    FilterSettings,
    PackageSettings,
    Plugin,
    ResampleSettings,
    ShardSettings,
    Source,
    TranscribeSettings,
)

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Pinned:
    """The first `size` bytes of the file of decisions by people, and their hash."""

    size: int
    sha256: str


#: Languages of sources that state none, by dataset, the main one first.
Spoken = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Job:
    """Settings of one run. The last fields never change an output."""

    out: Path
    sources: tuple[Source, ...] = ()
    speakers: Plugin = field(default_factory=lambda: Plugin(use="none"))
    shard: ShardSettings = field(default_factory=ShardSettings)
    filter: FilterSettings = field(default_factory=FilterSettings)
    enhance: Plugin = field(default_factory=lambda: Plugin(use="none"))
    resample: ResampleSettings = field(default_factory=ResampleSettings)
    transcribe: TranscribeSettings = field(default_factory=TranscribeSettings)
    package: PackageSettings = field(default_factory=PackageSettings)
    reviews: Pinned | None = None  # decisions by people; None: OUT's current ones
    languages: Spoken | None = None  # of sources, by votes; None: those of the newest version
    only: frozenset[str] | None = None  # recordings to work on: a sample; None: all of a shard
    number: int = 0  # of the run in OUT
    scratch: Path | None = None  # disposable; None: TMPDIR
    common: Path | None = None  # disposable, seen by all workers; None: in OUT
    cache_bytes: int = GIB  # most PCM of a recording that is made while it is cut; 0: none
    item_timeout: float = 600.0  # s; beyond it an isolated item is quarantined as `timeout`
    memory_limit: int = 4 * GIB  # bytes; beyond it an isolated item is `out_of_memory`

    @property
    def listing(self) -> Path:
        """A folder that all workers see, for the list of recordings to probe, and the like."""
        return self.common or self.out / "manifests" / ".listing"


@dataclass(frozen=True, slots=True)
class Spent:
    """What one unit of a sample took, s; `cold`: the first one of its stage in its process."""

    recording: str
    audio: float
    wall: float
    cpu: float
    cold: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """One call. Times in s, `started` since 1970 by this machine's clock; memory in bytes."""

    worker: str
    host: str
    pid: int
    started: float
    wall: float
    cpu: float  # user and system time of all threads, and of child processes that ended in it
    rss_before: int
    rss_peak: int  # the peak during the call; if the kernel keeps none, of begin and end
    gpu: str | None = None
    gpu_percent: float | None = None  # mean share of time in which it was busy
    gpu_memory: int | None = None  # the peak on the device, of all processes


@dataclass(frozen=True, slots=True)
class Done:
    """What one stage did for one shard. `seconds` is audio, `wall` is time."""

    stage: str
    shard: str
    computed: int = 0
    reused: int = 0
    seconds: float = 0.0
    wall: float = 0.0
    load: float = 0.0  # of `wall`: until the model was in memory
    spent: tuple[Spent, ...] = ()  # unit by unit, where `Job.only` selects a sample
    cost: Cost | None = None  # by the worker
    new: bool = False  # something was published, even if every part of it was there already
    converted: int = 0  # stage filter: clips whose PCM it made, which are items of resample
    converted_seconds: float = 0.0

    @property
    def ran(self) -> bool:
        return self.computed > 0 or self.new

    def after(self, before: Done) -> Done:
        """Both results, when a stage ran again after a repair: times add up; an item counts once,
        as computed if either run computed it."""
        items = self.computed + self.reused
        computed = min(items, before.computed + self.computed)
        return replace(
            self,
            computed=computed,
            reused=items - computed,
            seconds=before.seconds + self.seconds,
            wall=before.wall + self.wall,
            load=before.load + self.load,
            spent=before.spent + self.spent,
            new=before.new or self.new,
            converted=before.converted + self.converted,
            converted_seconds=before.converted_seconds + self.converted_seconds,
        )
