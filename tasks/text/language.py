"""Drops utterances in another language than wanted, or whose language is a guess.

The clips of a recording vote on its language (`tasks/shard_store/utterance.py`). Whisper base
gives music and noise no language with more than 0.6. Short, plain sentences may stay below that, so
a text that the recogniser is sure of is kept. A language stated by the source is contradicted only
if the recogniser is nearly certain of another one and unsure of its text in the stated one. Nothing
is rejected if a reference confirms the text; but a text in a script in which its language is not
written always is. If a source states no language, its languages are
inferred from all its clips (`SourceLanguages`), and a clip whose language is unlikely among them is
dropped when a version is packaged; a sure text speaks for it. Published clips stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import field_validator

from ..base.arrays import Float64s, Int32s, Int64s
from ..base.json_types import JsonObject
from . import WORDS, Allowed, Exemption, Limit, Rejection, Rows, Rule, Threshold, sure

BY_EAR = True
IMPOSSIBLE = 1e-9  # the probability of a text that its language's script cannot write is 0


class Settings(Exemption):
    allowed: tuple[str, ...] | None = Threshold(
        None, "Languages to keep, ISO 639-1 codes; none given: any.", min_length=1, mark=WORDS
    )
    min_probability: float = Threshold(
        0.6, "Least probability of the detected language; Emilia's is 0.8.", ge=0, le=1
    )
    unless_logprob: float | None = Threshold(
        -0.5,
        "A mean log-probability of this or more confirms the language; null: none does.",
        le=0,
    )

    max_contradiction: float | None = Threshold(
        0.95,
        "Most probability of another language than the source states, unless the "
        "text is sure (unless_logprob); null: any.",
        ge=0,
        le=1,
    )

    min_in_source: float | None = Threshold(
        0.5,
        "Least probability of the detected language among those of the clip's source, even where "
        "the text is sure; null: any.",
        ge=0,
        le=1,
    )

    @field_validator("allowed")
    @classmethod
    def _codes(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for code in value or ():
            # Whisper's codes: two letters, or three as in `yue` and `haw`.
            if not (code.isascii() and code.isalpha() and code.islower() and len(code) in (2, 3)):
                raise ValueError(
                    f"{code!r} is not a language code; write codes such as en, es or yue"
                )
        return value


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s = settings
    unless = (*sure(s.unless_logprob), *s.confirmed)
    uncertain, contradicted = "language_uncertain", "language_contradicted"
    limits = (
        Limit("language_probability", min=IMPOSSIBLE, low="wrong_script"),
        Limit("language_probability", min=s.min_probability, low=uncertain, unless=unless),
        Limit("language_contradiction", max=s.max_contradiction, high=contradicted, unless=unless),
    )
    if s.allowed is None:
        return limits
    return (Allowed("language", s.allowed, "wrong_language"), *limits)


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], None]:
    """Rejections of kept rows in languages that are unlikely in their sources."""
    if settings.min_in_source is None:
        return (), None
    heard = SourceLanguages(rows.tables(*ASKED))
    clips = heard.clips
    probability, against = heard.judged()
    unlikely = np.flatnonzero(clips["kept"] & (probability < settings.min_in_source))
    unlikely = unlikely[~rows.published(unlikely)]

    def rejection(row: int) -> Rejection:
        language = heard.pairs[clips["pair"][row]][1]
        reason, detail = "language_uncertain", language
        if probability[row] < clips["probability"][row]:
            other = int(against[row])
            reason = "language_unlikely" if other >= 0 else "language_unknown"
            rather = heard.pairs[other][1] if other >= 0 else "none that is known"
            detail = f"{language}, in this source rather {rather}"
        return Rejection(reason, float(probability[row]), settings.min_in_source, detail)

    return ((row, rejection(row)) for row in unlikely.tolist()), None


# The languages of a source, as a mixture by which its doubtful clips are judged.
#
# A source that states no language has those detected in its clips, each with the seconds of these
# clips times their certainty. A clip's odds are its own times those of its language against the
# likeliest other one:
#
#     odds = p / (1 - p) * (seconds in its language + PRIOR_S) / (seconds in the other + PRIOR_S)
#
# without the clip itself. Where others speak against it, its own odds count in proportion to its
# length, and its text counts, too: a sure one offsets the doubt, an unsure one adds to it.
#
# The other may be none: an unknown language is detected as another one each time, and noise as any,
# with little certainty. So uncertain seconds are one more component, if both the source's other
# clips and those in the clip's language are doubtful. A clip in Latin, as which Whisper may detect
# such audio with certainty, gets all the doubt that this component allows, unless most of its
# source is certain to be Latin.

ASKED = ("dataset", "language", "language_probability", "avg_logprob", "seconds", "kept")
PRIOR_S = 2.0  # of speech that count for each language beforehand
#: Seconds that identify a language: Whisper is often certain of a wrong one after half a second.
TELLING_S = 1.5
#: Most odds that other clips may add, and that uncertain ones may: a rare language can be certain.
MOST_ODDS, MOST_ODDS_OF_NONE = 50.0, 8.0
#: Languages that unknown ones are detected as. Of 417 clips, none of them in Latin, 33 were
#: detected as Latin, up to a probability of 0.93; no other absent language had so many.
CATCH_ALL = ("la",)
#: Mean certainties, from no to full: of a language's clips, and of a source whose languages the
#: recogniser knows.
CERTAIN = 0.5, 0.8
SURE_SOURCE = 0.5, 0.8
#: Mean log-probability of a text that is neutral to its language; the weight of each nat above or
#: below that, in nats. A text that is longer than TELLING_S offsets all doubt of others if it is
#: sure, as right ones are: in English that is heard as another language, texts are unsure or of one
#: short word.
PLAIN_LOGPROB, WEIGHT = -0.6, 10.0
MOST_AGAINST, MOST_FOR = 2.0, 4.0  # nats of a text
WORDLESS = 0.1  # weight of clips without recognised words
AT_ONCE = 1 << 20  # clips
UNITS = 1000  # of a weight, in a second: sums of integers do not depend on their order


#: A clip; `pair`: the number of its source and language, -1 if it is not judged; `length` in UNITS.
CLIP = np.dtype(
    [("pair", "i4"), ("probability", "f4"), ("logprob", "f4"), ("length", "i8"), ("kept", "?")]
)


class SourceLanguages:
    """Clips of all sources, from tables of ASKED: a few bytes each."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        numbers: dict[tuple[str, str], int] = {}
        self.clips = np.concatenate([np.empty(0, CLIP), *(_clips(t, numbers) for t in tables)])
        self.pairs = [*numbers]  # (source, language)

    def judged(self) -> tuple[Float64s, Int32s]:
        """The probability of each clip's language in its source, NaN if not judged; and the pair
        that speaks most against it, -1 if that is none of the languages."""
        beside_others = self._beside_others()
        probability = np.full(len(self.clips), np.nan)
        against = np.full(len(self.clips), -1, np.int32)
        for rows, certain in self._heard():
            clips = self.clips[rows]
            ratio, against[rows] = beside_others(clips["pair"], certain, clips["length"])
            telling = np.minimum(clips["length"] / (TELLING_S * UNITS), 1)
            text = WEIGHT * (clips["logprob"].astype(np.float64) - PLAIN_LOGPROB)
            text = np.clip(np.where(text > 0, text * telling, text), -MOST_AGAINST, MOST_FOR)
            ratio = np.where(ratio < 1, np.minimum(ratio * np.exp(text), 1), ratio)
            p = np.minimum(clips["probability"].astype(np.float64), 1 - 1e-6)
            odds = (p / (1 - p)) ** np.where(ratio < 1, telling, 1) * ratio
            probability[rows] = odds / (1 + odds)
        return probability, against

    def _heard(self) -> Iterator[tuple[Int64s, Int64s]]:
        """The rows to judge, in portions, and their seconds times certainty, in UNITS."""
        for begin in range(0, len(self.clips), AT_ONCE):
            clips = self.clips[begin : begin + AT_ONCE]
            judged = np.flatnonzero(clips["pair"] >= 0)
            certain = clips["length"][judged] * clips["probability"][judged].astype(np.float64)
            yield begin + judged, np.rint(certain).astype(np.int64)

    def _beside_others(self) -> Callable[[Int32s, Int64s, Int64s], tuple[Float64s, Int64s]]:
        """Of the pairs of some clips, their certain and their whole length, in UNITS: the odds of
        their languages by all other clips, and the pairs that speak most against them, -1 if none
        of the languages does."""
        sources = {name: number for number, name in enumerate(dict(self.pairs))}
        source_of = np.array([sources[name] for name, _ in self.pairs], np.int64)
        certain_of, length_of = np.zeros((2, len(self.pairs)), np.int64)  # pairs
        for rows, certain in self._heard():
            np.add.at(certain_of, self.clips["pair"][rows], certain)
            np.add.at(length_of, self.clips["pair"][rows], self.clips["length"][rows])
        certain_in, length_in = np.zeros((2, len(sources)), np.int64)  # sources
        np.add.at(certain_in, source_of, certain_of)
        np.add.at(length_in, source_of, length_of)
        first, second = np.full((2, len(sources)), -1, np.int64)
        for pair in np.argsort(-certain_of, kind="stable")[::-1].tolist():  # the likeliest last
            second[source_of[pair]], first[source_of[pair]] = first[source_of[pair]], pair
        catch_all = np.array([language in CATCH_ALL for _, language in self.pairs], np.bool_)
        prior = PRIOR_S * UNITS

        def beside(pair: Int32s, certain: Int64s, length: Int64s) -> tuple[Float64s, Int64s]:
            source = source_of[pair]
            others, whole = certain_in[source] - certain, length_in[source] - length
            mine, alike = certain_of[pair] - certain, length_of[pair] - length
            other = np.where(first[source] == pair, second[source], first[source])
            of_other = np.where(other >= 0, certain_of[other], 0)
            support = _risen(mine, alike, *CERTAIN) * mine / (mine + prior)
            none = (whole - others) * (1 - support) * (1 - _risen(others, whole, *SURE_SOURCE))
            beside_other = np.maximum((mine + prior) / (of_other + prior), 1 / MOST_ODDS)
            beside_none = np.maximum((mine + prior) / (none + prior), 1 / MOST_ODDS_OF_NONE)
            beside_none[catch_all[pair] & (2 * mine < whole)] = 1 / MOST_ODDS_OF_NONE
            ratio = np.minimum(np.minimum(beside_other, beside_none), MOST_ODDS)
            return ratio, np.where(beside_other <= beside_none, other, -1)

        return beside


