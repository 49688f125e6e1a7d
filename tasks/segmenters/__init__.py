"""Shelf of segmenters: they cut one recording, streamed in blocks, into spans. A plug-in has

    VERSION: int                                      # raise it when the cuts change
    class Settings(StageSettings)
    def start(settings, rate: int, given: Sequence[Segment]) -> Segmenter

and may have, for the recipe, `identity(settings)`, the hash of a model that it cuts by, and
`uses_speakers(settings)`, whether the speakers of given segments move its cuts.

Spans of kind `utterance` may overlap (given segments); the spans of a recording together cover
each of its samples at least once, which `tasks.accounting.ledger` checks against the decoded count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["utterance", "non_speech", "unsegmented"]


@dataclass(frozen=True, slots=True)
class Span:
    """Samples `start` (included) to `end` (not) of a recording, at its native rate.

    `given` is the index of the source's segment that it is: its text is that segment's. `turn` is
    the index of the segment that it is a part of: it has that one's speaker, and no text.
    `reason` says why a span of kind `unsegmented` is none. An utterance of no samples is a given
    segment that lies outside.
    """

    start: int
    end: int
    kind: Kind = "utterance"
    given: int | None = None
    reason: str | None = None
    turn: int | None = None


class Segmenter(Protocol):
    def push(self, block: NDArray[np.float32]) -> list[Span]:
        """Take the next samples, float32 [n, channels]; return the spans that are now settled."""

    def finish(self) -> list[Span]:
        """The recording ended: return the rest."""

    @property
    def needed_from(self) -> int:
        """First sample that a span still to come may contain; earlier ones may be let go."""
