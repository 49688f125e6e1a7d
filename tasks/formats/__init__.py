"""Shelf of published formats: one file here is one format. A plug-in has

    VERSION: int                # raise it when the bytes of a piece change
    COLUMNS: tuple[str, ...]    # what the names and bytes of a piece's files depend on: columns of
                                # `utterances.parquet`, and those of `derived`
    class Settings(StageSettings)            # mark fields THRESHOLD: they change what is published

    def files(split: str, number: int, rows: pa.Table, settings) -> Sequence[str]
    def write(
        piece: Piece, rows: list[Row], pcm: Callable[[Row], Pcm], home: Path, settings,
        hashes: Hashes,
    ) -> None
    def check(piece: Piece, rows: list[Row], home: Path, settings, hashes: Hashes) -> list[str]
    def finish(pieces: Sequence[Piece], home: Path, settings) -> None

and, where it needs them,

    READ_BACK = (".json",)      # endings of files of a piece that `finish` reads
    SIZED = True                # `finish` asks for the sizes of a piece's files
    PROVES_SAMPLES = True       # `check` compares every sample of every clip, whatever the settings
    NUMBERED = True             # the number of a piece stands in its bytes
    READER = _readers.WENET     # limits by which the format's usual reader drops clips: `run` warns
    def offsets(rows: pa.Table, settings) -> NDArray[int64]
    def derived(rows: pa.Table, settings) -> dict[str, pa.Array]
    def listing(home: Path, split: str, head: str) -> list[str]

A version's clips are dealt into groups of about `package.tar_hours`, numbered from 0 in each split,
and a piece is what one worker call writes of one group. All formats have the same groups. `home` is
the folder of the version, in which everything lies under `<format>/`; all paths are relative to it.

`files` names every file of a piece before a byte is written; `rows` has the columns COLUMNS, in the
piece's order (`write` and `check` get `shard` and `offset` too, where the first format has them).
The first file is the main one: no two pieces share it, and that of the first format asked for
stands in the column `shard`. No other piece or list may have any of these paths. When nothing in
COLUMNS has changed since the last version, all files of a piece are linked from it; else it is
written whole. `write` makes parent folders, writes exactly these files, and must give equal bytes
for equal rows, whatever the machine or the clock; `pcm(row)` reads a clip, int16 [num_samples],
which nobody has compared with the row's `sha256` yet where the format says PROVES_SAMPLES: its
`check` does, of what was written.
`check` reads them all back: order, names, texts, decoded samples against the row's `sha256`; it
returns faults in words, and may fail in any way on a damaged file. It runs after `write`, and again
in `uttermill verify`. Of a file whose bytes all passed through their hands both may put (sha256,
bytes) into `hashes`, so that nobody reads it once more. `check` finds there what `write` put (in
`verify`, what was published): such a file it compares to the last byte, with its rows or with this
hash. `finish` writes lists over all pieces (in their order);
what it needs of rows it streams from `home/utterances.parquet` (`_rows.stream`), which has the
groups in the order of the pieces. `home` is always a local folder: of a version on an object store,
`write` and `check` find in it the piece's own files, `finish` the folders and what it asks for by
READ_BACK and SIZED.

`derived` gives columns that follow from ALL rows of the version (a clip's place in its recording),
one value a row. They reach `files`, `write` and `check` as columns of the rows and are never
published: `verify` works them out again. So they must not depend on the order of the rows, nor on
`shard`, `generation` and `offset`; and published columns that they follow from belong in COLUMNS.
`offsets` tells where each row of a piece begins in its main file; `listing` is what `uttermill
list` prints, each path with `head/` before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
