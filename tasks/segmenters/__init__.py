"""Segmenters cut one recording, streamed in blocks, into spans. Their contract is
`tasks.plugins.contracts.segmenters`."""

from collections.abc import Iterable

from ..base.arrays import Float32s
from ..plugins.contracts.segmenters import Kind, Segmenter, Span


class Cover:
    """Spans that follow each other through a recording, up to sample `done`."""

    def __init__(self) -> None:
        self.done = 0
        self.spans: list[Span] = []  # since the last `take`

    def cover(self, end: int, kind: Kind = "utterance", reason: str | None = None) -> None:
        """A span up to `end`, if that is not covered yet."""
        if end > self.done:
            self.spans.append(Span(self.done, end, kind, reason=reason))
            self.done = end

    def take(self) -> list[Span]:
        spans, self.spans = self.spans, []
        return spans


class KnownSpans:
    """A segmenter that returns given spans, each as soon as its end is decoded. `start`: the sample
    of the recording at which decoding starts."""

    def __init__(self, spans: Iterable[Span] = (), start: int = 0) -> None:
        self.at = start
        self._waiting = sorted(spans, key=lambda span: span.end)[::-1]  # a stack

    def push(self, block: Float32s) -> list[Span]:
        self.at += len(block)
        ready = []
        while self._waiting and self._waiting[-1].end <= self.at:
            ready.append(self._waiting.pop())
        return ready

    def finish(self) -> list[Span]:
        rest, self._waiting = self._waiting[::-1], []
        return rest

    @property
    def needed_from(self) -> int:
        return min((self.at, *(span.start for span in self._waiting)))
