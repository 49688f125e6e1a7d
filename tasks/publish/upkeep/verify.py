"""Reopen everything that a dataset version holds, and name every fault (`uttermill verify`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.accounting import summary
from tasks.accounting.ledger import PRECEDENCE
from tasks.base.arrays import Bools, UInt64s
from tasks.base.errors import RunError, UnsafePlace
from tasks.base.json_types import DatasetJson, PublishedEntry, parsed
from tasks.base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE
from tasks.publish import leaks, seeded_hash
from tasks.publish.choosing import components, split_input, splits
from tasks.publish.choosing.components import KINDS, SplitTable
from tasks.publish.dataset import datacard
from tasks.publish.name_table import SPEAKER, Names, Nodes
from tasks.publish.speakers import Speakers
from tasks.publish.upkeep import reading_back
from tasks.storage import sorted_keys, tables, versions

#: Folders and endings of readers' own files: Energon's metadata, indexes of tars, VITS' features.
SIDE_FOLDERS = (".nv-meta", ".cache")
SIDE_ENDINGS = (".idx", ".index", ".spec.pt")


def side_files(version: Path) -> list[str]:
    """Files that readers have put into a version, and that are no fault of it, sorted."""
    described = versions.described(version)
    strangers = {*storage.of(version).tree(version)} - {*described["files"]}
    return sorted(filter(_is_side_file, strangers))


def _is_side_file(name: str) -> bool:
    return name.endswith(SIDE_ENDINGS) or any(part in SIDE_FOLDERS for part in name.split("/"))


def verify(version: Path) -> list[str]:
    """Faults in words, empty when the version is whole. ConfigError when it is not a version."""
    text = versions.text_of(version)
    try:
        described: DatasetJson = parsed(text)
        files: dict[str, PublishedEntry] = described["files"]
        faults = [*_files(version, files)]
        if not datacard.intact(text, described[datacard.SEAL]):
            faults.insert(0, "dataset.json is not what was published: it was changed")
        for name, entry in files.items():
            if {"sha256", "bytes"} - entry.keys():
                raise KeyError(f"{name} has no hash or no size")
    except RunError:  # a store that is away is not a fault of the version
        raise
    except Exception as error:  # any way in which a damaged file can fail is a fault of it
        return [f"dataset.json is damaged: {error!r}"]
    seen: set[str] = set()
    for check in (_tables, partial(reading_back.faults, seen=seen), partial(_unread, seen=seen)):
        try:
            for fault in check(version, described):
                faults.append(fault)  # keeps the faults found before a table fails
        except RunError:
            raise
        except Exception as error:  # as above
            faults.append(f"a table or dataset.json cannot be read, or lacks something: {error!r}")
    return faults


def _files(version: Path, files: dict[str, PublishedEntry]) -> Iterator[str]:
    """Every file is there, and there is no other, but for readers' own."""
    present = {*storage.of(version).tree(version)} - {DATASET_FILE}
    for name in sorted(present - files.keys()):
        if not _is_side_file(name):
            yield f"{name} is there, but dataset.json does not name it"
    for name in sorted(files.keys() - present):
        yield f"{name} is missing"


def _tables(version: Path, described: DatasetJson) -> list[str]:
    """Ledger, utterances and dataset.json agree; checked a part at a time."""
    faults: list[str] = []
    recordings = (  # whole ones in each part
        tables.read(part, columns=summary.COLUMNS) for part in tables.parts(version / LEDGER_FILE)
    )
    counts = summary.of_totals(summary.added(map(summary.totals, recordings)))
    stated: Mapping[str, object] = described
    for name, value in counts.items():
        if stated[name] != value:
            faults.append(f"dataset.json's {name} are not those of the ledger")
    if abs(sum(counts["seconds"][name] for name in PRECEDENCE) - counts["seconds"]["in"]) > 1e-3:
        faults.append("the ledger's outcomes do not add up to what came in")
    faults += _channels(version)
    faults += _ids(version)  # which frees its tables before those of the splits are made
    if splits.FILE in described["files"]:
        stored = tables.schema(version / UTTERANCES_FILE).names  # early versions lack some
        columns = [name for name in leaks.columns(stored) if name in stored]
        faults += split_faults(
            lambda: tables.row_groups(version / UTTERANCES_FILE, columns),
            partial(tables.portions, version / splits.FILE),
            described["settings"]["package"].get("disjoint"),
            leaks.linked(version, columns),
        )
    return faults


def _ids(version: Path) -> list[str]:
    """Faults of the ids: each stands once, and the ledger has the same ones."""
    faults = []
    ids = _keys(tables.row_groups(version / UTTERANCES_FILE, ["id"]))
    packaged = _keys(
        part.filter(pc.equal(part["outcome"], "packaged")).select(["utterance"])
        for part in tables.row_groups(version / LEDGER_FILE, ["utterance", "outcome"])
    )
    twice = _repeated(ids)
    if twice.any():
        faults.append("an id occurs twice in utterances.parquet")
    if not np.array_equal(ids[~twice], packaged[~_repeated(packaged)]):
        faults.append("utterances.parquet and the ledger differ in what was packaged")
    return faults


