"""What the whole corpus is put together by: some tens of bytes of each clip, in one process.

Which clips are packaged, and in which split, is decided here; their rows stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import corpuswide, storage
from tasks.corpuswide import Verdicts, judging, outcomes
from tasks.dataset import versions
from tasks.errors import RunError
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import accounts, decided, seeded, selection, speakers, splits
from tasks.packaging.accounts import ACCOUNT, ACCOUNTED, KEY
from tasks.packaging.decided import VOICE, Group
from tasks.packaging.speakers import Numbers, Speakers
from tasks.plugins.rules import Rejection
from tasks.schema import UTTERANCES
from tasks.settings.portions import REST
from tasks.storage import tables

Ints = NDArray[np.int64]
Codes = NDArray[np.uint64]

#: Verdicts that come last, with what the ledger knows their clips by.
VERDICTS = pa.schema(
    [
        *outcomes.SCHEMA,
        *((name, pa.uint64()) for name in (KEY, ACCOUNT, ACCOUNTED)),
        ("group", pa.int32()),
    ]
)
JUDGED, CHOSEN = "verdicts.arrow", "chosen.arrow"
#: Columns of a row that splits and weights go by.
SELECTING = (
    "id",
    "dataset",
    "split",
    "recording",
    "source_id",
    "speaker",
    "sha256",
    "num_samples",
    "sample_rate",
)


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
    found, frozen = _corpus_wide(job, groups, newest)
    rejected = [found]
    clips = load(groups, linked)
    spoken = linked.names if linked else []
    firsts = _firsts(groups)
    place = firsts[clips.group] + clips.row
    out = np.zeros(len(place), bool)
    out[found["at"].to_numpy()] = True
    out = out[place]
    names, split = [REST], np.zeros(len(clips.high), np.int16)
    lists: JsonObject = {}
    if selection.selects(job):
        left = np.flatnonzero(~out)
        rows = rows_of(groups, clips.take(left), SELECTING)
        rows = speakers.called(rows, speakers.names_of(clips.speaker[left], spoken))
        order = pc.sort_indices(rows["id"]).to_numpy().astype(np.int64)
        left = left[order]
        chosen = selection.select(job, rows.take(order).combine_chunks(), newest)
        places, said = _found(job, clips, chosen.verdicts)
        rejected.append(judging.rejected(place[places], said))
        gone = np.zeros(len(clips.high), bool)
        gone[places] = True
        left = left[~gone[left]]
        out |= gone
        coded = chosen.rows["split"].combine_chunks().dictionary_encode()
        names = coded.dictionary.to_pylist() or names
        split[left] = coded.indices.to_numpy(zero_copy_only=False)
        lists = chosen.lists
        if chosen.splits is not None:
            _save(scratch, splits.FILE, chosen.splits)
    else:
        selection.warn_of_lost_splits(newest)
    if linked is not None:
        _save(scratch, speakers.FILE, linked.table)
    judged = _save_judged(scratch, groups, firsts, pa.concat_tables(rejected))
    _save_chosen(scratch, clips, split, ~out, names, spoken)
    return {
        "frozen": frozen,
        "split_lists": lists,
        "judged": judged,
        "changed": [shard for each in groups for shard in each.facts["changed"]],
    }


def _firsts(groups: Sequence[Group]) -> Ints:
    """The place of each group's first row among all rows, and their number."""
    return np.cumsum([0, *(each.facts["rows"] for each in groups)])


def _save_chosen(
    scratch: Path,
    clips: Clips,
    split: NDArray[np.int16],
    kept: NDArray[np.bool_],
    names: list[str],
    spoken: list[str],
) -> None:
    fields = {name: pa.from_numpy_dtype(column.dtype) for name, column in clips._asdict().items()}
    told = {"names": "\n".join(names), "clips": str(int(kept.sum()))}
    told["speakers"] = "\n".join(spoken)
    schema = pa.schema({**fields, "split": pa.int16()}, told)
    with (
        storage.of(scratch).writing(scratch) as home,
        tables.writing(home / CHOSEN, schema) as out,
    ):
        for low in range(0, len(kept), BATCH):
            some = slice(low, low + BATCH)
            columns = [column[some][kept[some]] for column in (*clips, split)]
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


