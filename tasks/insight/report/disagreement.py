"""Classifies clips whose reference and recognised text differ most, by the kind of difference.

    reference: "call extension four two one"   recognised: "call extension 481"   -> numbers

Facts have only the number of errors, so the kind comes from the texts. Clips of many
kinds are more useful to a listener than many of one, so the first few of each kind are shown.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from ... import scoring
from .samples import Sample
from .uncertain_clips import DIFFERS, Why

Kind = Literal["language", "cut", "numbers", "names", "noise", "words"]
#: In the order of certainty: the first kind that fits is used.
KINDS: tuple[Kind, ...] = ("language", "cut", "numbers", "names", "noise", "words")
PER_KIND = 4
MOST = 0.5  # least share of the errors that a kind must explain
LIKELY = 0.5  # probability of another language than the stated one
CUT = 3  # words; fewer may be one word recognised as several
SPEECH = 1.0  # s of speech without words, from which a text counts as cut off
#: Limits beyond which a measure indicates noise: dB, MOS, nats (confidence), probability. Clean
#: clips have a confidence above -0.1; the default rules keep none below -0.7.
NOISY_BELOW = {"nmf_snr": 10.0, "snr": 10.0, "dnsmos_ovrl": 2.0, "confidence": -0.4}
NOISY_ABOVE = {"no_speech_probability": 0.5}
READ = (*range(101), *range(200, 1001, 100), 10**6, 10**9)  # numbers that give number words


def first(samples: Sequence[Sample]) -> list[Sample]:
    """The samples, with up to PER_KIND of each kind that differ most first, then the others in
    their order. Beyond that number, samples without another reason to be shown are left out."""
    by_kind: dict[Kind, list[Sample]] = {kind: [] for kind in KINDS}
    for sample in samples:
        if any(why.kind == DIFFERS for why in sample.whys) and sample.reference and sample.heard:
            by_kind[kind_of(sample)].append(sample)
    leading: list[Sample] = []
    for kind, members in by_kind.items():
        for sample in members[:PER_KIND]:
            sample.whys = [_named(why, kind) for why in sample.whys]
            leading.append(sample)
    shown = {id(sample) for sample in leading}
    others = [sample for sample in samples if id(sample) not in shown]
    for sample in others:
        sample.whys = [why for why in sample.whys if why.kind != DIFFERS]
    return leading + [sample for sample in others if sample.whys]


def _named(why: Why, kind: Kind) -> Why:
    return replace(why, kind=f"{DIFFERS}: {kind}") if why.kind == DIFFERS else why


def sections(samples: Sequence[Sample]) -> Iterable[tuple[str, list[int]]]:
    """(`Why.kind`, places of its samples) for each kind that occurs."""
    for kind in KINDS:
        name = f"{DIFFERS}: {kind}"
        places = [n for n, one in enumerate(samples) if any(why.kind == name for why in one.whys)]
        if places:
            yield name, places


def kind_of(sample: Sample) -> Kind:
    """The kind of difference between a sample's reference and its recognised text."""
    reference, heard = sample.reference or "", sample.heard or ""
    language = scoring.language_of(sample.row["language"], reference, None)
    texts = (scoring.words(scoring.normalise(text, language)) for text in (reference, heard))
    values = sample.measures
    contradicted = values.get("language_contradiction", 0.0) >= LIKELY
    if contradicted or _script(reference) != _script(heard):
        return "language"
    regions = _regions(*texts)
    least = max(MOST * sum(region.size for region in regions), 1.0)
    if sum(region.cut for region in regions) >= least or any(
        values.get(name, 0.0) >= SPEECH for name in ("speech_after_text", "speech_without_words")
    ):
        return "cut"
    numbers, names = _number_words(language), _names(reference, language) | _names(heard, language)
    if sum(region.size for region in regions if region.has(numbers)) >= least:
        return "numbers"
    if sum(region.size for region in regions if region.has(names)) >= least:
        return "names"
    noisy = any(values.get(name, limit) < limit for name, limit in NOISY_BELOW.items()) or any(
        values.get(name, limit) > limit for name, limit in NOISY_ABOVE.items()
    )
    return "noise" if noisy else "words"


class Region(NamedTuple):
    """A run of words that differs, between words that both texts share."""

    spoken: list[str]  # words of the reference
    heard: list[str]  # words of the recognised text
    edge: bool  # whether it is before the first shared word or after the last

    @property
    def size(self) -> int:
        return max(len(self.spoken), len(self.heard))

    @property
    def cut(self) -> int:
        """The number of words that one text has more than the other at its start or end; fewer than
        CUT count only if the other text has none there."""
        more = abs(len(self.spoken) - len(self.heard)) if self.edge else 0
        return more if more >= CUT or not (self.spoken and self.heard) else 0

    def has(self, members: frozenset[str]) -> bool:
        """Whether one of the words is a member, or has a digit."""
        return any(
            word in members or any(map(str.isdigit, word)) for word in self.spoken + self.heard
        )


def _regions(spoken: list[str], heard: list[str]) -> list[Region]:
    regions: list[Region] = []
    first, heard_first = 0, 0
    equal = [block for block in Levenshtein.opcodes(spoken, heard) if block.tag == "equal"]
    bounds = [(b.src_start, b.dest_start, b.src_end, b.dest_end) for b in equal]
    ends = len(spoken), len(heard)
    for place, (last, heard_last, after, heard_after) in enumerate([*bounds, (*ends, *ends)]):
        edge = bool(bounds) and place in (0, len(bounds))
        regions.append(Region(spoken[first:last], heard[heard_first:heard_last], edge))
        first, heard_first = after, heard_after
    return [region for region in regions if region.size]


@lru_cache(maxsize=64)
def _number_words(language: str) -> frozenset[str]:
    """Number words of a language, except words of one ASCII letter."""
    words = set[str]()
    for number in READ:
        read = scoring.figures_read(str(number), language)
        words.update(scoring.words(scoring.normalise(read, "")))
    return frozenset(word for word in words if len(word) > 1 or not word.isascii())


def _names(text: str, language: str) -> frozenset[str]:
    """Capitalised words that do not begin a sentence; none if most words are capitalised, or if the
    language capitalises nouns."""
    if language == "de":
        return frozenset()
    tokens = text.split()
    after = ["."] + [token[-1] for token in tokens[:-1]]
    capital = [
        t for t, end in zip(tokens, after, strict=True) if t[:1].isupper() and end not in ".!?"
    ]
    if 2 * len(capital) > len(tokens):
        return frozenset()
    return frozenset(w for token in capital for w in scoring.words(scoring.normalise(token, "")))


def _script(text: str) -> str:
    """The script of most letters, by their Unicode names; kana and Han are one script."""
    names = Counter(unicodedata.name(c, "").split(" ")[0] for c in text if c.isalpha())
    script = names.most_common(1)[0][0] if names else ""
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script
