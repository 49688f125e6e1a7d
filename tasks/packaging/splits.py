"""Split assignment: which clips are train, and which dev, test or what `package.splits` names.

`{dev: 0.05, test: {hours: 2}, hard: {list: hard.txt}}`; the rest is `train`.

**Never separated:** clips of one recording, clips of one speaker (names of speakers belong to their
dataset), and clips of the same samples (equal sha256). Clips connected in this way form a
component, and a component is in one split. Copies with other samples are the business of the filter
`duplicate`, which keeps one of each.

**What is published stays.** A version holds `splits.parquet`: the split of every speaker, recording
and PCM that was ever assigned, also while it is absent. New clips of a known speaker or recording
follow it. A new clip that would join two splits (a new recording of speakers in both, a copy of a
clip in another split) is dropped as `package.split_conflict`, together with all new clips connected
to it; a published clip only if its source now names another speaker. Other fractions move nothing
that is published; `package.resplit` assigns everything anew, as does the first version with splits.

**New components** are allocated in the order of a seeded hash of their names, each to the split
that lacks the most hours among those with room for all of it. Then a split takes the smallest
remaining component if that brings it nearer to its hours, or if it would otherwise be empty. So
with enough new audio, the hours of a split are within one component of what was asked, whatever its
size. Train never gives a component larger than what it keeps; and if splits ask for hours instead
of fractions, they get at most half of all hours.

The result does not depend on the order of the rows; memory and time grow with n log n.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.dataset.proved import Proved
from tasks.errors import RunError
from tasks.json_types import JsonObject
from tasks.packaging import components, split_allocation, split_by_list
from tasks.packaging.components import KINDS, Ints
from tasks.packaging.split_allocation import HOUR
from tasks.schema import SPLITS
from tasks.settings import PackageSettings, Split
from tasks.settings.portions import REST
from tasks.storage import tables

FILE = "splits.parquet"


class SplitAssignment(NamedTuple):
    """The split of each row, and what follows from it."""

    names: list[str]
    split: Ints  # of each row, index of `names`; -1: it would join two splits
    joins: dict[int, str]  # what such a row would join, in words
    table: pa.Table  # SPLITS: the next `splits.parquet`
    lists: JsonObject  # `split_lists` of dataset.json
    notes: list[str]  # for people, one sentence each


def published(version: Path | None) -> pa.Table:
    """`splits.parquet` of a version; empty if it was published without splits. RunError where it
    is damaged."""
    if version is None or not storage.exists(version / FILE):
        return SPLITS.empty_table()
    return tables.read(version / FILE, opened=Proved(version))


def assign(settings: PackageSettings, rows: pa.Table, before: pa.Table) -> SplitAssignment:
    """Assign all rows (columns id, dataset, recording, source_id, speaker, sha256, num_samples,
    sample_rate). `before` is the `splits.parquet` to continue.

    RunError if two lists name clips that belong together, or leave nothing for train.
    """
    names = sorted({REST, *settings.splits, *pc.unique(before["split"]).to_pylist()})
    nodes = components.nodes_of(rows)
    of_node = components.published_splits(nodes, before, names)
    direct = np.where(nodes.of_row >= 0, of_node[nodes.of_row], -1)  # by each of a row's nodes
    most = direct.max(axis=0, initial=-1)
    least = np.where(direct >= 0, direct, len(names)).min(axis=0, initial=len(names))
    joining = most > least

    component = components.components_of(nodes, of_node, ~joining)
    count = int(component.max(initial=-1)) + 1
    of_component, torn = components.agreed(component, most, count)
    bridge = (component >= 0) & torn[component]
    kept = ~(joining | bridge)
    length = split_allocation.microseconds(rows)
    matches = split_by_list.match(settings, rows, names)
    free = kept & (component >= 0) & (of_component[component] < 0)
    matched = np.where(free, matches.split, -1)
    of_component = split_by_list.extend(rows, component, matched, of_component, names)
    by_list = free & (of_component[component] >= 0)
    free &= ~by_list

    known = np.where(component >= 0, of_component[component], most)
    hours = np.bincount(known[kept & ~free], length[kept & ~free], len(names)).astype(np.int64)
    new = np.unique(component[free])
    sizes = np.bincount(component[free], length[free], count)[new].astype(np.int64)
    train = names.index(REST)
    targets = split_allocation.targets(settings, names, int(length[kept].sum()))
    order = split_allocation.order(settings.seed, nodes, component, free)
    of_component[new[order]] = split_allocation.allocate(
        sizes[order], targets - hours, hours, train
    )

    split = np.where(component >= 0, of_component[component], most)
    split[~kept] = -1
    if by_list.any() and not (split == train).any():
        raise RunError(
            "package.splits: the lists name a clip of every component, so nothing is left for "
            "train: clips of a speaker or of a recording are never separated"
        )
    notes = matches.notes + _notes(settings, names, split, length, matches.split, targets)
    table = _table(nodes, of_node, split, before, names)
    joins = {int(row): _joined(direct[:, row], names) for row in np.flatnonzero(joining)}
    joins |= dict.fromkeys(np.flatnonzero(bridge).tolist(), "joins clips of two splits")
    return SplitAssignment(names, split, joins, table, matches.described, notes)


def _table(
    nodes: components.Nodes, of_node: Ints, split: Ints, before: pa.Table, names: list[str]
) -> pa.Table:
    """`before`, and the nodes that were assigned now."""
    now = np.full(len(of_node), -1, np.int64)
    for row in nodes.of_row:
        has = (row >= 0) & (split >= 0)
        now[row[has]] = split[has]
    new = np.flatnonzero((of_node < 0) & (now >= 0))
    kinds = pa.DictionaryArray.from_arrays(pa.array(nodes.kind[new]), pa.array(KINDS))
    splits = pa.DictionaryArray.from_arrays(pa.array(now[new]), pa.array(names))
    added = pa.table(
        [kinds.cast(pa.string()), nodes.name.take(new), splits.cast(pa.string())], schema=SPLITS
    )
    whole = pa.concat_tables([before.select(SPLITS.names).cast(SPLITS), added])
    return whole.combine_chunks()


def _joined(direct: Ints, names: list[str]) -> str:
    parts = [f"{kind} in {names[s]}" for kind, s in zip(KINDS, direct, strict=True) if s >= 0]
    return f"would join two splits: {', '.join(parts)}"


def _notes(
    settings: PackageSettings,
    names: list[str],
    split: Ints,
    length: Ints,
    listed: Ints,
    targets: Ints,
) -> list[str]:
    notes = []
    elsewhere = (listed >= 0) & (split >= 0) & (split != listed)
    for number in np.unique(listed[elsewhere]).tolist():
        count = int((elsewhere & (listed == number)).sum())
        notes.append(
            f"package.splits.{names[number]}.list: {count} of the clips it names are in another "
            "split since an earlier version, and stay there; package.resplit assigns them anew"
        )
    has = np.bincount(split[split >= 0], length[split >= 0], len(names))
    for number, name in enumerate(names):
        share = settings.splits.get(name)
        if name == REST or share is None or (isinstance(share, Split) and share.list is not None):
            continue
        if not 0.5 <= has[number] / max(float(targets[number]), 1.0) <= 2:
            notes.append(
                f"split {name} has {has[number] / HOUR:.4f} h, where {targets[number] / HOUR:.4f} h"
                " were asked for: speakers and recordings are never separated, and what is "
                "published stays"
            )
    return notes


def faults(rows: pa.Table, table: pa.Table) -> list[str]:
    """Faults in the splits of a published version, for `verify`."""
    found = []
    nodes = components.nodes_of(rows)
    names: Sequence[str] = sorted(
        {*pc.unique(rows["split"]).to_pylist(), *pc.unique(table["split"]).to_pylist()}
    )
    split = pc.index_in(rows["split"], pa.array(names, pa.string())).to_numpy().astype(np.int64)
    stored = components.published_splits(nodes, table, list(names))
    for kind, row in zip(KINDS, nodes.of_row, strict=True):
        has = row >= 0
        _, torn = components.agreed(row, split, len(nodes.kind))
        if torn.any():
            name = nodes.name[int(np.argmax(torn))].as_py()
            found.append(f"the {kind} {name} is in two splits")
        if (stored[row[has]] != split[has]).any():
            found.append(f"{FILE} and utterances.parquet differ in the split of a {kind}")
    return found
