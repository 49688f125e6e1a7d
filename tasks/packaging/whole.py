"""What the whole corpus is put together by: some tens of bytes of each clip, in one process.

Which clips are packaged, and in which split, is decided here; their rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import storage
from tasks.dataset import versions
from tasks.errors import RunError
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import decided, judgements, selecting, selection, speakers, splits
from tasks.packaging.decided import VOICE, Group
from tasks.packaging.speakers import Numbers, Speakers
from tasks.schema import UTTERANCES
from tasks.settings.portions import REST
from tasks.storage import tables

Ints = NDArray[np.int64]
Codes = NDArray[np.uint64]

CHOSEN = "chosen.arrow"
BATCH = 1 << 20  # clips that are looked at together, where columns of all are not copied


class Clips(NamedTuple):
    """All clips that passed the verdicts of their own shards, by the hash of their ids."""

    high: Codes
    low: Codes
    content: Codes  # digest of the row
    seconds: NDArray[np.float64]
    group: NDArray[np.int32]  # which holds the row
    row: NDArray[np.int32]  # and where
    speaker: Numbers  # index of the names of speakers over all recordings; -1: as its row says

    def take(self, which: Any) -> Clips:
        return Clips(*(column[which] for column in self))


class Chosen(NamedTuple):
    """The clips of the next version."""

    clips: Clips
    split: NDArray[np.int16]  # index of `names`
    names: list[str]
    speakers: list[str]  # over all recordings


def load(groups: Sequence[Group], linked: Speakers | None = None) -> Clips:
    """All clips. RunError if two have one id."""
    sizes = [each.facts["rows"] for each in groups]
    count = sum(sizes)
    whole = Clips(
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.repeat(np.arange(len(groups), dtype=np.int32), sizes),
        np.empty(count, np.int32),
        np.full(count, -1, np.int32),
    )
    columns = ("high", "low", "content", "samples", "rate", *([VOICE] if linked else []))
    at = 0
    for group, size in zip(groups, sizes, strict=True):
        table = group.table("digests.arrow", columns)
        of = slice(at, at + size)
        for name in ("high", "low", "content"):
            getattr(whole, name)[of] = table[name].to_numpy()
        whole.seconds[of] = table["samples"].to_numpy() / table["rate"].to_numpy()
        whole.row[of] = np.arange(size, dtype=np.int32)
        if linked is not None:
            whole.speaker[of] = linked.of(table[VOICE].to_numpy())
        at += size
    order = np.argsort(whole.high, kind="stable")
    for column in whole:
        column[:] = column[order]  # one at a time: all of them once more would be much
    del order
    _check_ids(groups, whole)
    return whole


def _check_ids(groups: Sequence[Group], clips: Clips) -> None:
    """RunError if two clips have one id."""
    close = np.flatnonzero(clips.high[1:] == clips.high[:-1])
    same = close[clips.low[close] == clips.low[close + 1]]
    if len(same):
        row = rows_of(groups, clips.take(same[:1]), ("id", "recording")).to_pylist()[0]
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )


def choose(job: Job, scratch: Path) -> JsonObject:
    """Which clips are packaged: their table is saved in `scratch`, and that of the verdicts.

    Returns `{"frozen", "split_lists", "judged", "changed"}`: bounds and lists for dataset.json,
    groups with a verdict by their numbers, and shards with recordings that changed during the run.
    """
    groups = decided.listed(job, scratch)
    newest = versions.newest(job.out)
    linked = speakers.link(job, lambda: decided.in_order(groups, "voices.arrow"), newest)
    rejected, frozen = judgements.corpus_wide(job, groups, newest)
    firsts = judgements.firsts(groups)
    split = np.zeros(firsts[-1], np.int16)  # of all rows, group by group; -1: not packaged
    split[rejected["at"].to_numpy()] = -1
    names, lists = [REST], dict[str, Any]()
    if selection.selects(job):
        with selecting.Clips(job.package) as passed:
            _add_left(job, passed, groups, split >= 0, linked, newest)
            selected = selection.select(job, passed, newest)
            names, lists = selected.names, selected.lists
            if selected.splits is not None:
                _save(scratch, splits.FILE, selected.splits())
            left = np.flatnonzero(split >= 0)
            split[:] = -1
            split[left[selected.rows]] = selected.split
            more = selected.rejected
            at = pa.array(left[more["at"].to_numpy()])
            rejected = pa.concat_tables([rejected, more.set_column(0, "at", at)])
        del left, passed, selected, more, at
    else:
        selection.warn_of_lost_splits(newest)
    if linked is not None:
        _save(scratch, speakers.FILE, linked.table.to_batches())
    judged = judgements.save(scratch, groups, rejected)
    del rejected
    clips = load(groups, linked)
    _save_chosen(scratch, clips, firsts, split, names, linked.names if linked else [])
    return {
        "frozen": frozen,
        "split_lists": lists,
        "judged": judged,
        "changed": [shard for each in groups for shard in each.facts["changed"]],
    }


def _add_left(
    job: Job,
    clips: selecting.Clips,
    groups: Sequence[Group],
    left: NDArray[np.bool_],
    linked: Speakers | None,
    newest: Path | None,
) -> None:
    """Add the clips that corpus-wide verdicts left, with who speaks in them."""
    capped = job.package.max_hours_per_speaker is not None
    known = selection.Known(job, newest if capped else None)
    spoken = pa.array(linked.names if linked else [], pa.string())
    at = 0
    for group in groups:
        some = left[at : at + group.facts["rows"]]
        at += len(some)
        rows = group.table("rows.arrow", selecting.COLUMNS).filter(pa.array(some))
        columns = ("high", "low", *([VOICE] if linked else []))
        digests = group.table("digests.arrow", columns).filter(pa.array(some))
        if linked is not None:
            names = speakers.names_of(linked.of(digests[VOICE].to_numpy()), spoken)
            rows = speakers.called(rows, names)
        keys = np.stack([digests["high"].to_numpy(), digests["low"].to_numpy()], 1)
        clips.add(rows, known.among(keys))
    clips.finish()


def _save_chosen(
    scratch: Path,
    clips: Clips,
    firsts: Ints,
    split: NDArray[np.int16],
    names: list[str],
    spoken: list[str],
) -> None:
    fields = {name: pa.from_numpy_dtype(column.dtype) for name, column in clips._asdict().items()}
    told = {"names": "\n".join(names), "clips": str(int((split >= 0).sum()))}
    told["speakers"] = "\n".join(spoken)
    schema = pa.schema({**fields, "split": pa.int16()}, told)
    with (
        storage.of(scratch).writing(scratch) as home,
        tables.writing(home / CHOSEN, schema) as out,
    ):
        for low in range(0, len(split), BATCH):
            some = clips.take(slice(low, low + BATCH))
            own = split[firsts[some.group] + some.row]
            columns = [column[own >= 0] for column in (*some, own)]
            out.write_batch(pa.record_batch([pa.array(each) for each in columns], schema=schema))


def chosen(scratch: Path) -> Chosen:
    """What `choose` saved."""
    with tables.arrow(scratch / CHOSEN) as file:
        held = pa.ipc.open_file(file)
        told = held.schema.metadata
        columns = {
            field.name: np.empty(int(told[b"clips"]), field.type.to_pandas_dtype())
            for field in held.schema
        }
        at = 0
        for number in range(held.num_record_batches):
            batch = held.get_batch(number)
            for name, column in columns.items():
                column[at : at + batch.num_rows] = batch[name].to_numpy()
            at += batch.num_rows
    split = columns.pop("split")
    names, spoken = (told[key].decode().split("\n") for key in (b"names", b"speakers"))
    return Chosen(Clips(**columns), split, names, spoken if spoken != [""] else [])


def _save(scratch: Path, name: str, parts: Iterable[pa.Table | pa.RecordBatch]) -> None:
    found = iter(parts)
    first = next(found)
    with (
        storage.of(scratch).writing(scratch) as home,
        tables.writing(home / name, first.schema) as out,
    ):
        for part in chain([first], found):
            for batch in part.to_batches() if isinstance(part, pa.Table) else [part]:
                out.write_batch(batch)


def rows_of(
    groups: Sequence[Group], clips: Clips, columns: Sequence[str], name: str = "rows.arrow"
) -> pa.Table:
    """These columns of the rows of some clips, in their order; of the table `name`."""
    order = np.argsort(clips.group, kind="stable")
    found = []
    edges = np.searchsorted(clips.group[order], np.arange(len(groups) + 1))
    for number in np.unique(clips.group).tolist():
        rows = clips.row[order[edges[number] : edges[number + 1]]]
        found.append(groups[number].table(name, columns).select(columns).take(rows))
    if not found:
        schema = UTTERANCES if name == "rows.arrow" else decided.DIGESTS
        return pa.schema([schema.field(name) for name in columns]).empty_table()
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(found).take(back)


def tables_of(scratch: Path) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
    """`splits.parquet` and `speakers.parquet` of the next version, where they are asked for."""
    for name in (splits.FILE, speakers.FILE):
        if storage.exists(scratch / name):
            with tables.arrow(scratch / name) as file:
                held = pa.ipc.open_file(file)
                yield name, (held.get_batch(at) for at in range(held.num_record_batches))
