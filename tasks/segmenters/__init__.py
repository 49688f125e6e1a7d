"""Shelf of segmenters, which cut one recording, streamed in blocks, into spans. A plug-in has

    VERSION: int                                      # raise it when the cuts change
    class Settings(StageSettings)
    def start(settings, rate: int, given: Sequence[Segment]) -> Segmenter

and may have, for the recipe, `identity(settings)`, the hash of its model, and
`uses_speakers(settings)`, whether the speakers of given segments can change its cuts.

Together the spans cover every sample at least once, which `tasks.accounting.ledger` checks against
the decoded count. Spans of kind `utterance` may overlap (given segments).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["utterance", "non_speech", "unsegmented"]


@dataclass(frozen=True, slots=True)
class Span:
    """Samples `start` (inclusive) to `end` (exclusive) of a recording, at its native rate.

    `given`: index of the source's segment that it equals; it gets that segment's text. `turn`:
    index of the segment that it is a part of; it gets that segment's speaker, and no text.
    `reason`: why a span of kind `unsegmented` is not an utterance. An utterance of no samples is a
    given segment outside of the recording.
    """

    start: int
    end: int
    kind: Kind = "utterance"
    given: int | None = None
    reason: str | None = None
    turn: int | None = None


class Segmenter(Protocol):
    def push(self, block: NDArray[np.float32]) -> list[Span]:
        """Take the next block, float32 [n, channels]; return the spans that are now final."""

    def finish(self) -> list[Span]:
        """The recording ended; return the remaining spans."""

    @property
    def needed_from(self) -> int:
        """First sample that a later span may contain; the caller may release earlier ones."""
