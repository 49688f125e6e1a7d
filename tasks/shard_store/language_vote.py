"""The language of a recording, by a vote of its clips.

A clip of two seconds is weak evidence of its language; fifty such clips are strong evidence. If
most of a recording's speech is in one language, clips detected in another are transcribed again in
it, unless their own evidence is strong. The surer of their two texts stays: in a language that is
not spoken, Whisper writes by sound ("Zhongqiu"), translates, or invents.

Clips of other recordings do not vote: a text depends on its recording alone, so that neither new
recordings nor the division into shards change it. Nor would they help: of 97 English clips from
afar, by telephone or in noise, each by itself, three stayed in another language, and none of their
texts in English passes the default rules. Corpus-wide, the rule `language` judges a source's clips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..base.schema import TranscriptRow

LEAST_CLIPS = 3  # for a vote
LEAST_SHARE = 0.5  # below it, a recording has several languages or no speech
#: A clip this certain of another language, and this long, keeps it: speakers do switch. Clips that
#: are together this long, and such a share of the recording, keep it, too, and so do likely ones.
SURE_PROBABILITY = 0.9
SURE_SECONDS = 5.0
SURE_SHARE = 0.03
LIKELY = 0.5
#: Nats by which the mean log-probability of a clip's own text exceeds that in the recording's
#: language if it stays. Whisper base: of 18 clips of 1 to 5 s in Mandarin, Spanish and German,
#: 15 exceeded their text in English by more; of 20 doubtful English ones, none did in the language
#: that came next.
SURER = 0.1


@dataclass(frozen=True)
class Vote:
    #: By language, the mean of its probability over the seconds of all clips, with 0 for clips in
    #: other languages. The sum is 1 if every clip is certain, and small for music.
    shares: Mapping[str, float]
    #: The languages of which enough clips are certain.
    sure: frozenset[str] = frozenset()

    @cached_property
    def language(self) -> str | None:
        """The language of the recording; None if no language has `LEAST_SHARE`."""
        best = max(self.shares, key=lambda code: (self.shares[code], code))
        return best if self.shares[best] >= LEAST_SHARE else None

    def overrules(
        self, row: TranscriptRow, seconds: float, voter: TranscriptRow | None = None
    ) -> bool:
        """Whether a clip of `seconds` is transcribed again in the recording's language. `voter`:
        the row with the language that the clip voted for, if that is not the recogniser's."""
        language, probability = _detected(voter or row)
        sure = probability >= SURE_PROBABILITY and seconds >= SURE_SECONDS
        sure = sure or (language in self.sure and probability >= LIKELY)
        if self.language is None or (language != self.language and sure):
            return False
        detected = row.get("detected_language")
        return detected is not None and detected != self.language


def is_surer(row: TranscriptRow, in_it: TranscriptRow) -> bool:
    """Whether a clip keeps its own text, beside the one in its recording's language."""
    score, score_in_it = row["avg_logprob"], in_it["avg_logprob"]
    return score is not None and score_in_it is not None and score > score_in_it + SURER


def count(clips: Iterable[tuple[TranscriptRow, float]]) -> Vote | None:
    """The vote of (row of TRANSCRIPTS, seconds of the clip); None if too few clips have a
    language."""
    weights, certain = dict[str, float](), dict[str, float]()
    voters, total = 0, 0.0
    for row, seconds in clips:
        detected, probability = _detected(row)
        if detected and (row["text"] or "").strip():
            weights[detected] = weights.get(detected, 0.0) + probability * seconds
            if probability >= SURE_PROBABILITY:
                certain[detected] = certain.get(detected, 0.0) + seconds
            voters, total = voters + 1, total + seconds
    if voters < LEAST_CLIPS or not total:
        return None
    least = max(SURE_SECONDS, SURE_SHARE * total)
    sure = frozenset(code for code, length in certain.items() if length >= least)
    return Vote({code: weight / total for code, weight in sorted(weights.items())}, sure)


def _detected(row: TranscriptRow) -> tuple[str | None, float]:
    """Language and probability that the recogniser detected; some detect neither."""
    return row.get("detected_language"), float(row.get("detected_probability") or 0.0)
