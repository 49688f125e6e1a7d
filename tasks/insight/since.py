"""What is new or changed since an earlier version: clips, and lines of a format's list."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE
from ..storage import queries, tables, versions
from .comparing import CHANGED, CLIP_COLUMNS

NEW, CHANGED_CLIP, SAME, REMOVED = "new", "changed", "same", "removed"
_CLIPS = f"""
SELECT coalesce(new.id, old.id), coalesce(new.split, old.split), CASE
    WHEN old.id IS NULL THEN '{NEW}' WHEN new.id IS NULL THEN '{REMOVED}'
    WHEN {CHANGED} THEN '{CHANGED_CLIP}' ELSE '{SAME}' END
FROM (SELECT * FROM old_clips WHERE split = coalesce(?, split)) old
FULL JOIN (SELECT * FROM new_clips WHERE split = coalesce(?, split)) new ON old.id = new.id
ORDER BY 2, 1
"""
_ID = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Since:
    """Clips of a split in either version, as (id, split, what became of it)."""

    old: Path
    new: Path
    clips: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, old: Path, new: Path, split: str | None) -> Self:
        """`split` None: all splits. What moved from one split to another is new in the second, and
        removed from the first."""
        with queries.tables(readable=[old, new]) as database:
            for name, version in (("old_clips", old), ("new_clips", new)):
                database.register(name, tables.read(version / UTTERANCES_FILE, CLIP_COLUMNS))
            clips = database.execute(_CLIPS, [split, split]).fetchall()
        return cls(old, new, tuple(clips))

    def as_dict(self) -> JsonObject:
        kinds = (NEW, CHANGED_CLIP, REMOVED)
        return {"since": self.old.name, **{kind: self._ids(kind) for kind in kinds}}

    def lines(self) -> list[str]:
        """`id<TAB>split<TAB>new|changed`, by split and id."""
        return ["\t".join(clip) for clip in self.clips if clip[2] in (NEW, CHANGED_CLIP)]

    def of_list(self, lines: Iterable[str], head: str) -> list[str]:
        """What a format's list says of these clips. A line names clips by id, or ends with a file
        or folder below `head`, which counts if the old version has other bytes there; any other
        line, such as a table's header, stays."""
        ids = {clip[0] for clip in self.clips if clip[2] != REMOVED}
        wanted = {*self._ids(NEW), *self._ids(CHANGED_CLIP)}
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
