"""The recordings as the sources list them now, for commands that only read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

from ... import audio
from ...base.arrays import Bools
from ...base.errors import ItemError
from ...base.schema import RECORDINGS, RecordingRow
from ...recording import Locator
from ...recording.guard import identity
from ...shard_store import manifest
from ...storage import sorted_keys
from . import entries
from .known_recordings import LISTED, PLACE, merged, with_probed
from .survey import Survey


class AsListed:
    """The known recordings as the sources list them now, for callers that do not commit them.
    Create it while the survey's scratch folder exists."""

    def __init__(self, out: Path, surveyed: Survey) -> None:
        had = surveyed.known
        self._out, self._had = out, had
        self.moved: dict[str, str] = {}  # new to former names, in the shards read so far
        leaving = np.concatenate([surveyed.gone, surveyed.failed])
        self._gone = np.sort(had.columns.keys[leaving])
        self._left = np.sort(had.columns.keys[surveyed.gone])
        self._absent = surveyed.absent
        fresh = list(surveyed.fresh.tables())
        #: Whether known names are among the fresh ones: changed files, or retries.
        self.renewed = any((table[PLACE].to_numpy() >= 0).any() for table in fresh)
        self.fresh: list[RecordingRow] = []  # new and changed recordings, before probing
        self._homeless: dict[str, RecordingRow] = {}  # files that are new by name only, by guard
        self._elsewhere: dict[str, RecordingRow] = {}  # known names whose files may have moved
        for table in fresh:
            rows: list[RecordingRow] = table.select(RECORDINGS.names).to_pylist()
            self.fresh += rows
            places = table[PLACE].to_pylist()
            for row, place in zip(rows, places, strict=True):
                if row["guard"] and not row["error_code"]:
                    if place < 0:
                        self._homeless[identity(row["guard"])] = row
                    else:
                        self._elsewhere[row["recording"]] = row
        tables = list(surveyed.redescribed.tables())
        described = pa.concat_tables(tables) if tables else LISTED.empty_table()
        self._redescribed = described.take(np.argsort(described[PLACE].to_numpy(), kind="stable"))
        self._places = self._redescribed[PLACE].to_numpy()
        #: Known recordings of which the sources say something else now, or that have come back.
        self.redescribed = {*self._redescribed["recording"].to_pylist()}
        self._unlisted = np.sort(had.columns.keys[self._absent])
        touched = {*self._places.tolist(), *had.columns.shard[leaving].tolist()}
        touched |= {n for table in fresh for n in table[PLACE].to_pylist()}
        counts = np.bincount(had.columns.shard, minlength=len(had.shards))
        touched |= {*had.columns.shard[~had.present].tolist()}
        self.unchanged = {name for number, name in enumerate(had.shards) if number not in touched}
        self._number = {name: number for number, name in enumerate(had.shards)}
        left = np.bincount(had.columns.shard[self._absent], minlength=len(had.shards))
        self._vacated = {had.shards[number] for number in np.flatnonzero(left == counts)}

    def rows(self, shard: str) -> list[RecordingRow]:
        """All recordings of a shard, including removed ones; empty if all have left. A moved
        recording, whose guard appears under a new name or in another folder, gets that name;
        `moved` records the old one."""
        if shard in self._vacated and not self._homeless:  # a whole source may be gone
            return []
        old = manifest.listed(self._out, shard).to_pylist()
        number = self._number[shard]
        low, high = np.searchsorted(self._places, [number, number + 1])
        listed = self._redescribed.slice(low, high - low)
        listed = listed.append_column("probed", pa.array(np.zeros(len(listed), bool)))
        return [self._followed(row) for row in merged(old, listed, self._gone)]

    def _followed(self, row: RecordingRow) -> RecordingRow:
        if row["present"]:
            new = self._elsewhere.get(row["recording"])
        else:
            new = self._homeless.pop(identity(row["guard"] or ""), None)
        if new is None or identity(new["guard"]) != identity(row["guard"]) or row["error_code"]:
            return row
        self.moved[new["recording"]] = row["recording"]
        return {**with_probed(new, row), "present": True}

    def left(self, names: Iterable[str]) -> Bools:
        """Which of these recordings have left their sources since the last listing."""
        return sorted_keys.index_in(self._left, entries.keys(names)) >= 0

    @property
    def removed_count(self) -> int:
        """The number of recordings that have left their sources since the last listing, without
        those that moved."""
        return len(self._left) - int(self.left(self.moved.values()).sum())

    @property
    def absent_count(self) -> int:
        """The number of recordings that OUT knows and no source lists now, whenever they left."""
        return len(self._absent)

    def absent(self, names: Iterable[str]) -> Bools:
        """Which of these recordings OUT knows and no source lists now."""
        return sorted_keys.index_in(self._unlisted, entries.keys(names)) >= 0

    def faulty(self) -> Iterator[pa.Table]:
        """RECORDINGS of the shards with a recording known to be broken."""
        columns = self._had.columns
        for number in np.unique(columns.shard[self._had.present & (columns.contents == 0)]):
            yield manifest.listed(self._out, self._had.shards[number])

    def same_content(self, names: Collection[str]) -> set[str]:
        """The absent recordings among `names` whose bytes another recording has: a copy under
        another name differs in everything that a listing shows. Reads new files of the same
        size."""
        name_of: dict[str, set[str]] = {}
        sizes = set[int]()
        columns, absent = self._had.columns, self._absent
        unchanged = self._had.present  # known ones that are still listed unchanged
        unchanged[absent] = False
        unchanged &= ~np.isin(columns.keys, entries.keys(row["recording"] for row in self.fresh))
        contents = {*columns.contents[unchanged & (columns.contents > 0)].tolist()}  # first 64 bits
        if not self.fresh:
            elsewhere = np.fromiter((*contents, 0), np.uint64)  # 0: unreadable
            absent = absent[np.isin(columns.contents[absent], elsewhere)]
        for number in np.unique(columns.shard[absent]):
            for row in manifest.listed(self._out, self._had.shards[number]).to_pylist():
                if row["recording"] in names and row["content"]:
                    name_of.setdefault(row["content"], set()).add(row["recording"])
                    sizes.add(row["size"])
        same = set[str]()
        for content, names_of in name_of.items():
            if int(content[:16], 16) in contents:
                same |= names_of
        for row in self.fresh:
            if row["size"] in sizes and not row["error_code"]:
                with suppress(OSError, ItemError):  # the run will report it
                    same |= name_of.get(audio.digest(Locator.loads(row["locator"]))[0], set())
        return same
