"""Compares two versions, of one OUT or of two: totals, clips by id, reasons, leaks; and what is new
or changed since an earlier one.

Ids follow from dataset name, path and span, so versions of two OUTs on the same recordings have the
same ids where both cut alike. Word and character errors are those of clips with references, as the
recogniser heard them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from jinja2 import Template

from ..accounting import summary
from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE
from ..publish.published import Dataset
from ..storage import queries, tables, versions

HOUR = 3600.0
TEMPLATE = Path(__file__).with_name("compared.svg")

NEW, CHANGED, SAME, REMOVED = "new", "changed", "same", "removed"
#: What became of each clip of either version; a trainer would see a difference in a changed one.
_CLIPS = f"""
SELECT coalesce(new.id, old.id) AS id, coalesce(new.split, old.split) AS split, CASE
    WHEN old.id IS NULL THEN '{NEW}' WHEN new.id IS NULL THEN '{REMOVED}'
    WHEN old.text IS DISTINCT FROM new.text OR old.sha256 <> new.sha256 OR old.split <> new.split
    OR old.speaker IS DISTINCT FROM new.speaker OR old.language IS DISTINCT FROM new.language
    THEN '{CHANGED}' ELSE '{SAME}' END AS became
FROM old FULL JOIN new ON old.id = new.id
"""
_CLIP_COLUMNS = ("id", "split", "text", "sha256", "speaker", "language")
Totals = dict[str, list[float | None]]  # by name, of the old and the new version
_ID = re.compile(r"[A-Za-z0-9_-]+")


def compare(old: Dataset, new: Dataset) -> JsonObject:
    """What `uttermill compare --json` prints: `versions`; `totals` and `leaks`, by name; `reasons`,
    by name, with items and seconds; `clips`: added, removed, changed (text, samples, split, speaker
    or language), and in both. Each number of two versions is a list of two. Rates are null without
    references. `leaks`: by `split kind`, the clips that share something with train; of a split
    without clips none."""
    both = (old, new)
    described = [version.description for version in both]
    counted = f"SELECT became, count(*) FROM ({_CLIPS}) GROUP BY became"
    count = Counter(dict(_asked(counted, old.path, new.path)))
    reasons: list[JsonObject] = [{**facts["reasons"]} for facts in described]
    leaks = [facts.get("leaks", {}) for facts in described]
    kinds = ("text", "speaker", "recording", "audio")
    nothing: JsonObject = {"items": 0, "seconds": 0.0}
    return {
        "versions": [str(version.path) for version in both],
        "totals": totals(old, new),
        "clips": {
            "added": count[NEW],
            "removed": count[REMOVED],
            "changed": count[CHANGED],
            "common": count[SAME] + count[CHANGED],
        },
        "reasons": {
            name: {key: [side.get(name, nothing)[key] for side in reasons] for key in nothing}
            for name in sorted({name for side in reasons for name in side})
        },
        "leaks": {
            f"{split} {kind}": [side.get(split, {kind: 0}).get(kind) for side in leaks]
            for split in sorted({name for side in leaks for name in side})
            for kind in kinds
        },
    }


def totals(old: Dataset, new: Dataset) -> Totals:
    """`totals` of `compare` alone, which needs no text and matches no clips."""
    described = [version.description for version in (old, new)]
    paths = [version.path for version in (old, new)]
    errors = [summary.errors_of(path, versions.Proved(path)) for path in paths]
    seconds = [facts["seconds"] for facts in described]
    return {
        "clips": [facts["utterances"]["packaged"] for facts in described],
        "hours": [parts["packaged"] / HOUR for parts in seconds],
        "hours in": [parts["in"] / HOUR for parts in seconds],
        "recordings in": [facts["recordings"]["in"] for facts in described],
        "recordings failed": [facts["recordings"]["failed"] for facts in described],
        "speakers": [facts["speakers"]["count"] or None for facts in described],
        "WER": [rates["wer"] for rates in errors],
        "CER": [rates["cer"] for rates in errors],
    }


def _asked(sql: str, old: Path, new: Path, filters: pc.Expression | None = None) -> list[Any]:
    """The rows of a query over the utterances of both versions; RunError if a table is damaged."""
    with queries.tables() as database:
        for name, version in (("old", old), ("new", new)):
            opened, path = versions.Proved(version), version / UTTERANCES_FILE
            database.register(name, tables.read(path, _CLIP_COLUMNS, filters, opened=opened))
        return database.sql(sql).fetchall()


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


@dataclass(frozen=True, slots=True)
class Since:
    """Clips of a split in either version, as (id, split, what became of it), by split and id."""

    old: Path
    new: Path
    clips: list[tuple[str, str, str]]

    def as_dict(self) -> JsonObject:
        kinds = (NEW, CHANGED, REMOVED)
        return {"since": self.old.name, **{kind: self._ids(kind) for kind in kinds}}

    def lines(self) -> list[str]:
        """`id<TAB>split<TAB>new|changed`, by split and id."""
        return ["\t".join(clip) for clip in self.clips if clip[2] in (NEW, CHANGED)]

    def of_list(self, lines: Iterable[str], head: str) -> list[str]:
        """What a format's list says of these clips. A line names clips by id, or ends with a file
        or folder below `head`, which counts if the old version has other bytes there; any other
        line, such as a table's header, stays."""
        ids = {clip[0] for clip in self.clips if clip[2] != REMOVED}
        wanted = {*self._ids(NEW), *self._ids(CHANGED)}
        changed = self._changed_files()
        places = {*changed, *(str(parent) for name in changed for parent in Path(name).parents)}

        def stays(line: str) -> bool:
            if named := ids.intersection(_ID.findall(line.replace(f"{head}/", ""))):
                return not wanted.isdisjoint(named)
            _, below_head, place = line.partition(f"{head}/")
            return not below_head or place in places

        kept = [line for line in lines if stays(line)]
        if kept[-1:] == ["}"]:  # one JSON object, an entry a line
            kept[-2] = kept[-2].rstrip(",")
        return kept

    def files_of(self, use: str, split: str, head: str) -> list[str]:
        """Paths of a format's files that the old version has not, or with other bytes; for a format
        without a list. `split`: `*` for all."""
        folder = f"{use}/" if split == "*" else f"{use}/{split}/"
        return [f"{head}/{name}" for name in self._changed_files() if name.startswith(folder)]

    def _ids(self, kind: str) -> list[str]:
        return [clip[0] for clip in self.clips if clip[2] == kind]

    def _changed_files(self) -> list[str]:
        """Names of files that the old version lacks or has with other bytes, sorted."""
        before = {name: entry["sha256"] for name, entry in versions.files(self.old).items()}
        now = versions.files(self.new).items()
        return sorted(name for name, entry in now if before.get(name) != entry["sha256"])


def since(old: Path, new: Path, split: str | None) -> Since:
    """`split` None: all splits. What moved from one split to another is new in the second, and
    removed from the first."""
    filters = None if split is None else pc.field("split") == split
    return Since(old, new, _asked(f"{_CLIPS} ORDER BY split, id", old, new, filters))
