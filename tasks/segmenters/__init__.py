"""Segmenters cut one recording, streamed in blocks, into spans. Their contract is
`tasks.plugins.contracts.segmenters`."""

from ..plugins.contracts.segmenters import Kind, Segmenter, Span
from ._known import KnownSpans