def _risen(part: Int64s, whole: Int64s, low: float, high: float) -> Float64s:
    """How far a share has risen from `low` to `high`, 0 to 1; 1 if there is nothing to share."""
    share = np.divide(part, whole, where=whole > 0, out=np.ones(len(whole)))
    return np.clip((share - low) / (high - low), 0, 1)


def _clips(table: pa.Table, numbers: dict[tuple[str, str], int]) -> NDArray[np.void]:
    """The clips of a table, CLIP; `numbers` gets new pairs."""
    heard = table["language_probability"]
    names = pc.fill_null(table["dataset"], ""), pc.fill_null(table["language"], "")
    coded = pc.binary_join_element_wise(*names, "\0").dictionary_encode().combine_chunks()
    codes = [
        numbers.setdefault((source, language), len(numbers))
        for source, _, language in (name.partition("\0") for name in coded.dictionary.to_pylist())
    ]
    pair = np.array([*codes, -1], np.int32)[coded.indices.to_numpy(zero_copy_only=False)]
    clips = np.empty(len(table), CLIP)
    clips["pair"] = np.where(heard.is_valid().to_numpy(), pair, -1)
    clips["probability"] = pc.fill_null(heard, 0.0).to_numpy()
    clips["logprob"] = pc.fill_null(table["avg_logprob"], PLAIN_LOGPROB).to_numpy()
    share = np.where(clips["probability"] > 0, UNITS, UNITS * WORDLESS)
    clips["length"] = np.rint(table["seconds"].to_numpy() * share)
    clips["kept"] = table["kept"].to_numpy()
    return clips
