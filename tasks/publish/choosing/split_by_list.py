"""Assigns new clips to splits by lists of names, together with all clips of their components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Bools, Int32s
from ...base.counting import counted
from ...base.errors import RunError
from ...base.json_types import ListDescription
from ...settings.package import SplitList
from . import components
from .components import Sides

ListDescriptions = dict[str, ListDescription]  # by split: `split_lists` of dataset.json


class Matches(NamedTuple):
    split: Sides  # of each row, index into the names of splits; -1: no list names it
    described: ListDescriptions
    notes: list[str]  # for people


class MatchedList:
    """A list of names, and the clips that match them."""

    def __init__(self, named: SplitList) -> None:
        self.named = named
        self._names = pa.array(named.names, pa.string())
        self._hits = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        self.called: dict[int, str] = {}  # by number of a matching clip: its id and recording

    def add(self, first: int, rows: pa.Table) -> None:
        """Match the next clips, numbered from `first` on."""
        columns = [rows[name] for name in ("id", "recording", "source_id", "speaker")]
        columns.append(pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/"))
        for column in columns:
            name_index = pc.index_in(column, self._names)
            hit = np.flatnonzero(name_index.is_valid().to_numpy())
            if len(hit):
                self._hits.append((first + hit, name_index.drop_null().to_numpy().astype(np.int64)))
                clips = rows.select(["id", "recording"]).take(hit).to_pylist()
                names = (f"{row['id']} ({row['recording']})" for row in clips)
                self.called.update(zip((first + hit).tolist(), names, strict=True))

    def hits(self, rows: Bools) -> tuple[Bools, list[str]]:
        """Which clips of `rows` (bool, by number) the list names, and the names that match none."""
        clip, name = (np.concatenate(column) for column in zip(*self._hits, strict=True))
        good = rows[clip]
        hit = np.zeros(len(rows), bool)
        hit[clip[good]] = True
        met = pc.is_in(self._names, self._names.take(np.unique(name[good])))
        return hit, self._names.filter(pc.invert(met)).to_pylist()


def match(listed: list[MatchedList], rows: Int32s, count: int, names: list[str]) -> Matches:
    """The split that the lists give to each clip in `rows` (numbers below `count`), as an index
    into `names`. Raises RunError if two lists name the same clip."""
    split = np.full(len(rows), -1, np.int16)
    described, notes = ListDescriptions(), list[str]()
    among = np.zeros(count, bool)
    among[rows] = True
    for matched_list in listed:
        hit_clips, unmatched = matched_list.hits(among)
        hit = hit_clips[rows]
        both = hit & (split >= 0)
        named = matched_list.named
        if both.any():
            raise RunError(_two_lists(listed, int(rows[np.argmax(both)]), named.split))
        split[hit] = names.index(named.split)
        described[named.split] = {
            "sha256": named.sha256,
            "names": len(named.names),
            "unmatched": len(unmatched),
            "unmatched_first": unmatched[:20],
        }
        if unmatched:
            notes.append(
                f"package.splits.{named.split}.list: {len(unmatched)} of "
                f"{counted(len(named.names), 'name')} match no packaged clip: "
                f"{', '.join(unmatched[:5])}"
            )
    return Matches(split, described, notes)


def extend(
    listed: list[MatchedList],
    rows: Int32s,
    component: Int32s,
    matched: Sides,
    of_component: Sides,
    names: list[str],
) -> Sides:
    """The split of each component: that of its rows that a list matched (`matched`), else
    `of_component`. Raises RunError if two lists name clips of one component."""
    by_list, torn = components.agreed(component, matched, len(of_component) - 1)
    if torn.any():
        row = int(np.argmax((component >= 0) & torn[component] & (matched >= 0)))
        raise RunError(_two_lists(listed, int(rows[row]), names[matched[row]]))
    return np.where(by_list >= 0, by_list, of_component)


def _two_lists(listed: list[MatchedList], clip: int, split: str) -> str:
    named = next(filter(None, (matched_list.called.get(clip) for matched_list in listed)), "a clip")
    return (
        f"package.splits: the list of {split} names {named}, and another split's list names a clip "
        "with the same recording, speaker or samples; such clips must be in one split: remove one "
        "of the two names"
    )
