"""Counts in sentences: one clip, two clips."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 clip`, `2,000 clips`. `many`: the plural, if it is not `one` and an s: `counted(n, "clip
    is", "clips are")`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
