"""Texts and labels that the source's segments with speakers give for a span of a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .locator import SECOND, Segment

#: How far a segment may end beyond the recording, s: times are rounded.
MOST_BEYOND = 0.15


def in_span(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> list[tuple[int, int, str]] | None:
    """(start, end, text) of the segments in samples `start` to `end`, by time, in samples from
    `start` on; None if there is none, one reaches beyond, or one has no text."""
    texts = []
    for segment, low, high in _touching(segments, start, end, rate):
        if low < start or high > end + MOST_BEYOND * rate or not segment.text:
            return None
        texts.append((low - start, min(high, end) - start, segment.text))
    return texts or None


def labels_in_span(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> list[tuple[int, int, dict[str, str]]]:
    """(start, end, labels) of the segments in samples `start` to `end`, clipped to the span and in
    samples from `start` on."""
    return [
        (
            max(low, start) - start,
            min(high, end) - start,
            {name: value for name, value in segment.labels if name not in SECOND},
        )
        for segment, low, high in _touching(segments, start, end, rate)
    ]


def _touching(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> Iterator[tuple[Segment, int, int]]:
    for segment in sorted(segments, key=lambda one: one.start):
        if segment.speaker is None or segment.end is None:
            continue
        low, high = (int(seconds * rate + 0.5) for seconds in (segment.start, segment.end))
        if low < high and high > start and low < end:
            yield segment, low, high
