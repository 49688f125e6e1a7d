"""OUT/forgotten.jsonl: what was removed on request, as hashes, so that it stays out.

    {"recordings": ["<hash of the name>", …], "contents": ["<hash of the bytes>", …],
     "speakers": ["<hash of dataset/speaker>", …], "when": "2026-01-31T12:00:00Z"}

On an object store, each request is an object below OUT/forgotten (`tasks.storage.append_log`).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..base.arrays import Bools
from ..base.errors import RunError
from ..base.json_types import parsed
from ..storage import append_log

FILE, FOLDER = "forgotten.jsonl", "forgotten"
_CHANNEL = re.compile(r"#\d+$")  # of a recording that is a channel or track of a file


def name_hash(name: str) -> str:
    """Hash of a name or a digest, 32 hex digits."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def file_of(recording: str) -> str:
    """The name of a recording without its channel."""
    return _CHANNEL.sub("", recording)


@dataclass(frozen=True, slots=True)
class Forgotten:
    recordings: frozenset[str] = field(default_factory=frozenset)
    contents: frozenset[str] = field(default_factory=frozenset)
    speakers: frozenset[str] = field(default_factory=frozenset)

    def __bool__(self) -> bool:
        return bool(self.recordings or self.speakers)

    def names(self, recording: str) -> bool:
        return name_hash(file_of(recording)) in self.recordings

    def speaks(self, dataset: str, speaker: str | None) -> bool:
        return speaker is not None and name_hash(f"{dataset}/{speaker}") in self.speakers

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of RECORDINGS is of such a recording: by its name, its bytes, or a speaker
        that its source names."""
        if self.names(row["recording"]):
            return True
        if row.get("content") and name_hash(row["content"]) in self.contents:
            return True
        segments, turns = row["segments"] or (), row.get("rttm") or ()
        people = {row["speaker"], *(one["speaker"] for one in (*segments, *turns))}
        return any(self.speaks(row["dataset"], one) for one in people)

    def rows(self, table: pa.Table) -> Bools:
        """Which rows of RECORDINGS are of such recordings; bool [rows]."""
        if not self:
            return np.zeros(len(table), bool)
        names = ["recording", "dataset", "speaker", "segments", "rttm", "content"]
        chosen = table.select([name for name in names if name in table.column_names])
        return np.array([self.holds(row) for row in chosen.to_pylist()], bool)

    def without(self, table: pa.Table) -> pa.Table:
        """The rows of a table that are of none of these recordings."""
        if not self.recordings:
            return table
        stays = [name is None or not self.names(name) for name in table["recording"].to_pylist()]
        return table.filter(pa.array(stays, pa.bool_()))


def read(out: Path) -> Forgotten:
    """RunError for a line that a crash cut short, or that is not ours: to skip it could bring back
    what somebody asked to remove."""
    data = append_log.read(out / FILE, out / FOLDER)
    hashes: dict[str, set[str]] = {"recordings": set(), "contents": set(), "speakers": set()}
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            entry = parsed(line) if line.strip() else {}
            for kind, some in hashes.items():
                some.update(entry.get(kind, ()))
        except (ValueError, TypeError, AttributeError):
            raise RunError(
                f"line {number} of {out / FILE} is damaged, so what it removed is not known: "
                "restore the file; or remove that line, and `uttermill forget` what it was about "
                "once more"
            ) from None
    return Forgotten(*map(frozenset, hashes.values()))


def add(
    out: Path,
    recordings: Iterable[str],
    contents: Iterable[str],
    speakers: Iterable[str],
    when: str,
) -> None:
    entry = {
        "recordings": sorted({name_hash(file_of(name)) for name in recordings}),
        "contents": sorted({name_hash(content) for content in contents}),
        "speakers": sorted(map(name_hash, speakers)),
        "when": when,
    }
    append_log.append(out / FILE, out / FOLDER, json.dumps(entry).encode() + b"\n")
