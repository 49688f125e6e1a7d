"""The resampled audio: int16 little-endian PCM of many utterances in one file per part.

There is one file per part, not per utterance, so that millions of clips are not millions of files.
Every read is checked against the hash in the manifest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NotRequired, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .. import storage
from ..base.errors import CorruptManifest
from ..base.schema import AudioRow, ClipRow, EnhancedRow
from . import hidden

Pcm = NDArray[np.int16]


class MadeAudio(EnhancedRow):
    """A row with samples that are not stored yet."""

    pcm: NotRequired[Pcm]


Row = TypeVar("Row", AudioRow, ClipRow)
_Place = tuple[storage.Span, str]  # where PCM lies in OUT/audio, and its sha256


def folder(out: Path, shard: str) -> Path:
    return storage.inside(out / "audio", shard)


def files(out: Path, shard: str) -> list[Path]:
    """The shard's blobs, sorted by name, and no other files."""
    names = storage.names(folder(out, shard), ".pcm")
    return [path for path in names if NAME.fullmatch(path.stem)]


NAME = re.compile(r"[0-9a-f]{16}")  # of a blob: the start of its hash
#: Patterns for the columns that locate PCM; RE2.
_PLACES = {
    "work_shard": r"\Ashard-[0-9]{6,}\z",
    "blob": r"\A[0-9a-f]{16}\.pcm\z",
    **dict.fromkeys(("beside_blob", "left_blob", "right_blob"), r"\A[0-9a-f]{16}\.pcm\z"),
}


_COUNTS = (
    *("offset", "blob_offset", "beside_offset", "left_offset", "right_offset"),
    "num_samples",
)


def sound_places(table: pa.Table) -> bool:
    """Whether the columns of a table that locate PCM name valid places in blobs."""
    columns = {*table.column_names}
    for name in _PLACES.keys() & columns:
        if pc.any(pc.invert(pc.match_substring_regex(table[name], _PLACES[name]))).as_py():
            return False
    return not any((pc.min(table[name]).as_py() or 0) < 0 for name in columns.intersection(_COUNTS))


def beside(row: ClipRow) -> list[ClipRow]:
    """The row of a packaged clip's enhanced twin, when both are packaged."""
    if (sha := row.get("sha256_enhanced")) is None:
        return []
    blob, offset = row.get("beside_blob"), row.get("beside_offset")
    stored = row.get("beside_sha256")
    twin: ClipRow = {**row, "blob": blob, "blob_offset": offset, "sha256": sha}
    return [{**twin, "stored_sha256": stored, "sha256_left": None, "sha256_right": None}]


def sides(row: ClipRow) -> list[ClipRow]:
    """The rows of both channels of a packaged clip, if they are packaged."""
    hashes = row.get("sha256_left"), row.get("sha256_right")
    places = (
        (row.get("left_blob"), row.get("left_offset")),
        (row.get("right_blob"), row.get("right_offset")),
    )
    return [
        {**row, "blob": blob, "blob_offset": offset, "sha256": sha, "stored_sha256": None}
        for sha, (blob, offset) in zip(hashes, places, strict=True)
        if sha is not None
    ]


def sha256(pcm: Pcm) -> str:
    return hashlib.sha256(np.ascontiguousarray(pcm, dtype="<i2").data).hexdigest()


def sizes(out: Path, shard: str) -> Callable[[str], int]:
    """A function from the name of a shard's blob to its bytes; -1 if it is missing."""
    return storage.store_of(out).sizes(folder(out, shard))


def present(row: AudioRow, sizes: Callable[[str], int]) -> bool:
    """Whether an audio row's blob exists and is long enough."""
    return sizes(row["blob"]) >= int(row["offset"]) + 2 * int(row["num_samples"])


def read(out: Path, shard: str, row: AudioRow) -> Pcm:
    """PCM of one utterance, int16 [num_samples]. Raises CorruptManifest if it is missing or does
    not match its hash."""
    with stored(out, shard, [row]) as pcm:
        return pcm(row)


def stored(
    out: Path, shard: str, rows: Sequence[AudioRow]
) -> AbstractContextManager[Callable[[AudioRow], Pcm]]:
    """`reading` for rows of a shard's manifest."""

    def place(row: AudioRow) -> _Place:
        low = row["offset"]
        return (f"{shard}/{row['blob']}", low, low + 2 * row["num_samples"]), row["sha256"]

    return _opened(out, rows, place)


@contextmanager
def reading(out: Path, rows: Iterable[ClipRow]) -> Iterator[Callable[[ClipRow], Pcm]]:
    """A function that returns the PCM of a planned row, int16 [num_samples], with its `muted` spans
    silenced; fastest in the order of `rows`.

    It raises CorruptManifest if the blob is missing, too short or another one.
    """

    def place(row: ClipRow) -> _Place:
        low = row["blob_offset"]
        assert low is not None  # looked up for rows of the previous version
        file, high = f"{row['work_shard']}/{row['blob']}", low + 2 * row["num_samples"]
        return (file, low, high), row.get("stored_sha256") or row["sha256"]

    with _opened(out, rows, place) as pcm:
        yield lambda row: hidden.silenced(pcm(row), row.get("muted"))


@contextmanager
def _opened(
    out: Path, rows: Iterable[Row], place: Callable[[Row], _Place]
) -> Iterator[Callable[[Row], Pcm]]:
    with storage.store_of(out).spans(out / "audio", (place(row)[0] for row in rows)) as read_span:

        def pcm(row: Row) -> Pcm:
            (file, low, high), sha256 = place(row)
            path, data = f"{out}/audio/{file}", read_span((file, low, high))
            if data is None:
                raise CorruptManifest(f"audio blob {path} is gone", path)
            if len(data) != high - low or hashlib.sha256(data).hexdigest() != sha256:
                raise CorruptManifest(f"audio blob {path} does not match its manifest", path)
            return np.frombuffer(data, dtype="<i2")

        yield pcm
