"""Reads everything that a version holds and reports every fault (`uttermill verify`)."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins, storage
from ...accounting import summary
from ...accounting.ledger import PRECEDENCE
from ...base import environment
from ...base.errors import RunError, UnsafePlace
from ...base.json_types import DatasetJson, PublishedEntry, parsed
from ...base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE
from ...formats import Output, OutputShard
from ...plugins.trusted import Untrusted
from ...settings import Plugin
from ...storage import tables, versions
from .. import leaks
from ..choosing import components, split_input, splits
from ..choosing.components import KINDS, SPEAKER, Names, Nodes, SplitTable
from ..dataset import datacard
from ..output_shards import format_shards
from ..output_shards.layout import PublishedShard, published_shards
from ..published import Dataset
from ..speakers import Speakers

#: Folders and endings of files that readers add: Energon's metadata, indexes of tars, VITS'
#: features.
SIDE_FOLDERS = (".nv-meta", ".cache")
SIDE_ENDINGS = (".idx", ".index", ".spec.pt")
#: SQL over the version's tables: rows, if there is this fault.
CLIP_FAULTS = {
    "utterances.parquet and the ledger differ in the channel of a clip": (
        "SELECT 1 FROM ledger LEFT JOIN utterances ON utterances.id = ledger.utterance "
        "WHERE ledger.outcome = 'packaged' AND ledger.channel IS NOT NULL "
        "AND utterances.channel IS DISTINCT FROM ledger.channel LIMIT 1"
    ),
    "an id occurs twice in utterances.parquet": (
        "SELECT 1 FROM utterances GROUP BY id HAVING count(*) > 1 LIMIT 1"
    ),
    "utterances.parquet and the ledger differ in what was packaged": (
        "SELECT 1 FROM (SELECT DISTINCT id FROM utterances) AS clip FULL JOIN "
        "(SELECT DISTINCT utterance FROM ledger WHERE ledger.outcome = 'packaged') AS span "
        "ON clip.id = span.utterance WHERE clip.id IS NULL OR span.utterance IS NULL LIMIT 1"
    ),
}


def side_files(version: Path) -> list[str]:
    described = versions.described(version)
    unlisted = {*storage.store_of(version).tree(version)} - {*described["files"]}
    return sorted(filter(_is_side_file, unlisted))


def _is_side_file(name: str) -> bool:
    return name.endswith(SIDE_ENDINGS) or any(part in SIDE_FOLDERS for part in name.split("/"))


def verify(version: Path) -> list[str]:
    """Messages about faults; empty if the version is intact. Raises ConfigError if it is not a
    version, RunError if its store cannot be reached."""
    text = versions.text_of(version)
    try:
        described: DatasetJson = parsed(text)
        files: dict[str, PublishedEntry] = described["files"]
        present = {*storage.store_of(version).tree(version)} - {DATASET_FILE}
        strange = itertools.filterfalse(_is_side_file, sorted(present - files.keys()))
        faults = [f"{name} is there, but dataset.json does not name it" for name in strange]
        faults += [f"{name} is missing" for name in sorted(files.keys() - present)]
        if not datacard.intact(text, described[datacard.SEAL]):
            faults.insert(0, "dataset.json is not what was published: it was changed")
        for name, entry in files.items():
            if {"sha256", "bytes"} - entry.keys():
                raise KeyError(f"{name} has no hash or no size")
    except RunError:  # an unreachable store is not a fault of the version
        raise
    except Exception as error:  # a damaged file may raise any error
        return [f"dataset.json is damaged: {error!r}"]
    seen: set[str] = set()
    for check in (_tables, partial(faults_read_back, seen=seen), partial(_unread, seen=seen)):
        try:
            for fault in check(version, described):
                faults.append(fault)  # keeps the faults found before a table fails
        except (RunError, Untrusted):
            raise
        except Exception as error:  # as above
            faults.append(f"a table or dataset.json cannot be read, or lacks something: {error!r}")
    return faults


def _tables(version: Path, described: DatasetJson) -> list[str]:
    """Faults where ledger, utterances and dataset.json disagree; read a row group at a time."""
    faults: list[str] = []
    # Each row group has whole recordings.
    recordings = tables.row_groups(version / LEDGER_FILE, summary.COLUMNS)
    counts = summary.of_totals(summary.added(map(summary.totals, recordings)))
    stated: Mapping[str, object] = described
    for name, value in counts.items():
        if stated[name] != value:
            faults.append(f"dataset.json's {name} are not those of the ledger")
    if abs(sum(counts["seconds"][name] for name in PRECEDENCE) - counts["seconds"]["in"]) > 1e-3:
        faults.append("the ledger's outcomes do not add up to what came in")
    columns = leaks.columns(tables.schema(version / UTTERANCES_FILE).names)
    query = Dataset(version).query
    faults += [fault for fault, sql in CLIP_FAULTS.items() if query(sql).num_rows]
    if splits.FILE in described["files"]:
        faults += split_faults(
            lambda: tables.row_groups(version / UTTERANCES_FILE, columns),
            partial(tables.row_groups, version / splits.FILE),
            described["settings"]["package"].get("disjoint"),
            leaks.linked(version, columns),
        )
    return faults


def _unread(version: Path, described: DatasetJson, seen: Collection[str]) -> list[str]:
    """Faults of files that are not in `seen`, which were read already, by their hashes."""
    faults: list[str] = []
    for name in sorted(described["files"].keys() - {*seen}):
        try:
            path = storage.inside(version, name)
        except UnsafePlace as error:
            faults.append(str(error))
            continue
        if storage.exists(path):
            faults += differs(name, storage.hashed(path), described)
    return faults


def split_faults(
    rows: Callable[[], Iterable[pa.Table]],
    table: SplitTable,
    disjoint: Sequence[str] | None = None,
    linked: Speakers | None = None,
) -> list[str]:
    """Faults in the splits of a published version. `rows`: makes its utterances (columns NODES,
    `split`, and `turns` if clips hold several); `table`: its `splits.parquet`; `disjoint`: its
    setting; `linked`: its speakers across recordings, for the people in turns."""
    faults = []
    with Names(KINDS) as named:
        names, kinds = splits.names_in(table)
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
            if kind == SPEAKER:  # and everybody else who speaks in the row
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


# Reads every format of a version back: order, texts, decoded samples, hashes.
#
# A version of more than LEAST bytes is read by one process for each usable core; each output shard
# is read once.

LEAST = 1 << 28  # bytes; a smaller version is read faster than processes start
AT_ONCE = 32  # output shards of a call


class Portion(NamedTuple):
    """Some output shards of one format; it is pickled for other processes."""

    version: Path
    plugin: Plugin
    first: int  # index of the first of `shards` among all
    shards: list[PublishedShard]
    places: pa.Array | None  # the column PLACE of their rows


def faults_read_back(version: Path, described: DatasetJson, seen: set[str]) -> Iterator[str]:
    """Messages about faults; adds the files that were read to `seen`."""
    portions = _portions(version, described)
    size = sum(entry["bytes"] for entry in described["files"].values())
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    for texts, files in _read_all(portions, cores if size > LEAST else 1):
        seen.update(files)
        yield from texts


def _portions(version: Path, described: DatasetJson) -> Iterator[Portion]:
    path = version / UTTERANCES_FILE
    shards = published_shards(tables.row_groups(path, ["shard", "split", "generation"]))
    for plugin in datacard.formats_of(described).values():
        places = format_shards.places([plugin], partial(tables.read, path))
        for first in range(0, len(shards), AT_ONCE):
            some = shards[first : first + AT_ONCE]
            low, rows = some[0].first, sum(shard.clips for shard in some)
            of_rows = None if places is None else places.slice(low, rows)
            yield Portion(version, plugin, first, some, of_rows)


Read = tuple[list[str], list[str]]  # faults, and files that were read


def _read_all(portions: Iterator[Portion], workers: int) -> Iterator[Read]:
    """The result of `read` for each portion, in order. Raises RunError if a process died."""
    if workers < 2:
        yield from map(read, portions)
        return
    spawn = multiprocessing.get_context("spawn")
    with (
        environment.setting({environment.SAFE_PATH: "1"}),
        ProcessPoolExecutor(workers, spawn) as pool,
    ):
        try:
            yield from pool.map(read, portions)
        except BrokenProcessPool as error:
            raise RunError(
                "a process that read the version back died, by a fault of a decoder or for want of "
                "memory; run `uttermill verify` once more"
            ) from error


@lru_cache(maxsize=1)
def _rows(version: Path, use: str) -> tables.Slices:
    """The rows of a version that a format reads. Cached: a process reads adjacent portions."""
    path = version / UTTERANCES_FILE
    stored = tables.schema(path).empty_table()
    return tables.Slices(path, format_shards.seen(plugins.FORMATS.load(use), stored).column_names)


def read(portion: Portion) -> Read:
    """Faults of some output shards, and the files that were read."""
    module, settings = plugins.FORMATS.resolve(portion.plugin)
    described = versions.described(portion.version)
    table = _rows(portion.version, portion.plugin.use)
    faults: list[str] = []
    seen: list[str] = []
    begin = 0
    for index, published_shard in enumerate(portion.shards, portion.first):
        split, number, _, first, count, *_ = published_shard
        rows = format_shards.with_places(table.read(first, count), portion.places, begin)
        begin += count
        files = module.files(split, number, format_shards.visible(module, rows), settings)
        shard = OutputShard(portion.plugin.use, split, number, index, count, tuple(files))
        seen += files
        store = storage.store_of(portion.version)
        with _noted(shard, faults), store.reading(portion.version, shard.files) as home:
            out = Output(home)
            with _noted(shard, faults):
                faults += module.check(shard, format_shards.rows_for(module, rows), out, settings)
            for name in [name for name in shard.files if (home / name).is_file()]:
                digest = out.hashes.get(name) or storage.hashed(home / name)
                faults += differs(name, digest, described)
    return faults, seen


@contextmanager
def _noted(shard: OutputShard, faults: list[str]) -> Iterator[None]:
    """Adds any error inside, which a damaged file may cause, to the faults of the shard."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:  # from the format's reader and its libraries
        faults.append(f"{shard.path} cannot be read: {error}")


def differs(name: str, digest: tuple[str, int], described: DatasetJson) -> list[str]:
    """A message if the file's digest is not the published one, else nothing."""
    entry = described["files"].get(name)
    if entry is None or digest == (entry["sha256"], entry["bytes"]):
        return []
    return [f"{name} is not the file that was published (hash or size differs)"]
