"""Stage shard: sources in, balanced shards of probed recordings out; append-only.

An item is a recording. `survey` lists the sources and compares them with the known recordings;
`probe` (on the workers) reads headers and content digests of new and changed ones; `commit` groups
new recordings into shards of about equal duration by header, longest first. A recording stays in
its shard for ever; one that has left its source is only marked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .. import storage
from ..accounting.broken import FIRST, Broken, BrokenCount, Unreachable
from ..base.arrays import Bools, FixedBytes
from ..base.schema import RECORDINGS
from ..recording import forgotten, unreachable
from ..settings.job import Job
from ..shard_store import manifest
from ..shard_store.index import Index
from ..storage import tables
from . import probe as probing
from .call import Call, Limits
from .contract import OfRecording
from .listing import copies, entries, known_recordings
from .listing.known_recordings import LISTED, Columns, KnownRecordings, merged
from .listing.shard_choice import in_shards, shards_of
from .listing.survey import Survey as Survey
from .listing.survey import as_known as as_known
from .listing.survey import survey as survey

PROBE_SECONDS, PROBE_EACH = 20.0, 2.0  # s of a call, and each recording
SLOWEST = 10e6  # bytes a second that a worker reads and hashes at least


def probe(job: Job, listing: Path, low: int, high: int, size: float, isolate: bool = False) -> Path:
    """On a worker: read header and digest of rows `low` to `high`, which have `size` bytes; returns
    the path of the result. With `isolate` each runs in a disposable process: one that kills it is
    quarantined."""
    from . import isolate as isolation
    from . import known_good

    units = [*map(OfRecording, tables.read(listing).slice(low, high - low).to_pylist())]
    if not isolate:
        known_good.check("probe", job, units)
    results = isolation.results("probe", job, units) if isolate else probing.compute(units, job)
    target = listing.with_name(f"{listing.stem}-{low:09d}.parquet")
    rows = pa.Table.from_pylist([*chain.from_iterable(results)], schema=LISTED)
    known_recordings.save(rows, target)
    return target


def sizes(listing: Path, step: int) -> list[tuple[int, float]]:
    """The first row of each batch of `step` rows of a listing, and the bytes of its recordings."""
    sizes = tables.read(listing, ["size"])["size"].fill_null(0).to_numpy()
    return [(low, float(sizes[low : low + step].sum())) for low in range(0, len(sizes), step)]


def probe_deadline(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    """Headers are read in milliseconds, and every byte is hashed. If a batch misses its deadline,
    its recordings are probed one by one: one that hangs costs 1.2 times `item_timeout` by the
    defaults, and a batch that was only slow still succeeds."""
    from . import isolate as isolation

    low, high, size = args[2:5]
    recordings: int = high - low
    reading: float = size / SLOWEST
    if isolated:
        return (isolation.START + limits.item) * recordings
    batch = PROBE_SECONDS + PROBE_EACH * recordings
    return min(batch, max(limits.item / 2, PROBE_SECONDS), limits.item) + reading


PROBE = Call("shard", "probe", probe, probe_deadline)


def commit(job: Job, surveyed: Survey, results: Sequence[Path], index: Index) -> dict[str, float]:
    """Commit changed rows to their shards and new ones to new shards. Returns all shards that have
    recordings, with their audio by header in s.

    `results`: the results of `probe` for `surveyed.fresh`. A new recording with the bytes of a
    removed one joins that one's shard: a source that was moved or renamed is neither cut nor
    transcribed again. CorruptManifest if the listing of an affected shard is damaged: remove it,
    and survey again.
    """
    had = surveyed.known
    leaving = np.concatenate([surveyed.gone, surveyed.failed])
    if len(surveyed.divided):
        names = (tables.read(path)["recording"].to_pylist() for path in results)
        probed = entries.keys(chain.from_iterable(names))
        leaving = np.concatenate([leaving, probing.vanished(had, surveyed.divided, probed)])
    gone = np.sort(had.columns.keys[leaving])
    touched = {*np.unique(had.columns.shard[leaving]).tolist()}
    numbers = shards_of(job, surveyed, results, gone)
    changed: dict[int, Columns] = {}
    with in_shards(job, surveyed, results, numbers) as incoming:
        for number, rows in incoming:
            touched.discard(number)
            changed[number] = _commit(job, surveyed, number, rows, gone)
    for number in sorted(touched):
        changed[number] = _commit(job, surveyed, number, None, gone)
    if changed:
        had.replaced(changed)
        # Lost files were reported, and superseded ones are not missing.
        index.look([had.shards[number] for number in changed], [known_recordings.ROOT])
    places, lengths = had.columns.shard[had.present], had.columns.seconds[had.present]
    counts, seconds = (np.bincount(places, some, len(had.shards)) for some in (None, lengths))
    return {had.shards[number]: float(seconds[number]) for number in np.flatnonzero(counts)}


def _commit(
    job: Job, surveyed: Survey, number: int, rows: pa.Table | None, gone: FixedBytes
) -> Columns:
    """Commit a shard with its new rows, and without those that are gone."""
    had = surveyed.known
    shard = had.shards[number]
    before = manifest.listed(job.out, shard, manifest.refuse).to_pylist()
    former = copies.former(before)
    listed = merged(before, rows, gone)
    if removed := forgotten.read(job.out):  # also copies of such files under other names
        listed = [row for row in listed if not removed.holds(row)]
    if job.filter.duplicate_files == "drop":
        surveyed.copies += copies.mark(listed, former)
    table = pa.Table.from_pylist(listed, schema=RECORDINGS)
    path = manifest.commit(job.out, "shard", shard, table, RECORDINGS, {})
    for other in manifest.files(job.out, "shard", shard):
        if manifest.number_of(other.name) < manifest.number_of(path.name):  # superseded
            storage.remove(other)
    return known_recordings.note(had, {number: table})


def broken_of(job: Job, had: KnownRecordings, rows: Bools, limit: float) -> BrokenCount:
    """How many of these known recordings there are, and are broken; and which ones, if these are
    more than this share."""
    broken = rows & (had.columns.contents == 0)
    recordings, failed = int(rows.sum()), int(broken.sum())
    if not recordings or failed / recordings <= limit:
        return BrokenCount(recordings, failed)
    keys = {*had.columns.keys[broken].tolist()}
    named = (
        Broken(row["source_path"], f"shard.{row['error_code']}", row["error_detail"] or "")
        for number in np.unique(had.columns.shard[broken])
        for row in manifest.listed(job.out, had.shards[number], manifest.refuse).to_pylist()
        if row["error_code"] and entries.keys([row["recording"]])[0] in keys
    )
    return BrokenCount(recordings, failed, nsmallest(FIRST, named))


def unreachable_of(job: Job, surveyed: Survey) -> dict[str, Unreachable]:
    """By dataset, the recordings that cannot be read at present."""
    had = surveyed.known
    now = known_recordings.PRESENT | known_recordings.PASSING
    failed, why = Counter[str](), dict[str, str]()
    for number in np.unique(had.columns.shard[had.columns.flags & now == now]):
        table = manifest.listed(job.out, had.shards[number], manifest.refuse)
        for row in table.filter(pa.array(manifest.passing(table))).to_pylist():
            if row["present"]:
                failed[row["dataset"]] += 1
                why.setdefault(row["dataset"], unreachable.why(row["error_detail"] or ""))
    recordings = had.by_dataset(had.present) if failed else {}
    return {name: Unreachable(failed[name], recordings[name], why[name]) for name in failed}
