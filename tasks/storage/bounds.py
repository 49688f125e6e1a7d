"""How much memory a list or table of others may take, known before it is taken.

A file may hold far more than its size says: text that is compressed, or a Parquet dictionary. Each
reader of lists and tables asks here, so that all of them refuse the same.
"""

from __future__ import annotations

#: A longer line is a bad line; it is skipped without being held in memory.
MAX_LINE_BYTES = 4 << 20
#: Of one text: the transcript of ten hours has half as many.
MAX_TEXT_BYTES = 1_000_000
#: Of a JSON file in an OUT: dataset.json of a million files has as many.
MAX_JSON_BYTES = 128 << 20
#: Of a path that a list names: Linux takes no longer one.
MAX_PATH_BYTES = 4096
#: Of the texts that are held until they are handed on, as rows or record batches.
BATCH_BYTES = 64 << 20
#: A list may expand to so many bytes, and FOLD times its size. Gzip shrinks lists of cuts to a
#: twentieth; bombs, to a thousandth.
ALWAYS_BYTES, FOLD = 64 << 20, 64
#: Rows of a table: so many, and one for each byte of it, since no two rows name the same audio.
ALWAYS_ROWS = 100_000
#: Unusable entries that each list may have, whatever their share.
MOST_UNUSABLE = 100_000


def expanded(size: int) -> int:
    """Bytes that a list of this size on disk may hold."""
    return ALWAYS_BYTES + FOLD * size


def rows(size: int) -> int:
    """Rows that a table of this size on disk may hold."""
    return ALWAYS_ROWS + size


def hopeless(unusable: int, entries: int) -> bool:
    """Whether to give up on a list: most of what was read of it is unusable, and that is much."""
    return unusable > MOST_UNUSABLE and 2 * unusable > entries


def too_long(size: int) -> str | None:
    """What is wrong with a text of so many bytes, or None."""
    if size <= MAX_TEXT_BYTES:
        return None
    return f"a text of {megabytes(size)}; at most {megabytes(MAX_TEXT_BYTES)} are read"


def megabytes(size: int) -> str:
    """A size for messages: `8.4 MB`."""
    return f"{size / 1e6:.1f} MB"
