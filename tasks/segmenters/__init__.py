"""Segmenters cut one recording, streamed in blocks, into spans. Their contract is
`tasks.plugins.contracts.segmenters`."""

from tasks.plugins.contracts.segmenters import Kind, Segmenter, Span
from tasks.segmenters._known import KnownSpans
