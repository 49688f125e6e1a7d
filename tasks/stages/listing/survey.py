"""Lists all sources and finds what is new, changed, unchanged or gone. Reads no audio."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import plugins
from tasks.base.arrays import Bools, FixedBytes, Int32s, Int64s, UInt64s
from tasks.base.schema import RecordingRow
from tasks.recording import Locator
from tasks.recording.guard import LOCAL_GUARD, UNPROVEN, identity
from tasks.settings.job import Job
from tasks.shard_store import manifest
from tasks.shard_store.index import Index
from tasks.stages.listing import file_parts, fingerprints, on_workers, once
from tasks.stages.listing import known_recordings as known
from tasks.stages.listing.copies import NewCopy
from tasks.stages.listing.entries import Batch
from tasks.stages.listing.known_recordings import MAY_BE_TRIED, PASSING, PRESENT, KnownRecordings
from tasks.stages.listing.overlapping_sources import Shared, SharedRecordings
from tasks.stages.listing.row_files import RowFiles
from tasks.stages.listing.skipped import SkippedEntries
from tasks.stages.listing.stated import Stated
from tasks.storage import urls

#: Why a recording that changed while it was read is skipped; the next run takes it.
STILL_WRITTEN = "still_written"


@dataclass(slots=True)
class Survey:
    """The sources' contents now, compared with the known recordings."""

    known: KnownRecordings
    fresh: RowFiles  # new and changed recordings, to be probed
    redescribed: RowFiles  # unchanged bytes with a new description, or that have come back
    left: SkippedEntries = field(default_factory=SkippedEntries)
    used_scratch: bool = False
    reused: int = 0
    shared: list[Shared] = field(default_factory=list)  # recordings in two sources
    sources: list[Stated] = field(default_factory=list)  # what they state of their recordings
    # Rows of `known`: those that have left the sources since the last listing, all that no source
    # lists now, and those that are still being written.
    gone: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    absent: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    failed: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    # And those of files that are divided into recordings anew, some of which may be no more.
    divided: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    copies: list[NewCopy] = field(default_factory=list)  # as `commit` finds

    @property
    def ignored(self) -> dict[str, int]:
        """How many entries were skipped, by reason."""
        return dict(sorted(self.left.reasons.items()))

    def leave_out(self, broken: FixedBytes) -> None:
        """Say nothing of what sources state of these recordings, by sorted keys."""
        for source in self.sources:
            source.leave_out(broken)

    @property
    def stated(self) -> list[str]:
        """What sources state of their recordings, in sentences."""
        return [sentence for source in self.sources for sentence in source.sentences()]

    @property
    def unknown_speakers(self) -> list[str]:
        """Of how many nobody knows who speaks, where splits ask for it, in sentences."""
        return [sentence for source in self.sources if (sentence := source.of_splits())]


def survey(
    job: Job,
    index: Index,
    home: Path,
    run: on_workers.Map | None = None,
    damaged: manifest.OnDamage = manifest.leave,
    doubted: Collection[str] = (),
) -> Survey:
    """List all sources. `index`: a listing of OUT. `home`: a scratch folder for the rows that
    workers will probe. `run`: sends calls to workers, which list large sources; without it
    everything is listed here. `damaged` is told of damaged listings of OUT. `doubted`:
    recordings that count as changed, whatever their guards say."""
    had = known.of(job.out, index, damaged)
    surveyed = Survey(had, RowFiles(home, "listing"), RowFiles(home, "told"))
    looking = _Looking(job, surveyed, doubted)
    datasets = plugins.datasets(job.sources)
    shared = SharedRecordings([dataset.name for dataset in datasets])
    for number, dataset in enumerate(datasets):
        stated = Stated.of(dataset, job)
        for batch in _listed(job, number, dataset, surveyed, home, run):
            stated.at(batch)
            shared.at(batch.rows, number)
            batch, stale = file_parts.divided(batch, had)
            looking.at(batch, stale)
            looking.listed[stale] = True
            surveyed.divided = np.concatenate([surveyed.divided, stale])
        surveyed.sources.append(stated)
    surveyed.shared = shared.found()
    looking.at_young()
    surveyed.fresh.close()
    surveyed.redescribed.close()
    surveyed.used_scratch |= bool(surveyed.fresh.files or surveyed.redescribed.files)
    present = (had.columns.flags & PRESENT) > 0
    surveyed.gone = np.flatnonzero(present & ~looking.listed)
    surveyed.absent = np.flatnonzero(~looking.listed)
    return surveyed


def as_known(job: Job, index: Index, home: Path) -> Survey:
    """What `survey` finds if the sources hold just what the last run listed; looks at none."""
    had = known.of(job.out, index)
    present = had.columns.flags & PRESENT > 0
    surveyed = Survey(
        had, RowFiles(home, "listing"), RowFiles(home, "told"), reused=int(present.sum())
    )
    surveyed.absent = np.flatnonzero(~present)
    return surveyed


def _listed(
    job: Job,
    number: int,
    dataset: plugins.Dataset,
    surveyed: Survey,
    home: Path,
    run: on_workers.Map | None,
) -> Iterator[Batch]:
    """The listing of one source: by workers if it is large, or if they are needed anyway."""
    if (batches := once.kept(job, dataset, surveyed.left, make=run is None)) is not None:
        return batches
    count = len(surveyed.known.columns.keys)
    if run is not None and (not count or count >= on_workers.LEAST_KNOWN):
        branches = on_workers.branches(dataset)
        if branches is not None:
            surveyed.used_scratch = True
            batches = on_workers.listed(job, number, branches, home, run, surveyed.left)
            if batches is not None:
                return batches
    return once.listed(job, dataset, surveyed.left)


