"""The output shards of one format: the columns that it reads, its files, and which files of the
previous version it can link."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ... import plugins, storage
from ...base.arrays import UInt64s
from ...base.errors import ConfigError, UnsafePlace
from ...base.json_types import PublishedEntry
from ...base.schema import UTTERANCES_FILE, AnyRow, ClipRow, Published, published
from ...formats import OutputShard, PublishedFile
from ...plugins.contracts import Format
from ...settings import Plugin, StageSettings
from ...settings.job import Job
from ...shard_store import whole_job
from ...storage import queries, tables
from ...storage.versions import Proved
from ..dataset import datacard
from .layout import ShardClips

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    """The previous version, and what it has of each clip."""

    home: Path
    described: Mapping[str, Any]  # its dataset.json
    columns: tuple[str, ...]  # of its utterances
    #: By format, a hash of what its files depend on of each clip; only of formats in `compared`.
    contents: Mapping[str, UInt64s] = field(default_factory=dict)

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


def derived(
    plugin: Plugin, schema: pa.Schema, read: Callable[[list[str]], pa.Table]
) -> dict[str, pa.Array]:
    """The columns that a format derives from all rows of a version. `schema`: of these rows;
    `read`: reads some of their columns, and is called only if the format derives any."""
    module, settings = plugins.FORMATS.resolve(plugin)
    if not module.derived(schema.empty_table(), settings):
        return {}
    return module.derived(read([name for name in module.COLUMNS if name in schema.names]), settings)


def all_derived(
    job: Job, schema: pa.Schema, read: Callable[[list[str]], pa.Table]
) -> dict[str, pa.Array]:
    """`derived` of all formats of a job. A column's name is prefixed by its format's
    (`lhotse_shar:name`), because two formats may derive columns of the same name."""
    return {
        f"{plugin.use}:{name}": values
        for plugin in job.package.formats
        for name, values in derived(plugin, schema, read).items()
    }


def own_columns(use: str, planned: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """A plan's table, in which the columns that the format derives have no prefix."""
    names = [name.removeprefix(f"{use}:") for name in planned.schema.names]
    return planned.rename_columns(names)


def with_columns(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


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
        depending = set(module.columns(settings))
        # If a measure was added or removed since, all files that hold measures change.
        same = depending & {*planned.names} == depending & {*previous.columns}
        if not same or not previous.has_format(plugin, job.package.publish):
            continue
        renamed = own_columns(plugin.use, planned.empty_table())
        wanted = {*visible(module, renamed, settings=settings).column_names}
        pairs = zip(planned.names, renamed.column_names, strict=True)
        names = [name for name, own_name in pairs if own_name in wanted]
        if {n for n in names if not n.startswith(f"{plugin.use}:")} <= {*previous.columns}:
            columns[plugin.use] = names
    return columns


def contents(
    database: DuckDBPyConnection, rows: pa.Table, columns: Mapping[str, Sequence[str]]
) -> dict[str, UInt64s]:
    """For each list of columns, a hash of them of each row; columns that the table lacks count as
    null."""
    hashed = list[str]()
    for listed in columns.values():
        names = (queries.identifier(n) if n in rows.column_names else "NULL" for n in listed)
        hashed.append(f"hash({', '.join(['0', *names])})")
    if not hashed:
        return {}
    table = queries.joined(database, rows, f"SELECT {', '.join(hashed)} FROM given")
    return dict(zip(columns, (column.to_numpy() for column in table.columns), strict=True))


def published_contents(
    job: Job,
    previous: PreviousVersion,
    columns: Mapping[str, Sequence[str]],
    database: DuckDBPyConnection,
) -> dict[str, UInt64s]:
    """`contents` of the previous version's clips."""
    place, every = previous.home / UTTERANCES_FILE, dict.fromkeys(chain(*columns.values()))
    stored = [name for name in every if name in previous.columns]
    of_formats = dict[str, pa.Array]()
    if any(":" in name for name in every.keys() - {*stored}):
        of_formats = all_derived(job, tables.schema(place), lambda names: tables.read(place, names))
    parts, first = [dict.fromkeys(columns, np.zeros(0, np.uint64))], 0
    for rows in tables.row_groups(place, stored, Proved(previous.home)) if stored else ():
        values = {name: column.slice(first, len(rows)) for name, column in of_formats.items()}
        parts.append(contents(database, with_columns(rows, values), columns))
        first += len(rows)
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def of_format(
    plugin: Plugin,
    shards: Sequence[ShardClips],
    planned: pa.Table,
    previous: PreviousVersion | None,
    content: UInt64s | None = None,
) -> list[OutputShard]:
    """The output shards of one format, with the previous version's files where their content is the
    same. `planned`: the rows of the shards, with the columns of `all_derived`; `content`: of each
    of them, as `PreviousVersion.contents`."""
    module, settings = plugins.FORMATS.resolve(plugin)
    now = visible(module, own_columns(plugin.use, planned), settings=settings)
    same: list[int | None] = [None] * len(shards)
    if previous and content is not None:
        same = same_as(shards, content, previous.contents[plugin.use])
    output_shards, begin = [], 0
    for index, (shard, number_then) in enumerate(zip(shards, same, strict=True)):
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
