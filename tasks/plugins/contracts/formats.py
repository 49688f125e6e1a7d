"""Formats write a version's clips as files that training code reads.

A version's clips are grouped into output shards of about `package.tar_hours`, numbered from 0 in
each split; all formats have the same groups. Every path is relative to the version's folder, which
is always local, and begins with `<format>/`.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from ... import storage
from ...base.json_types import JsonObject
from ...base.schema import ClipRow
from .base import PluginSettings, VersionedPlugin

if TYPE_CHECKING:
    import pyarrow as pa

    from ...base.arrays import Int16s, Int64s

Hashes = dict[str, tuple[str, int]]  # (sha256, bytes) of files, by path
Rows = Sequence[ClipRow]  # of one output shard
ReadPcm = Callable[[ClipRow], "Int16s"]  # the samples of a row, int16 [n] mono
#: A column beside those of `utterances.parquet`, for formats that name it in COLUMNS: a clip's
#: position among those of its recording in its split, which are in the order of BY_PLACE.
PLACE = "place_in_recording"
BY_PLACE = ("split", "recording", "start", "end", "id")


class PublishedFile(NamedTuple):
    """A file that the previous version published."""

    path: str  # absolute
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class OutputShard:
    """The clips of one published file or folder in one format: the work of one worker call."""

    format: str
    split: str
    number: int  # in its split
    group: int  # in the version
    clips: int
    files: tuple[str, ...]
    unchanged: tuple[PublishedFile, ...] = ()  # with this content in the previous version

    def __post_init__(self) -> None:
        """UnsafePlace if a file would lie outside its version: ids and splits come from data."""
        for path in self.files:
            storage.check_name(path)

    @property
    def path(self) -> str:
        """The main file."""
        return self.files[0]


@dataclass(frozen=True, slots=True)
class Output:
    """The folder of a version's files, and their known digests: `write` records files in `hashes`
    while their bytes are in memory; `check` finds these, in `verify` the published ones."""

    home: Path
    hashes: Hashes = field(default_factory=dict)

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing, creating its folder."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file and record its digest, with which `changed` compares."""
        with self.create(path) as file:
            file.write(data)
        self.hashes[path] = (hashlib.sha256(data).hexdigest(), len(data))

    def changed(self, path: str) -> list[str]:
        """A fault if the file differs from its record; without one, records it. For files whose
        bytes do not follow from their rows alone, because a library encodes them."""
        recorded, current = self.hashes.get(path), storage.hashed(self.home / path)
        self.hashes[path] = current
        return [] if recorded in (None, current) else [f"{path} is not what was written"]


#: `frames`: 10 ms of audio. `characters`: code points of the stripped text, one token each for a
#: character tokenizer; a BPE model makes fewer tokens of the same text.
Measure = Literal["seconds", "frames", "characters", "characters_per_frame"]
FRAMES_PER_SECOND = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """The reader drops a clip whose `measure` exceeds `limit` on this side; an equal value is
    kept."""

    setting: str  # its name in the reader's own settings; empty: the reader has none for it
    side: Literal["min", "max"]
    measure: Measure
    limit: float

    @property
    def needs_text(self) -> bool:
        return self.measure == "characters" and self.side == "min"


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """The bounds beyond which a trainer's reader drops clips, in the order in which it applies
    them."""

    reader: str  # for people
    where: str  # the part of the trainer's settings that holds the bounds
    bounds: tuple[Bound, ...]
    splits: tuple[str, ...] | None = None  # those that it filters; None: all
    languages: tuple[str, ...] | None = None  # codes without region; clips in others are dropped


