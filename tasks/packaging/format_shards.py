"""The output shards of one format, and the previous version's files that they keep."""

from __future__ import annotations

import pyarrow as pa

from tasks import plugins
from tasks.formats import OutputShard, PublishedFile
from tasks.packaging import format_rows
from tasks.packaging.layout import ClipGroup
from tasks.packaging.previous import PreviousVersion
from tasks.settings import Plugin


def same_as(
    groups: list[ClipGroup],
    table: pa.Table,
    before: pa.Table | None,
    columns: tuple[str, ...],
    places: dict[tuple[str, int], tuple[int, int]],
) -> list[int | None]:
    """For each group, the number of the previous version's group with the same clips and the same
    values in `columns` (what the format writes), or None. `places`: (first row, rows) of the groups
    in `before`, by split and number."""
    if before is None or not set(columns) <= {*before.column_names} & {*table.column_names}:
        return [group.before if group.same else None for group in groups]
    now, then = table.select(columns), before.select(columns)
    found: list[int | None] = []
    for group in groups:
        equal = group.same
        place = None if group.before is None else places.get((group.split, group.before))
        if not equal and group.whole and place is not None:
            equal = now.take(group.rows).equals(then.slice(*place))
        found.append(group.before if equal else None)
    return found


def of_format(
    plugin: Plugin,
    groups: list[ClipGroup],
    published: pa.Table,
    previous: PreviousVersion | None,
    derived: dict[str, pa.Array] | None,
) -> tuple[list[OutputShard], dict[str, pa.Array]]:
    """The shards of one format, with the previous version's files if their content is the same; and
    the columns that the format derives."""
    module, settings = plugins.resolve("formats", plugin)
    now, columns = format_rows.with_derived(module, settings, published, derived)
    now = format_rows.visible(module, now)
    same: list[int | None] = [None] * len(groups)
    if previous and previous.has_format(plugin):
        # A measure that was added or removed since changes the files that hold it.
        other = set(published.column_names) ^ set(previous.columns)
        if not other & set(module.COLUMNS):
            columns_of = tuple(now.column_names)
            same = same_as(groups, now, previous.rows, columns_of, previous.places)
    shards = []
    for index, (group, number_then) in enumerate(zip(groups, same, strict=True)):
        rows = now.take(group.rows)
        files = tuple(module.files(group.split, group.number, rows, settings))
        unchanged: tuple[PublishedFile, ...] = ()
        if number_then is not None and (number_then == group.number or not module.NUMBERED):
            assert previous is not None
            unchanged = previous.files(module.files(group.split, number_then, rows, settings))
        shards.append(
            OutputShard(
                plugin.use, group.split, group.number, index, len(group.rows), files, unchanged
            )
        )
    return shards, columns
