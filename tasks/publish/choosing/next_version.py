"""Choose the clips of the next version: corpus-wide rejections, then caps and splits.

Runs in one process and holds some tens of bytes of each clip; the rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.base.arrays import Bools, Int64s
from tasks.base.json_types import JsonObject
from tasks.base.logs import log
from tasks.publish import corpus_labels, speakers
from tasks.publish.choosing import (
    corpus_clips,
    corpus_rejections,
    selection,
    split_input,
    splits,
    unchanged_clips,
)
from tasks.publish.choosing.selection import Selection
from tasks.publish.choosing.split_by_list import ListDescriptions
from tasks.publish.choosing.unchanged_clips import Staying
from tasks.publish.outcomes import shard_batches
from tasks.publish.outcomes.shard_batches import VOICE, ShardBatch
from tasks.publish.speakers import Speakers
from tasks.settings.job import Job
from tasks.settings.package import REST
from tasks.storage import tables, versions


@dataclass(frozen=True, slots=True)
class Choice:
    """What the choice of the next version's clips says beside its tables."""

    frozen: JsonObject  # bounds of corpus-wide rules, for dataset.json
    split_lists: ListDescriptions  # for dataset.json
    firsts: dict[str, str]  # the first id of each split
    rejecting: list[int]  # numbers of the shard batches with corpus-wide rejections
    changed: list[str]  # shards with recordings that changed during the run


def choose(job: Job, scratch: Path) -> Choice:
    """Save the tables of the packaged clips and of the corpus-wide rejections in `scratch`."""
    batches = shard_batches.listed(scratch)
    newest = versions.newest(job.out)
    linked = speakers.link(
        job,
        lambda: (batch.table("voices.arrow") for batch in batches),
        newest,
        lambda tables: _save(scratch, speakers.FILE, tables),
    )
    rejected, frozen = corpus_rejections.corpus_wide(job, batches, newest)
    corpus_labels.save(job, scratch, frozen)
    first_rows = corpus_rejections.first_rows(batches)
    split = np.zeros(first_rows[-1], np.int16)  # of all rows, batch by batch; -1: not packaged
    split[rejected["at"].to_numpy()] = -1
    names, lists, first_ids = [REST], ListDescriptions(), dict[str, str]()
    if selection.selects(job):
        stay = unchanged_clips.of(job, batches, newest, split >= 0, linked is not None)
        among = (split >= 0) & (stay.split < 0)
        with split_input.Candidates(job.package, job.scratch) as passed:
            _add_open(job, passed, batches, among, linked, newest)
            passed.staying = partial(_staying_texts, batches, stay)
            if (stay.split < 0).all():  # else some are not among them
                for sentence in passed.chosen_by.unmatched():
                    log.warning("%s", sentence)
            selected = selection.select(job, passed, newest, stay.lengths)
            if selected.splits is not None:
                _save(scratch, splits.FILE, selected.splits())
        open_rows = np.flatnonzero(among)
        first_ids = _first_ids(batches, first_rows, open_rows, selected, stay)
        names, lists = [*first_ids] or [REST], selected.lists
        split = unchanged_clips.renumbered(stay.split, stay.names, names)
        split[open_rows[selected.rows]] = unchanged_clips.renumbered(
            selected.split, selected.names, names
        )
        places = pa.array(open_rows[selected.rejected["at"].to_numpy()])
        rejected = pa.concat_tables([rejected, selected.rejected.set_column(0, "at", places)])
        del among, open_rows, passed, selected, stay, places
    else:
        selection.warn_of_lost_splits(newest)
    rejecting = corpus_rejections.save(scratch, batches, rejected)
    del rejected
    clips = corpus_clips.load(batches, linked)
    corpus_clips.save(scratch, clips, first_rows, split, names, linked.names if linked else [])
    changed = [shard for batch in batches for shard in batch.facts["changed"]]
    return Choice(frozen, lists, first_ids, rejecting, changed)


def _first_ids(
    batches: Sequence[ShardBatch],
    begins: Int64s,
    open_rows: Int64s,
    selected: Selection,
    stay: Staying,
) -> dict[str, str]:
    """The first id of each split in use, in their order: that of the splits."""
    first_ids = dict(stay.first_ids)
    for number, index in zip(*np.unique(selected.split, return_index=True), strict=True):
        row = open_rows[selected.rows[index]]
        batch = int(np.searchsorted(begins, row, "right")) - 1
        name = selected.names[number]
        clip_id = batches[batch].table("rows.arrow", ("id",))["id"][row - begins[batch]].as_py()
        first_ids[name] = min(clip_id, first_ids.get(name, clip_id), key=str.encode)
    return dict(sorted(first_ids.items(), key=lambda item: item[1].encode()))


def _add_open(
    job: Job,
    clips: split_input.Candidates,
    batches: Sequence[ShardBatch],
    is_open: Bools,
    linked: Speakers | None,
    newest: Path | None,
) -> None:
    """Add the clips of the rows that are still open (`is_open`), with their speakers."""
    capped = job.package.max_hours_per_speaker is not None
    published_ids = selection.PublishedIds(job, newest if capped else None)
    spoken = pa.array(linked.names if linked else [], pa.string())
    begin = 0
    for batch in batches:
        some = is_open[begin : begin + batch.facts["rows"]]
        begin += len(some)
        if not some.any():
            continue
        rows = batch.table("rows.arrow", (*split_input.COLUMNS, "blob")).filter(pa.array(some))
        rows = rows.append_column("pending", pc.is_null(rows["blob"]))  # of what is foreseen
        columns = ("high", "low", *([VOICE] if linked else []))
        digests = batch.table("digests.arrow", columns).filter(pa.array(some))
        if linked is not None:
            names = speakers.names_of(linked.of(digests[VOICE].to_numpy()), spoken)
            rows = speakers.called(rows, names)
        keys = np.stack([digests["high"].to_numpy(), digests["low"].to_numpy()], 1)
        clips.add(rows, published_ids.among(keys), linked)
    clips.finish()


def _staying_texts(batches: Sequence[ShardBatch], stay: Staying) -> Iterator[pa.Table]:
    """`normalised` and `split` of the clips that stay."""
    names, begin = pa.array(stay.names, pa.string()), 0
    for batch in batches:
        side = stay.split[begin : begin + batch.facts["rows"]]
        begin += len(side)
        if (side >= 0).any():
            rows = batch.table("rows.arrow", ("normalised",)).filter(pa.array(side >= 0))
            yield rows.append_column("split", names.take(pa.array(side[side >= 0])))


def _save(scratch: Path, name: str, parts: Iterable[pa.Table]) -> None:
    with storage.of(scratch).writing(scratch) as home:
        tables.write_arrow(home / name, parts)
