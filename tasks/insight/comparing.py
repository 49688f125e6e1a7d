"""Compares two versions, of one OUT or of two: totals, clips by id, reasons, leaks.

Ids follow from dataset name, path and span, so versions of two OUTs on the same recordings have the
same ids where both cut alike. Word and character errors are those of clips with references, as the
recogniser heard them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jinja2 import Template

from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE
from ..published import Dataset
from ..storage import queries, tables

HOUR = 3600.0
TEMPLATE = Path(__file__).with_name("compared.svg")

_ERRORS = """
SELECT coalesce(sum(words), 0)::BIGINT, coalesce(sum(word_errors), 0)::BIGINT,
    coalesce(sum(chars), 0)::BIGINT, coalesce(sum(char_errors), 0)::BIGINT
FROM {clips} WHERE words IS NOT NULL
"""
_CLIPS = """
SELECT count(*) FILTER (old.id IS NULL), count(*) FILTER (new.id IS NULL),
    count(*) FILTER (old.id = new.id AND {changed}), count(*) FILTER (old.id = new.id)
FROM old FULL JOIN new ON old.id = new.id
"""
#: Whether a trainer would see a difference in a clip of both.
CHANGED = """(old.text IS DISTINCT FROM new.text OR old.sha256 <> new.sha256
    OR old.split <> new.split OR old.speaker IS DISTINCT FROM new.speaker
    OR old.language IS DISTINCT FROM new.language)"""
CLIP_COLUMNS = ("id", "split", "text", "sha256", "speaker", "language")
_COLUMNS = (*CLIP_COLUMNS, "words", "word_errors", "chars", "char_errors")


class Pair(NamedTuple):
    """A number of the old version and of the new one; None: unknown."""

    old: float | None
    new: float | None


def compare(old: Dataset, new: Dataset) -> JsonObject:
    """What `uttermill compare --json` prints: `versions`; `totals` and `leaks`, by name; `reasons`,
    by name, with items and seconds; `clips`: added, removed, changed (text, samples, split, speaker
    or language), and in both. Each number of two versions is a list of two. Rates are null without
    references."""
    both = (old, new)
    described = [version.description for version in both]
    with queries.tables(readable=[version.path for version in both]) as database:
        for name, version in zip(("old", "new"), both, strict=True):
            database.register(name, tables.read(version.path / UTTERANCES_FILE, _COLUMNS))
        errors = [database.sql(_ERRORS.format(clips=name)).fetchall()[0] for name in ("old", "new")]
        added, removed, changed, common = database.sql(_CLIPS.format(changed=CHANGED)).fetchall()[0]
    seconds = [facts["seconds"] for facts in described]
    totals = {
        "clips": Pair(*(facts["utterances"]["packaged"] for facts in described)),
        "hours": Pair(*(parts["packaged"] / HOUR for parts in seconds)),
        "hours in": Pair(*(parts["in"] / HOUR for parts in seconds)),
        "recordings in": Pair(*(facts["recordings"]["in"] for facts in described)),
        "recordings failed": Pair(*(facts["recordings"]["failed"] for facts in described)),
        "speakers": Pair(*(facts["speakers"]["count"] or None for facts in described)),
        "WER": Pair(*(_rate(wrong, words) for words, wrong, _, _ in errors)),
        "CER": Pair(*(_rate(wrong, chars) for _, _, chars, wrong in errors)),
    }
    return {
        "versions": [str(version.path) for version in both],
        "totals": {name: list(pair) for name, pair in totals.items()},
        "clips": {"added": added, "removed": removed, "changed": changed, "common": common},
        "reasons": _reasons(*(facts["reasons"] for facts in described)),
        "leaks": _leaks(*(facts.get("leaks", {}) for facts in described)),
    }


def rows(result: JsonObject) -> list[tuple[str, str, float | None, float | None]]:
    """The comparison as a table: section, name, old, new."""
    table: list[tuple[str, str, float | None, float | None]] = []
    table += [("total", name, *pair) for name, pair in result["totals"].items()]
    table += [("clips", name, None, count) for name, count in result["clips"].items()]
    for name, entry in result["reasons"].items():
        table += [("items", name, *entry["items"]), ("seconds", name, *entry["seconds"])]
    return table + [("leaks", name, *pair) for name, pair in result["leaks"].items()]


def picture(result: JsonObject) -> str:
    """An SVG of the hours that each version packaged, and lost by reason."""
    bars = [("packaged", result["totals"]["hours"])]
    for name, entry in result["reasons"].items():
        bars.append((name, [seconds / HOUR for seconds in entry["seconds"]]))
    old, new = map(Path, result["versions"])
    if old.parent == new.parent:
        old, new = Path(old.name), Path(new.name)
    template = Template(TEMPLATE.read_text(), autoescape=True)
    most = max(max(hours) for _, hours in bars) or 1.0
    drawn: str = template.render(bars=bars, old=old, new=new, most=most)
    return drawn + "\n"


def _rate(wrong: int, count: int) -> float | None:
    return wrong / count if count else None


def _reasons(old: JsonObject, new: JsonObject) -> JsonObject:
    nothing = {"items": 0, "seconds": 0.0}
    sides = {name: (old.get(name, nothing), new.get(name, nothing)) for name in {**old, **new}}
    return {
        name: {"items": [a["items"], b["items"]], "seconds": [a["seconds"], b["seconds"]]}
        for name, (a, b) in sorted(sides.items())
    }


def _leaks(old: JsonObject, new: JsonObject) -> JsonObject:
    """By `split kind`, the clips that share something with train."""
    kinds = ("text", "speaker", "recording", "audio")
    names = [(split, kind) for split in sorted({*old, *new}) for kind in kinds]
    return {
        f"{split} {kind}": [side.get(split, {}).get(kind) for side in (old, new)]
        for split, kind in names
    }
