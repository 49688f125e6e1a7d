"""The language of a recording, by what was detected in each of its clips.

A clip of two seconds says little about its language, a recording of fifty such clips a lot. Where
most of a recording's speech is in one language, clips that seem to be in another are heard again in
it, unless their own evidence is strong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_CLIPS = 3  # fewer are no majority over anything
LEAST_SHARE = 0.5  # of certainty: less is a recording in several languages, or no speech
#: A clip that is this sure of another language, and this long, keeps it: languages do change.
SURE_PROBABILITY = 0.9
SURE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Vote:
    """How certain each language of a recording is: the mean probability over its seconds, where
    clips in other languages count as 0. Together 1 where every clip is sure; music has little."""

    shares: Mapping[str, float]

    @property
    def language(self) -> str | None:
        """The language of the recording; None where no language has `LEAST_SHARE`."""
        best = max(self.shares, key=lambda code: (self.shares[code], code))
        return best if self.shares[best] >= LEAST_SHARE else None

    def overrules(self, row: Mapping[str, Any], seconds: float) -> bool:
        """Whether a clip of so many seconds is to be heard again in the recording's language."""
        detected, probability = _detected(row)
        sure = probability >= SURE_PROBABILITY and seconds >= SURE_SECONDS
        return self.language is not None and detected != self.language and not sure


def count(clips: Iterable[tuple[Mapping[str, Any], float]]) -> Vote | None:
    """The vote of (row of TRANSCRIPTS, seconds of the clip); None where too few clips have one."""
    weights: dict[str, float] = {}
    voters, total = 0, 0.0
    for row, seconds in clips:
        detected, probability = _detected(row)
        if detected and (row["text"] or "").strip():
            weights[detected] = weights.get(detected, 0.0) + probability * seconds
            voters, total = voters + 1, total + seconds
    if voters < LEAST_CLIPS or not total:
        return None
    return Vote({code: weight / total for code, weight in sorted(weights.items())})


def _detected(row: Mapping[str, Any]) -> tuple[str | None, float]:
    """What the recogniser detected itself, whatever it was told; rows of some have neither."""
    return row.get("detected_language"), float(row.get("detected_probability") or 0.0)
