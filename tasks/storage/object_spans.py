"""Spans of objects, many at once: each request to a store costs about as much as a megabyte."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from tasks.base.errors import RunError
from tasks.storage.containment import inside
from tasks.storage.filesystem import files_in
from tasks.storage.store import ReadSpan, Span
from tasks.storage.store_errors import store_errors

AHEAD_BYTES = 16 << 20  # that are fetched at once


@contextmanager
def opened(folder: Path, wanted: Sequence[Span]) -> Iterator[ReadSpan]:
    """Fetches the next `AHEAD_BYTES` of `wanted` at once."""
    places = {span: place for place, span in enumerate(wanted)}
    fetched: dict[Span, bytes | None] = {}

    def read(span: Span) -> bytes | None:
        if span not in fetched:
            ahead, size = [span], span[2] - span[1]
            for span_ahead in islice(wanted, places[span] + 1, None):
                size += span_ahead[2] - span_ahead[1]
                if size > AHEAD_BYTES:
                    break
                ahead.append(span_ahead)
            fetched.clear()
            fetched.update(zip(ahead, ranges(folder, ahead), strict=True))
        return fetched[span]

    yield read


def ranges(folder: Path, wanted: Sequence[Span]) -> list[bytes | None]:
    """Bytes of spans below a folder, all at once; see `ReadSpan`."""
    files, key = files_in(folder)
    for name in {name for name, _, _ in wanted}:
        inside(folder, name)
    paths = [f"{key}/{name}" for name, _, _ in wanted]
    low, high = [low for _, low, _ in wanted], [high for _, _, high in wanted]
    answers = files.cat_ranges(paths, low, high, on_error="return")
    return [_answer(folder, answer) for answer in answers]


def _answer(folder: Path, answer: bytes | Exception) -> bytes | None:
    if not isinstance(answer, Exception):
        return bytes(answer)
    try:
        with store_errors(folder):
            raise answer
    except FileNotFoundError:
        return None
    except RunError:
        if isinstance(answer, OSError) and answer.errno == errno.EINVAL:  # beyond the object's end
            return b""
        raise
