"""The clips of a report: their rows in the table, and which of them fit into the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...base import masking
from ...base.json_types import JsonObject, Summary
from ...settings.job import Job
from . import clips, disagreement, measure_charts, number_words
from .samples import Sample
from .uncertain_clips import CERTAINTY, DIFFERS, PACKAGED, Why

NAME = 600  # characters shown of a name
TEXT = 8000  # characters shown of a text; no clip that fits into the file has more
LARGEST = 10  # a clip may take one LARGEST-th of the room for all clips,
LEAST = 60.0  # but may always have this length, s

#: Texts for each `Why.kind`; of several kinds with the same limit, the first in this order is
#: shown.
KINDS = {
    **{f"{DIFFERS}: {kind}": f"{DIFFERS}: {kind}" for kind in disagreement.KINDS},
    "worst": "worst",
    "just beyond": "just beyond",
    "longest": "longest",
    "just inside": "kept, just inside",
    "music or applause": "music or applause",
    "least certain": "least certain",
    "near a limit": "kept, near a limit",
    "by chance": "by chance",
}


def embed(job: Job, chosen: Sequence[Sample], rows: Sequence[JsonObject], room: int) -> int:
    """Set each row's `media`, with at most `room` bytes in all. Returns the number of clips without
    room.

    The first clip of every group comes before the second of any, so that all groups lose their last
    clips if room runs out.
    """
    longest = max(room / LARGEST / clips.room(1.0), LEAST)
    maker = clips.ClipMaker(job.out, job.resample.rate, chosen, longest)
    left_out = 0
    for index in sorted(range(len(chosen)), key=lambda i: (_place(chosen, i), i)):
        sample = chosen[index]
        fits = clips.room(sample.seconds) <= room or clips.lacking(sample)
        media = maker.make(sample) if fits else clips.Media(why=number_words.NO_ROOM)
        if media.size > room:
            media = clips.Media(why=number_words.NO_ROOM)
        room -= media.size
        left_out += media.why == number_words.NO_ROOM
        rows[index]["media"] = media
    return left_out


def _place(chosen: Sequence[Sample], index: int) -> int:
    """Number of earlier samples in the same group."""
    return sum(other.name == chosen[index].name for other in chosen[:index])


def row_of(sample: Sample, about: Mapping[str, tuple[str, str]]) -> JsonObject:
    """The row of a sample in the table of clips, with texts shortened and masked; `about`: (unit,
    meaning) of measures."""
    row = sample.row
    names = dict.fromkeys((*measure_charts.FIRST, *(name for name, _ in CERTAINTY)))
    return {
        "kept": sample.kept,
        "reason": sample.name,
        "whys": [(KINDS[why.kind], limit_text(why, sample, about)) for why in _once(sample.whys)],
        "file": _shown(row["source_path"], NAME),
        "detail": _shown(row["detail"], NAME),
        "start": row["start"],
        "end": row["end"],
        "language": row["language"],
        "value": row["value"],
        "threshold": row["threshold"],
        "text": _shown(sample.text, TEXT),
        "source": sample.text_source,
        "heard": _shown(sample.heard, TEXT) if sample.heard != sample.text else None,
        "reference": _shown(sample.reference, TEXT) if sample.reference != sample.text else None,
        "measures": [
            (name, number_words.number(sample.measures[name]))
            for name in names
            if name in sample.measures
        ],
    }


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
    differing: list[JsonObject] = [
        {"name": name, "own": len(places), "total": None, "kept": 0, "places": json.dumps(places)}
        for name, places in disagreement.sections(chosen)
    ]
    return differing + [
        {
            "name": name,
            "own": len(places),
            "total": items.get(name),
            "kept": len(kept.get(name, ())),
            "places": json.dumps(places + kept.get(name, [])),
        }
        for name, places in sorted(places_by_name.items(), key=lambda item: item[0] != PACKAGED)
    ]


def _shown(text: str | None, most: int) -> str | None:
    """A text from outside uttermill on one line, masked and shortened."""
    if text is None:
        return None
    shown = masking.sentence(text)
    return shown if len(shown) <= most else f"{shown[:most]} … ({len(shown):,} characters)"