class Format(VersionedPlugin):
    """Settings are thresholds: they change what is published, never what is computed."""

    @property
    @abstractmethod
    def COLUMNS(self) -> tuple[str, ...]:
        """The columns that the names and bytes of its files depend on: of `utterances.parquet`, and
        perhaps PLACE. If none has changed since the previous version, all files of a
        shard are linked from it. With `sha256_enhanced`, it writes the enhanced clip beside the
        original (`shard_store.blobs.beside`)."""

    @abstractmethod
    def files(
        self, split: str, number: int, rows: pa.Table, settings: PluginSettings
    ) -> Sequence[str]:
        """Every file of a shard, before anything is written. `rows` has the columns COLUMNS, in the
        shard's order. The first file is the main one; that of the first requested format becomes
        the column `shard`. No other shard or list may use any of these paths."""

    @abstractmethod
    def write(
        self, shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: PluginSettings
    ) -> None:
        """Create the folders and write exactly these files; equal rows must give equal bytes. Rows
        also have `shard` and `offset`: the clip's place in the first requested format. `pcm(row)`
        returns the clip, int16 [num_samples]."""

    @abstractmethod
    def check(
        self, shard: OutputShard, rows: Rows, out: Output, settings: PluginSettings
    ) -> list[str]:
        """Read the files back (order, names, texts, decoded samples against `sha256`) and return
        the faults as sentences; a damaged file may also make it raise anything. Runs after `write`,
        and in `uttermill verify`. Files that it does not compare with the rows byte for byte, it
        compares with `out.hashes`."""

    def finish(self, shards: Sequence[OutputShard], home: Path, settings: PluginSettings) -> None:
        """Write the lists over all shards, if it has any; they come in order. Streams rows from
        `home/utterances.parquet` (`tasks.formats._lists.stream`). For a version on an object store,
        `home` holds only the folders, and the files that READ_BACK and SIZED name."""

    #: Suffixes of the shard files that `finish` reads.
    READ_BACK: tuple[str, ...] = ()
    #: `finish` needs the sizes of the shard files.
    SIZED: bool = False
    #: It has a field for each of a row's `annotations` (what `package.publish` names): `values` and
    #: `types` by name; rows have none if nothing is named. They need not be in COLUMNS.
    HOLDS_ANNOTATIONS: bool = False
    #: Its lists have them, which `finish` writes from columns of `utterances.parquet`.
    LISTS_ANNOTATIONS: bool = False
    #: The bytes of a shard hold its number.
    NUMBERED: bool = False
    #: Clips that the format's usual reader drops: `run` warns about them.
    READER: ReaderLimits | None = None
    #: How to read its files, for the data card: (language, code), of which `str.format` fills in
    #: use, split, rate (Hz), audio (an ending), last (number of the split's last shard) and group.
    #: The code runs in the version's folder.
    SNIPPET: tuple[str, str] | None = None
    #: Suffixes of the files that `listing` reads.
    LISTS: tuple[str, ...] = ("/data.list", "/wav.scp", "/tarred_audio_manifest.json")
    #: (rows, settings) -> the start of each row of a shard in its main file, int64 [rows], bytes.
    offsets: Callable[[pa.Table, PluginSettings], Int64s] | None = None
    #: (home, split, head) -> what `uttermill list` prints, each path prefixed with `head/`.
    listing: Callable[[Path, str, str], list[str]] | None = None

    def holds_annotations(self, settings: PluginSettings) -> bool:
        """HOLDS_ANNOTATIONS; override if it depends on the settings."""
        return self.HOLDS_ANNOTATIONS

    def lists_annotations(self, settings: PluginSettings) -> bool:
        """LISTS_ANNOTATIONS; override if it depends on the settings."""
        return self.LISTS_ANNOTATIONS

    def rates(self, settings: PluginSettings) -> Collection[int] | None:
        """Sample rates that the clips' codec supports, Hz; None: any."""
        return None

    def columns(self, settings: PluginSettings) -> Sequence[str]:
        """Those of COLUMNS that its files depend on with these settings."""
        return self.COLUMNS

    def own_channels(self, settings: PluginSettings) -> bool:
        """Whether it writes the two channels of a clip's recording; `blobs.sides` gives their
        rows."""
        return False

    def needs(self, settings: PluginSettings) -> Collection[str]:
        """Columns of `utterances.parquet` that its settings name: a run without one of them is
        refused before it begins."""
        return ()

    def reader(self, settings: PluginSettings) -> ReaderLimits | None:
        """READER; override if it depends on the settings."""
        return self.READER

    def snippet(self, settings: PluginSettings) -> tuple[str, str] | None:
        """SNIPPET; override if it depends on the settings."""
        return self.SNIPPET

    def described(self, settings: PluginSettings, rate: int) -> JsonObject:
        """Its entry in dataset.json under `features`: what it computes of clips at `rate` Hz."""
        return {}
