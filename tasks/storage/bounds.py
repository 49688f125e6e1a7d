"""Bounds on the memory that a foreign list or table may take, checked before reading it.

A file may hold far more than its size suggests: compressed text, or a Parquet dictionary. Every
reader of lists and tables uses these bounds, so that all of them refuse the same files.
"""

from __future__ import annotations

#: A longer line counts as bad, and is skipped without being held in memory.
MAX_LINE_BYTES = 4 << 20
#: Of one text: the transcript of ten hours takes half of it.
MAX_TEXT_BYTES = 1_000_000
#: Of a JSON file in an OUT: the size of dataset.json with a million files.
MAX_JSON_BYTES = 128 << 20
#: Of a path in a list: Linux's own limit.
MAX_PATH_BYTES = 4096
#: Of texts buffered before they go on as rows or record batches.
BATCH_BYTES = 64 << 20
#: A list may expand to ALWAYS_BYTES plus FOLD times its size. Gzip shrinks lists of cuts to a
#: twentieth; bombs, to a thousandth.
ALWAYS_BYTES, FOLD = 64 << 20, 64
#: Rows of a table: so many plus one per byte of it, since no two rows name the same audio.
ALWAYS_ROWS = 100_000
#: Unusable entries that any list may have, whatever their share.
MOST_UNUSABLE = 100_000


def expanded(size: int) -> int:
    """Most bytes that a list of this size on disk may hold."""
    return ALWAYS_BYTES + FOLD * size


def rows(size: int) -> int:
    """Most rows that a table of this size on disk may hold."""
    return ALWAYS_ROWS + size


def hopeless(unusable: int, entries: int) -> bool:
    """Whether to give up on a list: it has many unusable entries, and they are the majority."""
    return unusable > MOST_UNUSABLE and 2 * unusable > entries


def too_long(size: int) -> str | None:
    """The complaint about a text of so many bytes, if it is too long."""
    if size <= MAX_TEXT_BYTES:
        return None
    return f"a text of {megabytes(size)}; at most {megabytes(MAX_TEXT_BYTES)} are read"


def megabytes(size: int) -> str:
    """A size for messages: `8.4 MB`."""
    return f"{size / 1e6:.1f} MB"
