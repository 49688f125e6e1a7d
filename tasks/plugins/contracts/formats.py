"""Formats write a version's clips as files that training code reads.

A version's clips are dealt into groups of about `package.tar_hours`, numbered from 0 in each split;
a piece is what one worker call writes of one group in one format. All formats have the same groups.
`home` is always a local folder, the version's, in which everything lies under `<format>/`; all
paths are relative to it. Of a version on an object store, `write` and `check` find in it only the
files of their piece, and `finish` the folders and what READ_BACK and SIZED ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from tasks.plugins.contracts.base import LoadedPlugin, VersionedModule
from tasks.schema import Row

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    ReadPcm = Callable[[Row], NDArray[np.int16]]

Hashes = dict[str, tuple[str, int]]  # (sha256, bytes) of files, by path


class Published(NamedTuple):
    """A file of the last version: its full path, sha256 and size."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`files` hold, in one format, the `clips` clips of group `group`, which is number `number` of
    its split. `same`, where not empty, are the last version's files with the same content."""

    format: str
    split: str
    number: int
    group: int
    clips: int
    files: tuple[str, ...]
    same: tuple[Published, ...] = ()

    @property
    def path(self) -> str:
        """The main file."""
        return self.files[0]


#: `frames`: 10 ms of audio. `characters`: code points of the text without blanks at its ends, one
#: token each for a character tokenizer; a BPE model makes fewer tokens of the same text.
Measure = Literal["seconds", "frames", "characters", "characters_per_frame"]
FRAMES_PER_SECOND = 100


@dataclass(frozen=True, slots=True)
class Bound:
    """The reader drops a clip whose `measure` lies beyond `limit`; a value equal to it is kept."""

    setting: str  # as the reader's own settings call it
    side: Literal["min", "max"]
    measure: Measure
    limit: float


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """All bounds of a reader, in the order in which it applies them."""

    reader: str  # for people
    where: str  # the part of the trainer's settings that holds the bounds
    bounds: tuple[Bound, ...]
    splits: tuple[str, ...] | None = None  # that it filters; None: all


class FormatModule(VersionedModule, Protocol):
    """Settings are marked THRESHOLD: they change what is published, never what is computed."""

    @property
    def COLUMNS(self) -> tuple[str, ...]:
        """All that the names and bytes of a piece's files depend on: columns of
        `utterances.parquet`, and those of `derived`. While none of them changes, the files of a
        piece are linked from the last version."""

    def files(self, split: str, number: int, rows: pa.Table, settings: Any) -> Sequence[str]:
        """Every file of a piece, before a byte is written. `rows` has COLUMNS, in the piece's
        order. The first file is the main one, which the column `shard` names where the format is
        the first of the settings; no other piece or list may have any of these paths."""

    def write(
        self,
        piece: Piece,
        rows: list[Row],
        pcm: ReadPcm,
        home: Path,
        settings: Any,
        hashes: Hashes,
    ) -> None:
        """Write exactly `piece.files`, with their parent folders: equal bytes for equal rows,
        whatever the machine or the clock.

        `rows` also have `shard` and `offset`, where the first format has them. `pcm(row)` reads a
        clip, int16 [num_samples]; with PROVES_SAMPLES nobody has compared it with the row's
        `sha256` yet. Of a file whose bytes all passed through its hands it may put (sha256, bytes)
        into `hashes`, so that nobody reads that file again.
        """

    def check(
        self, piece: Piece, rows: list[Row], home: Path, settings: Any, hashes: Hashes
    ) -> list[str]:
        """Read the files back: order, names, texts, decoded samples against each row's `sha256`.
        Returns the faults in words; may raise anything on a damaged file.

        Runs after `write`, and in `uttermill verify`. `hashes` is what `write` put there, or what
        was published: such a file is compared to the last byte, with its rows or with this hash.
        """

    def finish(self, pieces: Sequence[Piece], home: Path, settings: Any) -> None:
        """Write lists over all pieces, in their order. What it needs of rows it streams from
        `home/utterances.parquet`, which has the groups in the order of the pieces."""


class Format(FormatModule, LoadedPlugin, Protocol):
    #: Endings of a piece's files that `finish` reads.
    READ_BACK: tuple[str, ...] = ()
    #: `finish` asks for the sizes of the pieces' files.
    SIZED: bool = False
    #: `check` compares every sample of every clip, whatever the settings.
    PROVES_SAMPLES: bool = False
    #: The number of a piece stands in its bytes.
    NUMBERED: bool = False
    #: Bounds by which the format's usual reader drops clips: `run` warns.
    READER: ReaderLimits | None = None
    #: (rows, settings) -> where each row of a piece begins in its main file, int64 [rows], bytes.
    offsets: Callable[[pa.Table, Any], NDArray[np.int64]] | None = None
    #: (home, split, head) -> what `uttermill list` prints, each path after `head/`.
    listing: Callable[[Path, str, str], list[str]] | None = None

    def derived(self, rows: pa.Table, settings: Any) -> dict[str, pa.Array]:
        """Columns that follow from ALL rows of the version (a clip's place in its recording), one
        value a row. `files`, `write` and `check` get them as columns of the rows; they are never
        published: `verify` works them out again. So they must not depend on the order of the rows
        or on `shard`, `generation` and `offset`, and the published columns that they follow from
        belong in COLUMNS."""
        return {}
