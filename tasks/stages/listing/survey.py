"""Lists all sources and finds what is new, changed, unchanged or gone. Reads no audio."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...base.arrays import Bools, FixedBytes, Int32s, Int64s, UInt8s
from ...base.counting import counted
from ...base.schema import RecordingRow
from ...plugins import Dataset
from ...recording import Locator, forgotten
from ...recording.guard import LOCAL_GUARD
from ...settings.job import Job
from ...settings.package import keeps_speakers_apart
from ...shard_store import manifest
from ...shard_store.index import Index
from ...storage import sorted_keys, urls
from .. import probe
from . import entries
from . import known_recordings as known
from .copies import NewCopy, Shared, SharedRecordings
from .entries import Batch
from .known_recordings import MAY_BE_TRIED, PASSING, PRESENT, KnownRecordings, RowFiles
from .skipped import SkippedEntries

#: Why a recording that changed while it was read is skipped; the next run takes it.
STILL_WRITTEN = "still_written"
#: Why a recording that was removed on request is skipped: it is counted, and not named.
FORGOTTEN = "forgotten"


_no_rows = cast(Callable[[], Int64s], partial(np.zeros, 0, np.int64))


@dataclass(slots=True)
class Survey:
    known: KnownRecordings
    fresh: RowFiles  # new and changed recordings, to be probed
    redescribed: RowFiles  # unchanged bytes with a new description, or that have come back
    left: SkippedEntries = field(default_factory=SkippedEntries)
    reused: int = 0
    shared: list[Shared] = field(default_factory=list)  # recordings in two sources
    sources: list[Stated] = field(default_factory=list)  # what they state about their recordings
    # Rows of `known`: those that have left the sources since the last listing, all that no source
    # lists now, and those still being written.
    gone: Int64s = field(default_factory=_no_rows)
    absent: Int64s = field(default_factory=_no_rows)
    failed: Int64s = field(default_factory=_no_rows)
    # Rows of `known` for files that are divided anew; some of their recordings may no longer exist.
    divided: Int64s = field(default_factory=_no_rows)
    copies: list[NewCopy] = field(default_factory=list)  # found by `commit`

    @property
    def ignored(self) -> dict[str, int]:
        return dict(sorted((+self.left.reasons).items()))  # without those that are 0

    def leave_out(self, broken: FixedBytes) -> None:
        """Exclude these recordings, by sorted keys, from the sentences about sources."""
        for source in self.sources:
            source.leave_out(broken)

    @property
    def stated(self) -> list[str]:
        """What sources state about their recordings, in sentences."""
        stated = chain.from_iterable(map(Stated.sentences, self.sources))
        return [*stated, *self.left.sentences()]

    @property
    def unknown_speakers(self) -> list[str]:
        """How many recordings have no known speaker although splits need one, in sentences."""
        return [sentence for source in self.sources if (sentence := source.of_splits())]


def survey(
    job: Job,
    index: Index,
    home: Path,
    damaged: manifest.OnDamage = manifest.leave,
    doubted: Collection[str] = (),
    had: KnownRecordings | None = None,
) -> Survey:
    """List all sources. `index`: a listing of OUT. `home`: a scratch folder for the rows that
    workers will probe. `damaged` is called for each damaged listing of OUT. `doubted`: recordings
    that count as changed, whatever their guards. `had`: what OUT knows, if it was read."""
    had = had or known.read(job.out, index, damaged)
    surveyed = Survey(had, RowFiles(home, "listing"), RowFiles(home, "told"))
    looking = _Looking(job, surveyed, doubted)
    datasets = plugins.datasets(job.sources)
    several = len(datasets) > 1
    shared = SharedRecordings([dataset.name for dataset in datasets]) if several else None
    gone = forgotten.read(job.out)
    for number, dataset in enumerate(datasets):
        stated = Stated.from_dataset(dataset, job)
        for every in entries.batches_of(job, dataset, surveyed.left):
            batch = every.where(~gone.rows(every.rows)) if gone else every
            surveyed.left.reasons[FORGOTTEN] += len(every.rows) - len(batch.rows)
            stated.at(batch)
            if shared is not None:
                shared.at(batch.rows, number)
            batch, stale = probe.divided(batch, had)
            looking.at(batch, stale)
            looking.listed[stale] = True
            surveyed.divided = np.concatenate([surveyed.divided, stale])
        surveyed.sources.append(stated)
    if shared is not None:
        surveyed.shared = shared.found()
    looking.at_young()
    surveyed.fresh.close()
    surveyed.redescribed.close()
    surveyed.gone = np.flatnonzero(had.present & ~looking.listed)
    surveyed.absent = np.flatnonzero(~looking.listed)
    return surveyed


def as_known(had: KnownRecordings, home: Path) -> Survey:
    """The result of `survey` if the sources contain exactly what the last run listed; reads none of
    them."""
    reused, absent = int(had.present.sum()), np.flatnonzero(~had.present)
    files = RowFiles(home, "listing"), RowFiles(home, "told")
    return Survey(had, *files, reused=reused, absent=absent)


class _Looking:
    def __init__(self, job: Job, surveyed: Survey, doubted: Collection[str]) -> None:
        self.found = surveyed
        self.listed = np.zeros(len(surveyed.known.columns.keys), bool)  # rows of `known`
        self._settle, self._again = job.shard.settle_seconds, job.shard.retry
        self._doubted = entries.keys(doubted)
        self._seen = entries.Seen()  # unknown recordings
        self._young: list[tuple[pa.Table, Int32s, Int64s]] = []
        self._youngest = 0.0  # Unix time at which the last of them changed

    def at(self, batch: Batch, stale: Int64s) -> None:
        """Compare the next recordings. `stale`: known rows to probe again."""
        columns = self.found.known.columns
        row = self.found.known.find(batch.keys)
        knows = row >= 0
        twice = np.zeros(len(row), bool)  # a name that was listed before, now or earlier
        _, first = np.unique(row[knows], return_index=True)
        twice[knows] = True
        first = np.flatnonzero(knows)[first]
        twice[first] = self.listed[row[first]]
        twice[~knows] = self._seen.again(batch.keys[~knows])
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
            same[knows] = (columns.states[known_rows] == batch.states[knows]) & ~again
            news[knows] = (columns.heads[known_rows] != batch.heads[knows]) | (flags & PRESENT == 0)
        same &= ~twice
        self.found.reused += int(same.sum())
        redescribed = same & news
        if redescribed.any():
            self.found.redescribed.add(batch.rows.filter(pa.array(redescribed)), place[redescribed])
        fresh = ~same & ~twice
        if fresh.any():
            self._fresh(batch.rows.filter(pa.array(fresh)), place[fresh], row[fresh])

    def _fresh(self, rows: pa.Table, place: Int32s, row: Int64s) -> None:
        """`rows` are new or changed. A local file that changed so recently may still be being
        written; objects in a store are always complete."""
        now, young = time.time(), np.zeros(len(rows), bool)
        for number, guard in enumerate(rows["guard"].to_pylist()):
            local = LOCAL_GUARD.fullmatch(guard)
            changed = int(local[2]) / 1e9 if local else -math.inf
            if 0 <= now - changed < self._settle:
                young[number], self._youngest = True, max(self._youngest, changed)
        if young.any():
            self._young.append((rows.filter(pa.array(young)), place[young], row[young]))
            rows, place = rows.filter(pa.array(~young)), place[~young]
        self.found.fresh.add(rows, place)

    def at_young(self) -> None:
        """Wait, then leave files that are still being written for the next run."""
        if not self._young:
            return
        time.sleep(max(0.0, self._youngest + self._settle - time.time()))
        for rows, place, row in self._young:
            looked = rows.select(["locator", "guard", "error_code"]).to_pylist()
            still = np.fromiter(map(_changed, looked), bool, len(rows))
            self.found.left.leave(rows.filter(pa.array(still)), STILL_WRITTEN)
            # Its stored values no longer hold.
            failed = row[still & (place >= 0)]
            self.found.failed = np.concatenate([self.found.failed, failed])
            self.found.fresh.add(rows.filter(pa.array(~still)), place[~still])


def _changed(row: RecordingRow) -> bool:
    path = Locator.loads(row["locator"]).path
    if row["error_code"]:
        return False
    try:
        return bool(urls.guard(path) != row["guard"])
    except OSError:
        return False


# What a source states about its recordings, so that a person sees at once whether it was
# understood: how many have a text, who speaks in the first ones, and how many have no known
# speaker.

FIRST = 5  # recordings named in a sentence
KEPT = 50  # candidates for these: broken ones are left out
#: Bits of `Stated._facts`.
TEXTLESS, PLAIN, NAMELESS, UNKNOWN = 1, 2, 4, 8


@dataclass(slots=True)
class Stated:
    """One source, 17 bytes a recording. `asked`: its settings define how a path names the speaker;
    `apart`: splits must keep apart speakers that only the source names; `mixes`: texts of the
    source are packaged as they are, and recordings without one get the recogniser's."""

    dataset: str
    asked: bool
    apart: bool = False
    mixes: bool = False
    texts: bool = False  # whether any recording or segment has one
    _facts: list[tuple[FixedBytes, UInt8s]] = field(default_factory=list)  # keys, and their bits
    # The keys of the first recordings: with paths without a text; with paths and speakers.
    _first_textless: list[tuple[bytes, str]] = field(default_factory=list)
    _first: list[tuple[bytes, str, str | None]] = field(default_factory=list)

    @classmethod
    def from_dataset(cls, dataset: Dataset, job: Job) -> Stated:
        # A name stands for all of the source; what else the setting may hold reads a path.
        speaker = getattr(dataset.settings, "speaker", None) or "none"
        asked = speaker != "none" and dataset.settings.speaker_of("") is None
        heard = job.speakers.use != "none"
        apart = keeps_speakers_apart(job.package.splits, job.package.disjoint)
        mixes = job.transcribe.backend.use != "none" and job.transcribe.text != "asr"
        mixes = mixes and job.package.text_form == "as_is"
        return cls(dataset.name, asked, apart and not heard, mixes)

    def at(self, batch: Batch) -> None:
        sound = pc.is_null(batch.rows["error_code"])
        used = batch.rows.select(["path", "text", "speaker", "segments"])
        rows, keys = used.filter(sound), batch.keys[sound.to_numpy()]
        textless = pc.and_(pc.is_null(rows["text"]), pc.is_null(rows["segments"]))
        of_segments = pc.struct_field(pc.list_flatten(rows["segments"]), "text")
        self.texts = self.texts or rows["text"].null_count < len(rows)
        self.texts = self.texts or of_segments.null_count < len(of_segments)
        nameless = pc.is_null(rows["speaker"]).to_numpy()
        facts = np.where(textless.to_numpy(), TEXTLESS, 0) | np.where(nameless, NAMELESS, 0)
        if self.mixes:
            one_case = pc.or_(pc.utf8_is_upper(rows["text"]), pc.utf8_is_lower(rows["text"]))
            facts |= np.where(one_case.fill_null(False).to_numpy(), PLAIN, 0)
        if self.apart:
            unknown = nameless & ~_in_named_segments(rows["segments"])
            facts |= np.where(unknown, UNKNOWN, 0)
        self._facts.append((keys, facts.astype(np.uint8)))
        places = np.flatnonzero(facts & TEXTLESS)[: KEPT - len(self._first_textless)]
        paths = rows["path"].take(places).to_pylist()
        self._first_textless += zip(keys[places].tolist(), paths, strict=True)
        if self.asked:
            head = rows.slice(0, KEPT - len(self._first))
            names = head["path"].to_pylist(), head["speaker"].to_pylist()
            self._first += zip(keys[: len(head)].tolist(), *names, strict=True)

    def leave_out(self, broken: FixedBytes) -> None:
        """Exclude these recordings, by sorted keys: they fail, whatever their source states."""
        if not len(broken):
            return
        failing = {*broken.tolist()}
        self._first_textless = [one for one in self._first_textless if one[0] not in failing]
        self._first = [one for one in self._first if one[0] not in failing]
        for number, (keys, facts) in enumerate(self._facts):
            sound = sorted_keys.index_in(broken, keys) < 0
            self._facts[number] = keys[sound], facts[sound]

    def _count(self, fact: int) -> int:
        return sum(int(np.sum(facts & fact == fact)) for _, facts in self._facts)

    def sentences(self) -> Iterator[str]:
        """A sentence if only some recordings have a text; and one about speakers, where paths may
        name them."""
        recordings, textless = self._count(0), self._count(TEXTLESS)
        of = f"of {counted(recordings, 'recording')} of the source {self.dataset!r}"
        if 0 < textless < recordings:
            names = [path for _, path in self._first_textless]
            have = "has" if textless == 1 else "have"
            yield f"{textless} {of} {have} no text: {_shown(names, textless)}"
            if 2 * self._count(PLAIN) > recordings - textless:
                yield (
                    f"Most texts of the source {self.dataset!r} are all capitals or all small "
                    "letters, and the recogniser writes the missing ones with case and "
                    "punctuation; set package.text_form=normalised to write all texts alike"
                )
        if self.asked and recordings:
            examples = [f"{path} → {speaker or 'nobody'}" for _, path, speaker in self._first]
            named = recordings - self._count(NAMELESS)
            yield f"Speakers of {named} {of} are named: {_shown(examples, recordings)}"

    def of_splits(self) -> str | None:
        """A sentence if splits cannot keep all speakers apart, with the remedy."""
        unknown = self._count(UNKNOWN)
        if not unknown:
            return None
        of = counted(self._count(0), "recording")
        whose = "Speakers" if unknown == self._count(0) else f"Speakers of {unknown} of {of}"
        return (
            f"{whose} in {self.dataset!r} are unknown, so the same person may be in two splits: "
            "name speakers in the source (`speaker: parent_folder` of a folder), or set "
            "speakers.use=segments to find them"
        )


def _in_named_segments(segments: pa.ChunkedArray) -> Bools:
    """Whether each recording has segments and all of them name a speaker."""
    masks = [np.zeros(0, bool)]
    for chunk in segments.chunks:
        named = pc.fill_null(pc.greater(pc.list_value_length(chunk), 0), False)
        mask = named.to_numpy(zero_copy_only=False).copy()
        nameless = pc.is_null(pc.struct_field(pc.list_flatten(chunk), "speaker"))
        mask[pc.list_parent_indices(chunk).filter(nameless).to_numpy()] = False
        masks.append(mask)
    return np.concatenate(masks)


def _shown(first: list[str], count: int) -> str:
    return ", ".join(first[:FIRST]) + (", …" if count > FIRST else "")
