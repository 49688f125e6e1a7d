"""Choose the clips of the next version: corpus-wide verdicts, then caps and splits.

Runs in one process and holds some tens of bytes of each clip; the rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import storage
from tasks.base.arrays import Bools, Int64s
from tasks.base.json_types import JsonObject
from tasks.publish import speakers
from tasks.publish.choosing import (
    corpus_clips,
    corpus_rejections,
    selection,
    split_input,
    splits,
    unchanged_clips,
)
from tasks.publish.choosing.selection import Selection
from tasks.publish.choosing.unchanged_clips import Staying
from tasks.publish.outcomes import shard_groups
from tasks.publish.outcomes.shard_groups import VOICE, ShardGroup
from tasks.publish.speakers import Speakers
from tasks.settings.job import Job
from tasks.settings.portions import REST
from tasks.storage import tables, versions


@dataclass(frozen=True, slots=True)
class Choice:
    """What the choice of the next version's clips says beside its tables."""

    frozen: JsonObject  # bounds of corpus-wide verdicts, for dataset.json
    split_lists: JsonObject  # for dataset.json
    firsts: dict[str, str]  # the first id of each split
    judged: list[int]  # groups with a corpus-wide verdict, by their numbers
    changed: list[str]  # shards with recordings that changed during the run


def choose(job: Job, scratch: Path) -> Choice:
    """Save the tables of the packaged clips and of the corpus-wide verdicts in `scratch`."""
    groups = shard_groups.listed(job, scratch)
    newest = versions.newest(job.out)
    linked = speakers.link(
        job,
        lambda: (each.table("voices.arrow") for each in groups),
        newest,
        lambda tables: _save(scratch, speakers.FILE, tables),
    )
    rejected, frozen = corpus_rejections.corpus_wide(job, groups, newest)
    first_rows = corpus_rejections.first_rows(groups)
    split = np.zeros(first_rows[-1], np.int16)  # of all rows, group by group; -1: not packaged
    split[rejected["at"].to_numpy()] = -1
    names, lists, first_ids = [REST], JsonObject(), dict[str, str]()
    if selection.selects(job):
        stay = unchanged_clips.of(job, groups, newest, split >= 0, linked is not None)
        among = (split >= 0) & (stay.split < 0)
        with split_input.Candidates(job.package) as passed:
            _add_left(job, passed, groups, among, linked, newest)
            selected = selection.select(job, passed, newest, stay.lengths)
            if selected.splits is not None:
                _save(scratch, splits.FILE, selected.splits())
        left = np.flatnonzero(among)
        first_ids = _first_ids(groups, first_rows, left, selected, stay)
        names, lists = [*first_ids] or [REST], selected.lists
        split = unchanged_clips.renumbered(stay.split, stay.names, names)
        split[left[selected.rows]] = unchanged_clips.renumbered(
            selected.split, selected.names, names
        )
        at = pa.array(left[selected.rejected["at"].to_numpy()])
        rejected = pa.concat_tables([rejected, selected.rejected.set_column(0, "at", at)])
        del among, left, passed, selected, stay, at
    else:
        selection.warn_of_lost_splits(newest)
    judged = corpus_rejections.save(scratch, groups, rejected)
    del rejected
    clips = corpus_clips.load(groups, linked)
    corpus_clips.save(scratch, clips, first_rows, split, names, linked.names if linked else [])
    changed = [shard for each in groups for shard in each.facts["changed"]]
    return Choice(frozen, lists, first_ids, judged, changed)


def _first_ids(
    groups: Sequence[ShardGroup], begins: Int64s, left: Int64s, selected: Selection, stay: Staying
) -> dict[str, str]:
    """The first id of each split in use, in their order: that of the splits."""
    found = dict(stay.first_ids)
    for number, at in zip(*np.unique(selected.split, return_index=True), strict=True):
        row = left[selected.rows[at]]
        group = int(np.searchsorted(begins, row, "right")) - 1
        name = selected.names[number]
        own = groups[group].table("rows.arrow", ("id",))["id"][row - begins[group]].as_py()
        found[name] = min(own, found.get(name, own), key=str.encode)
    return dict(sorted(found.items(), key=lambda item: item[1].encode()))


def _add_left(
    job: Job,
    clips: split_input.Candidates,
    groups: Sequence[ShardGroup],
    left: Bools,
    linked: Speakers | None,
    newest: Path | None,
) -> None:
    """Add the clips of the rows that are still `left`, with their speakers."""
    capped = job.package.max_hours_per_speaker is not None
    known = selection.PublishedIds(job, newest if capped else None)
    spoken = pa.array(linked.names if linked else [], pa.string())
    at = 0
    for group in groups:
        some = left[at : at + group.facts["rows"]]
        at += len(some)
        if not some.any():
            continue
        rows = group.table("rows.arrow", split_input.COLUMNS).filter(pa.array(some))
        columns = ("high", "low", *([VOICE] if linked else []))
        digests = group.table("digests.arrow", columns).filter(pa.array(some))
        if linked is not None:
            names = speakers.names_of(linked.of(digests[VOICE].to_numpy()), spoken)
            rows = speakers.called(rows, names)
        keys = np.stack([digests["high"].to_numpy(), digests["low"].to_numpy()], 1)
        clips.add(rows, known.among(keys))
    clips.finish()


def _save(scratch: Path, name: str, parts: Iterable[pa.Table]) -> None:
    with storage.of(scratch).writing(scratch) as home:
        tables.write_arrow(home / name, parts)
