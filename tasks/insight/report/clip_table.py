"""The clips of a report: their rows in the table, and which of them fit into the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from rapidfuzz.distance import Levenshtein

from ... import scoring
from ...base import masking
from ...base.json_types import JsonObject, Summary
from ...scoring import scripts
from . import clips, measure_charts, number_words
from .choice import CERTAINTY, DIFFERS, PACKAGED, Why
from .clips import Sample
from .number_words import NO_ROOM

# Classifies clips whose reference and recognised text differ most, by the kind of difference.
#
#     reference: "call extension four two one"   recognised: "call extension 481"   -> numbers
#
# Facts have only the number of errors, so the kind comes from the texts. Clips of many
# kinds are more useful to a listener than many of one, so the first few of each kind are shown.


Kind = Literal["language", "cut", "numbers", "names", "noise", "words"]
#: In the order of certainty: the first kind that fits is used.
DISAGREEMENTS: tuple[Kind, ...] = ("language", "cut", "numbers", "names", "noise", "words")
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
    by_kind: dict[Kind, list[Sample]] = {kind: [] for kind in DISAGREEMENTS}
    for sample in samples:
        differing = [why for why in sample.whys if why.kind == DIFFERS]
        sample.whys = [why for why in sample.whys if why.kind != DIFFERS]
        if differing and sample.reference and sample.heard:
            kind = kind_of(sample)
            if len(by_kind[kind]) < PER_KIND:
                named = [replace(why, kind=f"{DIFFERS}: {kind}") for why in differing]
                sample.whys = named + sample.whys
                by_kind[kind].append(sample)
    leading = [sample for members in by_kind.values() for sample in members]
    shown = {id(sample) for sample in leading}
    return leading + [sample for sample in samples if sample.whys and id(sample) not in shown]


def sections(samples: Sequence[Sample]) -> Iterable[tuple[str, list[int]]]:
    """(`Why.kind`, places of its samples) for each kind that occurs."""
    for name in (f"{DIFFERS}: {kind}" for kind in DISAGREEMENTS):
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
    if contradicted or scripts.of_text(reference) != scripts.of_text(heard):
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
    blocks = Levenshtein.opcodes(spoken, heard)
    shared = any(block.tag == "equal" for block in blocks)
    regions = []
    for is_equal, group in groupby(blocks, key=lambda block: block.tag == "equal"):
        if not is_equal:
            first, *_, last = [*group] * 2
            left = spoken[first.src_start : last.src_end], heard[first.dest_start : last.dest_end]
            at_start = not (first.src_start or first.dest_start)
            at_end = (last.src_end, last.dest_end) == (len(spoken), len(heard))
            regions.append(Region(*left, shared and (at_start or at_end)))
    return regions


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


LARGEST = 10  # a clip may take one LARGEST-th of the room for all clips,
LEAST = 60.0  # but may always have this length, s

#: Texts for each `Why.kind`; of several kinds with the same limit, the first in this order is
#: shown.
KINDS = {
    **{f"{DIFFERS}: {kind}": f"{DIFFERS}: {kind}" for kind in DISAGREEMENTS},
    "worst": "worst",
    "just beyond": "just beyond",
    "longest": "longest",
    "just inside": "kept, just inside",
    "music or applause": "music or applause",
    "least certain": "least certain",
    "near a limit": "kept, near a limit",
    "by chance": "by chance",
}


def embed(out: Path, chosen: Sequence[Sample], room: float) -> int:
    """Set each sample's `media`, with at most `room` bytes in all. Returns the number of clips
    without room.

    The first clip of every group comes before the second of any, so that all groups lose their last
    clips if room runs out.
    """
    earlier = Counter[str]()
    order: list[tuple[int, int]] = []  # place in its group, in all
    for index, sample in enumerate(chosen):
        order.append((earlier[sample.name], index))
        earlier[sample.name] += 1
    longest, left, fitting = max(room / LARGEST / clips.room(1.0), LEAST), room, list[Sample]()
    for _, index in sorted(order):
        sample = chosen[index]
        sample.media = clips.Media(why=clips.lacking(sample) or NO_ROOM)
        size = clips.room(sample.seconds)
        if sample.media.why == NO_ROOM and sample.seconds <= longest and size <= left:
            left -= size
            fitting.append(sample)
    clips.make(out, fitting)
    for sample in fitting:
        if sample.media.size > room:
            sample.media = clips.Media(why=NO_ROOM)
        room -= sample.media.size
    return sum(sample.media.why == NO_ROOM for sample in chosen)


NAME = 600  # characters shown of a name
TEXT = 8000  # characters shown of a text; no clip that fits into the file has more
#: Measures that are shown of a clip, in this order.
SHOWN = (*dict.fromkeys((*measure_charts.FIRST, *(name for name, _ in CERTAINTY))),)


def reasons(sample: Sample, about: Mapping[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Why a sample is shown: kinds, each with its value and limit. `about`: (unit, meaning) of
    measures."""
    return [(KINDS[why.kind], limit_text(why, sample, about)) for why in _once(sample.whys)]


def _once(whys: Sequence[Why]) -> list[Why]:
    """One reason for each limit, the first by KINDS."""
    kinds = list(KINDS)
    why_by_limit: dict[tuple[str, str | None, float | None], Why] = {}
    for why in sorted(whys, key=lambda why: kinds.index(why.kind)):
        why_by_limit.setdefault((why.measure, why.side, why.limit), why)
    return list(why_by_limit.values())


def limit_text(why: Why, sample: Sample, about: Mapping[str, tuple[str, str]]) -> str:
    """Value and limit as a text: `duration 0.31 s, limit at least 0.5 (filter.too_short)`."""
    if why.kind == "longest":
        return number_words.length(sample.seconds)
    if why.value is None:
        return ""
    unit = about.get(why.measure, ("", ""))[0]
    sentence = f"{why.measure or 'value'} {number_words.number(why.value)}"
    sentence += f" {unit}" if unit not in ("", "1") else ""
    if why.limit is None:
        return sentence
    side = "at least" if why.side == "min" else "at most"
    sentence += f", limit {side} {number_words.number(why.limit)}"
    return sentence if why.group in (PACKAGED, sample.name) else f"{sentence} ({why.group})"


def groups(counts: Summary, chosen: Sequence[Sample]) -> list[JsonObject]:
    """The groups to choose from: clips that differ most, by kind, then packaged ones, then others.
    Of each, its `own` clips in the table, its `total` in the version, `kept` clips near its limit,
    and as JSON the `places` of all these rows."""
    places_by_name: dict[str, list[int]] = {}
    kept: dict[str, list[int]] = {}
    for index, sample in enumerate(chosen):
        places_by_name.setdefault(sample.name, []).append(index)
        for group in dict.fromkeys(why.group for why in sample.whys if why.group != sample.name):
            kept.setdefault(group, []).append(index)
    items = {name: entry["items"] for name, entry in counts["reasons"].items()}
    items[PACKAGED] = counts["utterances"]["packaged"]
    names = sorted(places_by_name.items(), key=lambda item: item[0] != PACKAGED)
    return [
        {
            "name": name,
            "own": len(places),
            "total": items.get(name),
            "kept": len(kept.get(name, ())),
            "places": json.dumps(places + kept.get(name, [])),
        }
        for name, places in [*sections(chosen), *names]
    ]


def shown(text: str | None, most: int) -> str:
    """A text from outside uttermill on one line, masked and shortened; empty if there is none."""
    line = masking.sentence(text or "")
    return line if len(line) <= most else f"{line[:most]} … ({len(line):,} characters)"
