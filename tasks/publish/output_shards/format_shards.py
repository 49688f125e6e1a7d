"""The output shards of one format: the columns that it reads, its files, and which files of the
previous version it can link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ... import plugins, storage
from ...base.arrays import UInt64s
from ...base.errors import ConfigError, UnsafePlace
from ...base.json_types import DatasetJson, PublishedEntry
from ...base.schema import UTTERANCES_FILE, AnyRow, ClipRow, Published, published
from ...formats import BY_PLACE, PLACE, OutputShard, PublishedFile
from ...plugins.contracts import Format
from ...settings import Plugin, StageSettings
from ...settings.job import Job
from ...shard_store import whole_job
from ...storage import queries, sorted_keys, tables, versions
from ...storage.versions import Proved
from ..dataset import datacard
from .layout import ShardClips

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class PreviousVersion:
    home: Path

    @cached_property
    def described(self) -> DatasetJson:
        return versions.described(self.home)

    @cached_property
    def columns(self) -> list[str]:
        """Of its utterances."""
        return [*tables.schema(self.home / UTTERANCES_FILE).names]

    def has_format(self, plugin: Plugin, publish: Collection[str]) -> bool:
        """Whether it holds this format, in the same version of the format, with the same settings
        and, if the format holds annotations, with the same `package.publish`."""
        then = self.described["settings"]["package"].get("publish", ())
        module, settings = plugins.FORMATS.resolve(plugin)
        if module.holds_annotations(settings) and {*then} != {*publish}:
            return False
        if self.described["formats"].get(plugin.use) != whole_job.format_version(plugin):
            return False
        try:
            settings_then = whole_job.settings_of_plugin(
                "formats", datacard.formats_of(self.described)[plugin.use]
            )
        except ConfigError:  # a setting that the plug-in no longer has
            return False
        return bool(settings_then == whole_job.settings_of_plugin("formats", plugin))

    def files(self, paths: Iterable[str]) -> tuple[PublishedFile, ...]:
        """These files; empty if it has not all of them, or one is a link."""
        published: Mapping[str, PublishedEntry] = self.described["files"]
        try:
            return tuple(
                PublishedFile(str(storage.inside(self.home, path)), entry["sha256"], entry["bytes"])
                for path, entry in ((path, published[path]) for path in paths)
            )
        except (KeyError, UnsafePlace):
            return ()


def places(formats: Iterable[Plugin], read: Callable[[list[str]], pa.Table]) -> pa.Array | None:
    """The column PLACE of all rows of a version; None if none of these formats asks for it. `read`:
    reads some of their columns."""
    if not any(PLACE in plugins.FORMATS.load(plugin.use).COLUMNS for plugin in formats):
        return None
    rows = read([*BY_PLACE])
    order = tables.order_by(rows, BY_PLACE)
    codes = (tables.coded(rows[name]).indices.to_numpy() for name in BY_PLACE[:2])
    begins = sorted_keys.first_of_runs(*(code[order] for code in codes))
    count = np.arange(len(order))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = count - np.maximum.accumulate(np.where(begins, count, 0))
    return pa.array(numbers)


def with_places(table: pa.Table, numbers: pa.Array | None, first: int = 0) -> pa.Table:
    """The table with the column PLACE, if there is one: from its row `first` on."""
    if numbers is None:
        return table
    return table.append_column(PLACE, numbers.slice(first, len(table)))


def visible(
    module: Format,
    table: pa.Table | pa.RecordBatch,
    *more: str,
    settings: StageSettings | None = None,
) -> pa.Table | pa.RecordBatch:
    """The columns of the table that a format's files depend on: with these settings, or, without
    `settings`, with any."""
    holds = module.HOLDS_ANNOTATIONS if settings is None else module.holds_annotations(settings)
    beside = published(table.schema) if holds else []
    columns = module.COLUMNS if settings is None else module.columns(settings)
    wanted = dict.fromkeys((*columns, *more, *beside))
    return table.select([name for name in wanted if name in table.schema.names])


def seen(module: Format, table: pa.Table | pa.RecordBatch, *more: str) -> pa.Table | pa.RecordBatch:
    """The columns that the format's `write` and `check` get."""
    return visible(module, table, "shard", "offset", *more)


def rows_for(module: Format, table: pa.Table | pa.RecordBatch, *more: str) -> list[ClipRow]:
    """Rows as the format's `write` and `check` get them."""
    columns_seen = seen(module, table, *more)
    rows: list[ClipRow] = columns_seen.to_pylist()
    if module.HOLDS_ANNOTATIONS and (names := published(columns_seen.schema)):
        types = {name: columns_seen.schema.field(name).type for name in names}
        for row in rows:
            columns: AnyRow = row
            row["annotations"] = Published({name: columns[name] for name in names}, types)
    return rows


