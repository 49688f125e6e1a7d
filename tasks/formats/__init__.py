"""Shelf of published formats: one file is one format. `wenet_raw.py` is the smallest to copy.

A plug-in has

    VERSION: int                # raise it when the bytes of a shard change
    COLUMNS: tuple[str, ...]    # the columns that the names and bytes of its files depend on: of
                                # `utterances.parquet`, and those that `derived` adds
    class Settings(StageSettings)       # mark fields THRESHOLD: they change what is published

    def files(split: str, number: int, rows: pa.Table, settings) -> Sequence[str]
    def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings) -> None
    def check(shard: OutputShard, rows: Rows, out: Output, settings) -> list[str]
    def finish(shards: Sequence[OutputShard], home: Path, settings) -> None

and, where it needs them,

    READ_BACK = (".json",)      # suffixes of the shard files that `finish` reads
    SIZED = True                # `finish` asks for the sizes of the shard files
    PROVES_SAMPLES = True       # `check` compares every sample of every clip
    NUMBERED = True             # the bytes of a shard hold its number
    READER = ReaderLimits(...)  # clips that the format's usual reader drops: `run` warns about them
    def offsets(rows: pa.Table, settings) -> NDArray[int64]
    def derived(rows: pa.Table, settings) -> dict[str, pa.Array]
    def listing(home: Path, split: str, head: str) -> list[str]

A version's clips are grouped into output shards of about `package.tar_hours`, numbered from 0 in
each split. All formats have the same groups; one worker call writes one group in one format. Every
path is relative to the version's folder, which is always local, and begins with `<format>/`.

- `files` names every file of a shard before anything is written. `rows` has the columns COLUMNS, in
  the shard's order. The first file is the main one: no two shards share it, and that of the first
  requested format becomes the column `shard`. No other shard or list may use any of these paths. If
  nothing in COLUMNS has changed since the previous version, all files are linked from it; otherwise
  all are written.
- `write` makes the folders and writes exactly these files. Equal rows must give equal bytes on any
  machine at any time. `pcm(row)` returns the clip, int16 [num_samples]; with PROVES_SAMPLES, nobody
  has compared it with the row's `sha256` yet, and `check` has to.
- `check` reads the files back (order, names, texts, decoded samples against `sha256`) and returns
  the faults as sentences; a damaged file may also make it raise anything. It runs after `write`,
  and again in `uttermill verify`. Rows also have `shard` and `offset`: the clip's place in the
  first requested format. Files that `check` does not compare byte for byte with the rows, it
  compares with `out.hashes`.
- `finish` writes the lists over all shards, which come in order. It streams rows from
  `home/utterances.parquet` (`_rows.stream`). For a version on an object store, `home` has only the
  folders and what READ_BACK and SIZED ask for.
- `derived` computes columns from ALL rows of the version, one value a row, such as a clip's place
  in its recording. They are passed to `files`, `write` and `check`, and never published: `verify`
  computes them again. So they must not depend on the order of the rows, nor on `shard`,
  `generation` and `offset`; the published columns they follow from belong in COLUMNS.
- `offsets` returns where each row of a shard begins in its main file, in bytes. `listing` returns
  what `uttermill list` prints, each path prefixed with `head/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tasks import storage
from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats._reader_limits import FRAMES_PER_SECOND, Bound, ReaderLimits

__all__ = [
    "FRAMES_PER_SECOND",
    "Bound",
    "Hashes",
    "Output",
    "OutputShard",
    "PublishedFile",
    "ReadPcm",
    "ReaderLimits",
    "Rows",
]

Hashes = dict[str, tuple[str, int]]  # (sha256, bytes) of files, by path
Rows = Sequence[Row]
ReadPcm = Callable[[Row], Pcm]


class PublishedFile(NamedTuple):
    """A file of the previous version."""

    path: str  # absolute
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class OutputShard:
    """One group of clips in one format: what one worker call writes."""

    format: str
    split: str
    number: int  # in its split
    group: int  # in the version
    clips: int
    files: tuple[str, ...]
    unchanged: tuple[PublishedFile, ...] = ()  # the same content in the previous version, if any

    @property
    def path(self) -> str:
        """The main file."""
        return self.files[0]


@dataclass(frozen=True, slots=True)
class Output:
    """The folder that a version's files are written to or read from, and their known digests.

    `write` records files in `hashes` while their bytes are at hand, so that nobody reads them only
    to hash them. `check` finds there what `write` recorded; in `verify`, what was published.
    """

    home: Path
    hashes: Hashes = field(default_factory=dict)

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing; makes its folder."""
        target = self.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file and record its digest: `changed` compares with that."""
        with self.create(path) as file:
            file.write(data)
        self.hashes[path] = (hashlib.sha256(data).hexdigest(), len(data))

    def changed(self, path: str) -> list[str]:
        """A fault if the file is not the recorded one; records it if there is no record.

        For files whose bytes do not follow from their rows alone, because a library encodes them.
        """
        known, found = self.hashes.get(path), storage.hashed(self.home / path)
        self.hashes[path] = found
        return [] if known in (None, found) else [f"{path} is not what was written"]
