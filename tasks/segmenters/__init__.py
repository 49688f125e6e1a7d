"""Shelf of segmenters: they cut one recording, streamed in blocks, into spans.

`tasks.plugins.contracts.segmenters` says what one has.
"""

from tasks.plugins.contracts.segmenters import Kind, Segmenter, Span

__all__ = ["Kind", "Segmenter", "Span"]