def compared(job: Job, planned: pa.Schema, previous: PreviousVersion) -> dict[str, list[str]]:
    """By format, the columns of a plan's table on which its files depend; without the formats of
    which the previous version can have no equal file."""
    columns = dict[str, list[str]]()
    for plugin in job.package.formats:
        module, settings = plugins.FORMATS.resolve(plugin)
        depending = {*module.columns(settings)} - {PLACE}
        # If a measure was added or removed since, all files that hold measures change.
        same = depending & {*planned.names} == depending & {*previous.columns}
        if not same or not previous.has_format(plugin, job.package.publish):
            continue
        names = visible(module, planned.empty_table(), settings=settings).column_names
        if {*names} - {PLACE} <= {*previous.columns}:
            columns[plugin.use] = names
    return columns


def contents(
    database: DuckDBPyConnection,
    parts: Iterable[pa.Table],
    schema: pa.Schema,
    columns: Mapping[str, Sequence[str]],
) -> dict[str, UInt64s]:
    """For each list of columns, a hash of them of each row of the tables of this schema; columns
    that it lacks count as null."""
    hashed = list[str]()
    for name, listed in columns.items():
        names = (queries.identifier(n) if n in schema.names else "NULL" for n in listed)
        hashed.append(f"hash({', '.join(['0', *names])}) AS {queries.identifier(name)}")
    if not hashed:
        return {}
    sql = f"SELECT {', '.join(hashed)} FROM given"
    hashes = pa.schema(dict.fromkeys(columns, pa.uint64()))
    with queries.streamed(database, parts, schema, sql) as batches:
        table = pa.Table.from_batches(batches, hashes)
    return {name: table[name].to_numpy() for name in columns}


def published_contents(
    job: Job,
    previous: PreviousVersion,
    columns: Mapping[str, Sequence[str]],
    database: DuckDBPyConnection,
) -> dict[str, UInt64s]:
    """`contents` of the previous version's clips."""
    place, every = previous.home / UTTERANCES_FILE, dict.fromkeys(chain(*columns.values()))
    stored = [name for name in every if name in previous.columns]
    numbers = None
    if PLACE in every:
        numbers = places(job.package.formats, lambda names: tables.read(place, names))
    schema = pa.schema([tables.schema(place).field(name) for name in stored])

    def rows() -> Iterator[pa.Table]:
        first = 0
        for part in tables.row_groups(place, stored, Proved(previous.home)) if stored else ():
            yield with_places(part, numbers, first)
            first += len(part)

    return contents(database, rows(), with_places(schema.empty_table(), numbers).schema, columns)


def of_format(
    plugin: Plugin,
    shards: Sequence[ShardClips],
    planned: pa.Table,
    previous: PreviousVersion | None,
    same: Sequence[int | None] | None = None,
) -> list[OutputShard]:
    """The output shards of one format, with the previous version's files where their content is the
    same. `planned`: the rows of the shards, perhaps with PLACE; `same`: see `same_as`."""
    module, settings = plugins.FORMATS.resolve(plugin)
    now = visible(module, planned, settings=settings)
    numbers = same or [None] * len(shards)
    output_shards, begin = [], 0
    for index, (shard, number_then) in enumerate(zip(shards, numbers, strict=True)):
        rows, begin = now.slice(begin, len(shard.rows)), begin + len(shard.rows)
        files = tuple(module.files(shard.split, shard.number, rows, settings))
        unchanged: tuple[PublishedFile, ...] = ()
        if number_then is not None and (number_then == shard.number or not module.NUMBERED):
            assert previous is not None
            unchanged = previous.files(module.files(shard.split, number_then, rows, settings))
        place = shard.split, shard.number, index, len(shard.rows)
        output_shards.append(OutputShard(plugin.use, *place, files, unchanged))
    return output_shards


def same_as(shards: Sequence[ShardClips], now: UInt64s, then: UInt64s) -> list[int | None]:
    """For each shard, the number of the previous version's shard with the same clips and contents,
    or None. `now`: contents of the shards' clips, in order; `then`: of the version's."""
    numbers: list[int | None] = []
    begin = 0
    for shard in shards:
        values, begin = now[begin : begin + len(shard.rows)], begin + len(shard.rows)
        before = shard.before if shard.whole else None
        same = before and np.array_equal(values, then[before.first : before.first + before.clips])
        numbers.append(before.number if before and same else None)
    return numbers