def _save(scratch: Path, name: str, table: pa.Table) -> None:
    with (
        storage.of(scratch).writing(scratch) as home,
        tables.writing(home / name, table.schema) as out,
    ):
        for batch in table.to_batches():
            out.write_batch(batch)


def _corpus_wide(
    job: Job, groups: Sequence[Group], newest: Path | None
) -> tuple[pa.Table, JsonObject]:
    """Rejections (REJECTED) by the places of their clips among all rows, and the bounds that are
    frozen with the next version."""
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    if not corpuswide.takes_part(job):
        return judging.REJECTED.empty_table(), frozen
    keys = [np.zeros((0, 2), np.uint64)]
    sizes = [0]
    known = selection.Known(job, newest)

    def published(ids: pa.ChunkedArray) -> NDArray[np.bool_]:
        keys.append(seeded.keys(str(job.package.seed), ids.to_pylist()))
        sizes.append(len(ids))
        return known.among(keys[-1])

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (each.select(columns) for each in decided.in_order(groups, "heard.arrow", columns))

    found, frozen = judging.judge(job, parts, published, frozen)
    at = found["at"].to_numpy()
    order = np.argsort(at, kind="stable")
    heard, rows = np.cumsum(sizes), _firsts(groups)
    edges = np.searchsorted(at, heard, sorter=order)
    for number, group in enumerate(groups):
        some = order[edges[number] : edges[number + 1]]
        if len(some):
            digests = group.table("digests.arrow", ("high", "low"))
            high, low = (digests[name].to_numpy() for name in ("high", "low"))
            by_key = np.lexsort((low, high))
            own = keys[number + 1][at[some] - heard[number]]
            place = seeded.places_of(own[:, 0], own[:, 1], high[by_key], low[by_key])
            at[some] = np.where(place >= 0, rows[number] + by_key[place], -1)
    found = found.set_column(0, "at", pa.array(at))
    return found.filter(pc.greater_equal(found["at"], 0)), frozen


def _found(job: Job, clips: Clips, verdicts: Verdicts) -> tuple[Ints, list[Rejection]]:
    """Where the clips of these verdicts are, and why they are rejected."""
    if not verdicts:
        return np.zeros(0, np.int64), []
    keys = seeded.keys(str(job.package.seed), verdicts)
    at = seeded.places_of(keys[:, 0], keys[:, 1], clips.high, clips.low)
    return at, [Rejection(o.reason, o.value, o.threshold, o.detail) for o in verdicts.values()]


def _save_judged(
    scratch: Path, groups: Sequence[Group], firsts: Ints, rejected: pa.Table
) -> list[int]:
    """Save VERDICTS from REJECTED, a batch for each group with any; returns their numbers."""
    place = rejected["at"].to_numpy()
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place, firsts, sorter=order)
    judged = np.flatnonzero(np.diff(edges)).tolist()
    with (
        storage.of(scratch).writing(scratch) as home,
        tables.writing(home / JUDGED, VERDICTS) as out,
    ):
        for number in judged:
            some = order[edges[number] : edges[number + 1]]
            rows = place[some] - firsts[number]
            group = groups[number]
            told = group.table("rows.arrow", ("id", "recording")).take(rows)
            table = outcomes.of_rejected(told["id"], rejected.take(some))
            table = table.append_column(KEY, pa.array(accounts.keys_of(told["recording"])))
            known = group.table("digests.arrow", (ACCOUNT, ACCOUNTED)).take(rows)
            for name in (ACCOUNT, ACCOUNTED):
                table = table.append_column(name, known[name])
            table = table.append_column("group", pa.array(np.full(len(some), number, np.int32)))
            [batch] = table.cast(VERDICTS).combine_chunks().to_batches()
            out.write_batch(batch)
    return judged


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


def tables_of(scratch: Path) -> Iterator[tuple[str, pa.Table]]:
    """`splits.parquet` and `speakers.parquet` of the next version, where they are asked for."""
    for name in (splits.FILE, speakers.FILE):
        if storage.exists(scratch / name):
            with tables.arrow(scratch / name) as file:
                yield name, pa.ipc.open_file(file).read_all()