class _Looking:
    """Compares listed recordings with known ones, batch by batch."""

    def __init__(self, job: Job, surveyed: Survey, doubted: Collection[str]) -> None:
        self.found = surveyed
        self.listed = np.zeros(len(surveyed.known.columns.keys), bool)  # rows of `known`
        self._settle, self._again = job.shard.settle_seconds, job.shard.retry
        self._doubted = fingerprints.keys(doubted)
        self._seen = fingerprints.Seen()  # of recordings that are not known
        self._young: list[tuple[pa.Table, Int32s, Int64s]] = []
        self._youngest = 0.0  # Unix time at which the last of them changed

    def at(self, batch: Batch, stale: Int64s) -> None:
        """The next recordings. `stale`: known rows that are to be probed again."""
        columns = self.found.known.columns
        row = self.found.known.find(batch.keys)
        knows = row >= 0
        twice = self._twice(batch.keys, row)
        self.found.left.leave(batch.rows.filter(pa.array(twice)), "duplicate_path")
        self.listed[row[knows]] = True
        place = np.full(len(row), -1, np.int32)
        same = np.zeros(len(row), bool)
        news = np.ones(len(row), bool)
        if knows.any():
            known_rows = row[knows]
            flags = columns.flags[known_rows]
            place[knows] = columns.shard[known_rows]
            again = (flags & PASSING > 0) | ((flags & MAY_BE_TRIED > 0) & self._again)
            again |= np.isin(columns.keys[known_rows], self._doubted)
            again |= np.isin(known_rows, stale)
            stored = columns.states[known_rows]
            untouched = stored == batch.states[knows]
            adopted = ~untouched
            if adopted.any():
                former, unproven = _other_states(batch, knows, adopted)
                untouched[adopted] = stored[adopted] == unproven
                adopted[adopted] = stored[adopted] == former
            same[knows] = (untouched | adopted) & ~again
            news[knows] = (columns.heads[known_rows] != batch.heads[knows]) | (flags & PRESENT == 0)
            news[knows] |= adopted
        same &= ~twice
        self.found.reused += int(same.sum())
        redescribed = same & news
        if redescribed.any():
            self.found.redescribed.add(batch.rows.filter(pa.array(redescribed)), place[redescribed])
        fresh = ~same & ~twice
        if fresh.any():
            self._fresh(batch.rows.filter(pa.array(fresh)), place[fresh], row[fresh])

    def _twice(self, keys: FixedBytes, row: Int64s) -> Bools:
        """Which recordings were listed before."""
        twice = np.zeros(len(keys), bool)
        knows = np.flatnonzero(row >= 0)
        _, first = np.unique(row[knows], return_index=True)
        twice[knows] = True
        twice[knows[first]] = self.listed[row[knows[first]]]
        unknown = np.flatnonzero(row < 0)
        twice[unknown] = self._seen.again(keys[unknown])
        return twice

    def _fresh(self, rows: pa.Table, place: Int32s, row: Int64s) -> None:
        now = time.time()
        young = np.fromiter(
            (self._is_young(text, now) for text in fingerprints.texts(rows, "guard")),
            bool,
            len(rows),
        )
        if young.any():
            self._young.append((rows.filter(pa.array(young)), place[young], row[young]))
            rows, place = rows.filter(pa.array(~young)), place[~young]
        self.found.fresh.add(rows, place)

    def _is_young(self, guard: str, now: float) -> bool:
        """Whether a local file changed so recently that it may still be written. Objects in a store
        are always complete."""
        local = LOCAL_GUARD.fullmatch(guard)
        changed = int(local[2]) / 1e9 if local else 0.0
        if not local or not 0 <= now - changed < self._settle:
            return False
        self._youngest = max(self._youngest, changed)
        return True

    def at_young(self) -> None:
        """Wait, and leave files that are still being written for the next run."""
        if not self._young:
            return
        time.sleep(max(0.0, self._youngest + self._settle - time.time()))
        for rows, place, row in self._young:
            looked = rows.select(["locator", "guard", "error_code"]).to_pylist()
            still = np.fromiter(map(_changed, looked), bool, len(rows))
            self.found.left.leave(rows.filter(pa.array(still)), STILL_WRITTEN)
            # What was known about it no longer holds.
            failed = row[still & (place >= 0)]
            self.found.failed = np.concatenate([self.found.failed, failed])
            self.found.fresh.add(rows.filter(pa.array(~still)), place[~still])


def _other_states(batch: Batch, knows: Bools, chosen: Bools) -> tuple[UInt64s, UInt64s]:
    """States of some of the known rows of a batch: as earlier releases stored them, without ctime,
    which is noted now; and as they were stored then."""
    rows = batch.rows.filter(pa.array(knows)).filter(pa.array(chosen))
    guards, locators = ([*fingerprints.texts(rows, name)] for name in ("guard", "locator"))
    unproven = (guard + UNPROVEN for guard in guards)
    return fingerprints.states(map(identity, guards), locators), fingerprints.states(
        unproven, locators
    )


def _changed(row: RecordingRow) -> bool:
    path = Locator.loads(row["locator"]).path
    if row["error_code"]:
        return False
    try:
        return bool(urls.guard(path) != row["guard"])
    except OSError:
        return False
