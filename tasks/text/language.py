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

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import field_validator

from ..base.arrays import Float64s, Int64s
from ..base.json_types import JsonObject
from ..scoring.speech_by_language import KEYS, ORDER, sums
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
    sources = SourceLanguages(rows.tables(*ASKED))
    return _unlikely(rows, sources, settings.min_in_source), None


def _unlikely(
    rows: Rows, sources: SourceLanguages, least: float
) -> Iterator[tuple[int, Rejection]]:
    begin = 0
    for table in rows.tables(*ASKED):
        probability, against = sources.judged(table)
        places = np.flatnonzero(table["kept"].to_numpy() & (probability < least))
        places = places[~rows.published(begin + places)]
        heard = table.select(["language", "language_probability"]).take(places).to_pylist()
        for place, clip in zip(places.tolist(), heard, strict=True):
            language, other = clip["language"], sources.names[against[place]]
            reason, detail = "language_uncertain", language
            if probability[place] < clip["language_probability"]:
                reason = "language_unlikely" if other else "language_unknown"
                detail = f"{language}, in this source rather {other or 'none that is known'}"
            yield begin + place, Rejection(reason, float(probability[place]), least, detail)
        begin += len(table)


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


class SourceLanguages:
    """The languages of all sources, from tables of ASKED."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        pairs = sums(map(_heard, tables)).sort_by(ORDER)
        self._keys = _key(pairs)
        self.names = [*pairs["language"].to_pylist(), ""]  # the last: none of the source's
        self._source = pairs["dataset"].combine_chunks().dictionary_encode().indices.to_numpy()
        self._certain, self._all = (pairs[name].to_numpy() for name in ("certain", "all"))
        count = int(self._source.max(initial=-1)) + 1
        self._certain_in, self._all_in = np.zeros((2, count), np.int64)  # sources
        np.add.at(self._certain_in, self._source, self._certain)
        np.add.at(self._all_in, self._source, self._all)
        self._first, self._second = np.full((2, count), -1, np.int64)  # likeliest pairs
        for pair in range(len(pairs))[::-1]:
            source = self._source[pair]
            self._second[source], self._first[source] = self._first[source], pair

    def judged(self, table: pa.Table) -> tuple[Float64s, Int64s]:
        """The probability of each clip's language in its source, NaN if not judged; and the place
        in `names` of the language that speaks most against it."""
        heard = _heard(table)
        pair = pc.index_in(_key(heard), self._keys).to_numpy()
        likely, length = heard["probability"].to_numpy(), 1000 * heard["seconds"].to_numpy()
        ratio, against = self._beside_others(pair, np.rint(length * likely), np.rint(length))
        telling = np.minimum(length / (TELLING_S * 1000), 1)
        text = WEIGHT * (heard["avg_logprob"].to_numpy() - PLAIN_LOGPROB)
        text = np.clip(np.where(text > 0, text * telling, text), -MOST_AGAINST, MOST_FOR)
        ratio = np.where(ratio < 1, np.minimum(ratio * np.exp(text), 1), ratio)
        p = np.minimum(likely, 1 - 1e-6)
        odds = (p / (1 - p)) ** np.where(ratio < 1, telling, 1) * ratio
        is_heard = table["language_probability"].is_valid().to_numpy()
        probability, numbers = np.full(len(table), np.nan), np.full(len(table), -1)
        probability[is_heard], numbers[is_heard] = odds / (1 + odds), against
        return probability, numbers

    def _beside_others(
        self, pair: Int64s, certain: Float64s, length: Float64s
    ) -> tuple[Float64s, Int64s]:
        """Of clips, by their pairs, their certain and their whole milliseconds: the odds of their
        languages by all other clips, and the pairs that speak most against them, -1 if none
        does."""
        source, prior = self._source[pair], PRIOR_S * 1000
        others, whole = self._certain_in[source] - certain, self._all_in[source] - length
        mine, alike = self._certain[pair] - certain, self._all[pair] - length
        other = np.where(self._first[source] == pair, self._second[source], self._first[source])
        of_other = np.where(other >= 0, self._certain[other], 0)
        support = _risen(mine, alike, *CERTAIN) * mine / (mine + prior)
        none = (whole - others) * (1 - support) * (1 - _risen(others, whole, *SURE_SOURCE))
        beside_other = np.maximum((mine + prior) / (of_other + prior), 1 / MOST_ODDS)
        beside_none = np.maximum((mine + prior) / (none + prior), 1 / MOST_ODDS_OF_NONE)
        catch_all = np.array([name in CATCH_ALL for name in self.names])
        beside_none[catch_all[pair] & (2 * mine < whole)] = 1 / MOST_ODDS_OF_NONE
        ratio = np.minimum(np.minimum(beside_other, beside_none), MOST_ODDS)
        return ratio, np.where(beside_other <= beside_none, other, -1)


def _risen(part: Float64s, whole: Float64s, low: float, high: float) -> Float64s:
    """How far a share has risen from `low` to `high`, 0 to 1; 1 if there is nothing to share."""
    share = np.divide(part, whole, where=whole > 0, out=np.ones(len(whole)))
    return np.clip((share - low) / (high - low), 0, 1)


def _key(table: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(table["dataset"], table["language"], "\0")


def _heard(table: pa.Table) -> pa.Table:
    """The clips of ASKED whose language was detected; `seconds` by their weight."""
    table = table.filter(table["language_probability"].is_valid())
    probability = table["language_probability"].cast(pa.float64())
    weight = pc.if_else(pc.greater(probability, 0), 1.0, WORDLESS)
    columns = {
        **{name: pc.fill_null(table[name], "") for name in KEYS},
        "probability": probability,
        "avg_logprob": pc.fill_null(table["avg_logprob"], PLAIN_LOGPROB).cast(pa.float64()),
        "seconds": pc.multiply(table["seconds"], weight),
    }
    return pa.table(columns)