def _channels(version: Path) -> list[str]:
    """Faults of channels: where the ledger names a packaged clip's, the clip's row has the same.
    Parts of before name none."""
    of_ledger, of_clips = (
        _keys(_sides(part, name) for part in tables.row_groups(version / file, columns))
        for file, name, columns in (
            (LEDGER_FILE, "utterance", ["utterance", "outcome", "channel"]),
            (UTTERANCES_FILE, "id", ["id", "channel"]),
        )
    )
    places = sorted_keys.places_of(*of_ledger.T, *of_clips.T)
    if (places < 0).any():
        return ["utterances.parquet and the ledger differ in the channel of a clip"]
    return []


def _sides(part: pa.Table, name: str) -> pa.Table:
    """What tells each packaged clip that is of one channel, and that channel."""
    if "channel" not in part.column_names:
        return part.select([name]).slice(0, 0)
    if "outcome" in part.column_names:
        part = part.filter(pc.equal(part["outcome"], "packaged"))
    part = part.filter(pc.is_valid(part["channel"]))
    channels = pc.cast(part["channel"], pa.string())
    return pa.table({name: pc.binary_join_element_wise(part[name], channels, "#")})


def _keys(parts: Iterable[pa.Table]) -> UInt64s:
    """Hashes of 16 bytes of all values of one column, sorted; uint64 [rows, 2]."""
    keys = [seeded_hash.keys("id", part.column(0).to_pylist()) for part in parts]
    every = np.concatenate([np.empty((0, 2), np.uint64), *keys])
    keys.clear()  # the same once more
    return every[np.lexsort((every[:, 1], every[:, 0]))]


def _repeated(keys: UInt64s) -> Bools:
    """Whether a sorted key is the one before it."""
    return ~sorted_keys.first_of_runs(keys[:, 0], keys[:, 1])


def _unread(version: Path, described: DatasetJson, seen: Collection[str]) -> list[str]:
    """The hashes of all other files; of those that formats have read, each is read once."""
    faults: list[str] = []
    for name in sorted(described["files"].keys() - {*seen}):
        try:
            path = storage.inside(version, name)
        except UnsafePlace as error:
            faults.append(str(error))
            continue
        if storage.exists(path):
            faults += reading_back.differs(name, storage.hashed(path), described)
    return faults


def split_faults(
    rows: Callable[[], Iterable[pa.Table]],
    table: SplitTable,
    disjoint: Sequence[str] | None = None,
    linked: Speakers | None = None,
) -> list[str]:
    """Faults in the splits of a published version; `rows`: its parts (columns NODES, `split`, and
    `turns` where clips hold several); `disjoint`: the setting of the version; `linked`: who the
    people in turns are over all recordings."""
    faults = []
    with Names(KINDS) as named:
        names, kinds = set[str](), set[str]()
        for part in table(["kind", "split"]):
            names |= set(pc.unique(part["split"]).to_pylist())
            kinds |= set(pc.unique(part["kind"]).to_pylist())
        wanted = splits.kinds_apart(disjoint, "text" in kinds)
        for part in rows():
            names |= set(pc.unique(part["split"]).to_pylist())
            talking = split_input.talking_in(part, linked) if SPEAKER in wanted else None
            named.add(split_input.columns_of(part, "text" in wanted), talking)
        sides = sorted(names)
        coded = [pc.index_in(part["split"], pa.array(sides, pa.string())) for part in rows()]
        empty = np.zeros(0, np.int16)
        split = np.concatenate([empty, *(codes.to_numpy().astype(np.int16) for codes in coded)])
        nodes = Nodes(named, KINDS, np.arange(len(split), dtype=np.int32))
        stored = components.published_splits(nodes, table, sides)
        for kind, row in zip(KINDS, nodes.of_row, strict=True):
            if kind not in wanted:
                continue
            has = row >= 0
            rows_of_all, node_of_all = np.arange(len(row)), row
            if kind == SPEAKER:  # with all who speak beside them
                rows_of_all = np.concatenate((rows_of_all, nodes.talking[0]))
                node_of_all = np.concatenate((row, nodes.talking[1]))
            _, torn = components.agreed(node_of_all, split[rows_of_all], len(nodes.kind))
            if torn.any():
                name = nodes.called(np.flatnonzero(torn)[:1])[0].as_py()
                faults.append(f"the {kind} {name} is in two splits")
            if (stored[row[has]] != split[has]).any():
                faults.append(
                    f"{splits.FILE} and utterances.parquet differ in the split of a {kind}"
                )
    return faults
