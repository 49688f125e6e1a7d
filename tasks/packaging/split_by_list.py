"""Which new clips the fixed lists of splits assign, with everything that must stay with them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import RunError
from tasks.json_types import JsonObject
from tasks.packaging import components
from tasks.packaging.components import Bools, Ints
from tasks.settings import PackageSettings, split_lists
from tasks.settings.split_lists import SplitList


class Matches(NamedTuple):
    split: Ints  # of each row, by number; -1: no list names it
    described: JsonObject  # `split_lists` of dataset.json
    notes: list[str]  # for people


def match(settings: PackageSettings, rows: pa.Table, names: list[str]) -> Matches:
    """The rows that the lists name. RunError if two lists name the same clip."""
    split = np.full(rows.num_rows, -1, np.int64)
    described, notes = {}, []
    for each in split_lists.read(settings):
        hit, unmatched = _match(each, rows)
        both = hit & (split >= 0)
        if both.any():
            raise RunError(_two_lists(rows, int(np.argmax(both)), each.split))
        split[hit] = names.index(each.split)
        described[each.split] = {
            "sha256": each.sha256,
            "names": len(each.names),
            "unmatched": len(unmatched),
            "unmatched_first": unmatched[:20],
        }
        if unmatched:
            notes.append(
                f"package.splits.{each.split}.list: {len(unmatched)} of {len(each.names)} names"
                f" match no packaged clip: {', '.join(unmatched[:5])}"
            )
    return Matches(split, described, notes)


def _match(named: SplitList, rows: pa.Table) -> tuple[Bools, list[str]]:
    """Which rows (columns id, recording, source_id, dataset, speaker) a list names, and which of
    its names match none of them."""
    names = pa.array(named.names, pa.string())
    hit = np.zeros(rows.num_rows, bool)
    met = np.zeros(len(names), bool)
    columns = [rows[name] for name in ("id", "recording", "source_id", "speaker")]
    columns.append(pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/"))
    for column in columns:
        hit |= pc.is_in(column, names).to_numpy()
        met |= pc.is_in(names, pc.unique(column)).to_numpy(zero_copy_only=False)
    return hit, names.filter(pa.array(~met)).to_pylist()


def extend(
    rows: pa.Table, component: Ints, matched: Ints, of_component: Ints, names: list[str]
) -> Ints:
    """The split of each component, with those that the `matched` rows give. RunError if two lists
    name clips of one component."""
    by_list, torn = components.agreed(component, matched, len(of_component) - 1)
    if torn.any():
        row = int(np.argmax((component >= 0) & torn[component] & (matched >= 0)))
        raise RunError(_two_lists(rows, row, names[matched[row]]))
    return np.where(by_list >= 0, by_list, of_component)


def _two_lists(rows: pa.Table, row: int, split: str) -> str:
    found = rows.select(["id", "recording"]).slice(row, 1).to_pylist()[0]
    return (
        f"package.splits: the list of {split} names {found['id']} ({found['recording']}), and "
        "another split's list names something of the same recording, speaker or samples: these are "
        "never separated; remove one of them"
    )
