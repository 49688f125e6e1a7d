"""Shelf of segmenters: they cut one recording, streamed in blocks, into spans. Their contract is
`tasks.plugins.contracts.segmenters`.
"""

from tasks.plugins.contracts.segmenters import Kind, Segmenter, Span

__all__ = ["Kind", "Segmenter", "Span"]
