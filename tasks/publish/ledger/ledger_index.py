"""Notes on the parts of ledgers: of the next version, and of the newest one.

    OUT/manifests/package/published/<sha256[:16]>.arrow
                            of a part: ACCOUNTS of its recordings, its totals, and failed recordings

They only save time, like those of `previous_version.py`: a missing note is made again from the
ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...accounting import broken, summary
from ...accounting.broken import Broken
from ...accounting.summary import Totals
from ...base.json_types import DatasetJson, JsonObject
from ...base.schema import LEDGER, LEDGER_FILE
from ...storage import tables
from ...storage.versions import Proved
from .. import previous_version
from ..outcomes import recording_digests, shard_batches


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the next version's ledger, as a worker records it."""

    name: str  # path in the version
    file: tuple[str, int]  # sha256 and bytes
    note_file: str  # name of the file with its note
    gone: list[str]  # recordings that have left their source since the previous version
    new: JsonObject  # `facts_of` the recordings that are new since then


class Counted(NamedTuple):
    """`facts_of` some recordings."""

    totals: Totals
    broken: dict[str, list[Broken]]  # by dataset, the first recordings that failed


class Portion(NamedTuple):
    """A part of the next version's ledger: `Written`, with the content of its note."""

    name: str
    file: tuple[str, int]
    note_file: str
    gone: list[str]
    every: Counted  # all recordings
    new: Counted


class LedgerPart(NamedTuple):
    """A part of the newest version's ledger."""

    name: str
    file: str  # name of the file with its note; empty: none
    table: pa.Table  # ACCOUNTS


def tell(ledger: pa.Table, accounts: pa.Table) -> pa.Table:
    """The note on a part: its ACCOUNTS, with totals and failed recordings as metadata."""
    return accounts.replace_schema_metadata({"told": json.dumps(facts_of(ledger))})


def facts_of(ledger: pa.Table) -> JsonObject:
    """The totals of these rows, and by dataset the first recordings that failed."""
    totals = summary.totals(ledger)
    failed = ledger.filter(pc.equal(ledger["outcome"], "failed"))
    return {
        "sums": totals.sums.to_pylist(),
        "recordings": totals.recordings,
        "broken": {
            name: broken.of_ledger(ledger.filter(pc.equal(ledger["dataset"], name)))
            for name in pc.unique(failed["dataset"]).to_pylist()
        },
    }


def _counted(facts: JsonObject) -> Counted:
    counts = {key: (live, failed) for key, (live, failed) in facts["recordings"].items()}
    first = {name: [Broken(*fields) for fields in some] for name, some in facts["broken"].items()}
    return Counted(Totals(pa.Table.from_pylist(facts["sums"], schema=summary.SUMS), counts), first)


def save(out: Path, note: pa.Table) -> str:
    """Save the note on a part; returns the name of its file. Call it only while holding OUT's
    lock."""
    return previous_version.keep(out, shard_batches.arrow_bytes(note))


def of_version(out: Path, newest: Path, described: DatasetJson) -> list[LedgerPart]:
    """The parts of the newest version's ledger, in order. Raises RunError if a part has no note and
    is damaged."""
    with suppress(OSError, ValueError, KeyError, pa.ArrowException):
        if noted := previous_version.noted(out, described):
            for name, _ in noted["ledger"]:
                storage.inside(newest, name)
            return [
                LedgerPart(n, file, previous_version.read(out, file)) for n, file in noted["ledger"]
            ]
    parts, proved = [], Proved(newest)
    for part in tables.parts(newest / LEDGER_FILE):
        ledger = tables.conformed(tables.read(part, opened=proved), LEDGER)
        note = tell(ledger, recording_digests.of_ledger(ledger))
        parts.append(LedgerPart(proved.name_of(part), "", note))
    return parts


def note(scratch: Path, number: int, written: Sequence[Written]) -> None:
    """Record the parts that one worker call has written or linked."""
    path = scratch / f"ledger/noted-{number:06d}.json"
    storage.of(scratch).write(path, json.dumps([asdict(part) for part in written]).encode())


def portions(out: Path, scratch: Path) -> list[Portion]:
    """All parts that workers recorded (`note`), sorted by name."""
    recorded = []
    for path in storage.names(scratch / "ledger", ".json"):
        if path.name.startswith("noted-"):
            recorded += [_portion(out, entry) for entry in storage.read_json(path)]
    return sorted(recorded, key=lambda portion: portion.name)


def _portion(out: Path, written: JsonObject) -> Portion:
    """A part from an entry of `note`, with the content of its note."""
    noted = json.loads(previous_version.read(out, written["note_file"]).schema.metadata[b"told"])
    counts = {"every": _counted(noted), "new": _counted(written["new"])}
    return Portion(**{**written, "file": tuple(written["file"]), **counts})
