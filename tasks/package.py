"""Stage package: every kept utterance goes into one verified dataset version.

    decide      decide the outcomes of a batch of shards            \\
    choose      over the whole corpus: packaged clips, their splits   |  one worker call each,
    ledger      assign the ledger's rows to parts; write the parts    |  or one for each batch
    plan        assign clips to tars                                  |  or part
    scatter     sort the rows of batches by the parts that need them  |
    part        write a part's rows, and plan its output shards      /
    write       write an output shard, or link the previous version's
    check       read an output shard back
    publish     write lists, description and data card; publish the version

An item is a packaged utterance. A version depends on the recordings, the settings and the previous
versions, never on how recordings were grouped into shards. No call holds the rows of the corpus in
memory: `choose` and `plan` hold some tens of bytes per clip.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from . import storage
from .accounting import summary
from .base.arrays import UInt64s
from .base.errors import RunError
from .base.json_types import Arrived, Balance, DatasetJson, JsonObject
from .formats import Hashes
from .publish import (
    corpus_labels,
    previous_version,
    row_digests,
    safeguards,
    speakers,
)
from .publish.choosing import corpus_clips, splits
from .publish.choosing.next_version import Choice
from .publish.dataset import datacard
from .publish.ledger import ledger_index as ledger_notes
from .publish.outcomes import shard_batches
from .publish.output_shards import layout, plan
from .publish.previous_version import Published
from .publish.writing import table_parts as parts
from .publish.writing.shards import finished
from .publish.writing.table_parts import ClipColumns, PlannedPart
from .settings.job import Job
from .shard_store import decisions, whole_job
from .storage import out_layout, sorted_keys, tables, versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(datacard.VersionFacts):
    """The next version before its output shards are written. If it equals the newest version, `new`
    is False and nothing is staged."""

    new: bool
    changed: list[str]  # shards with recordings whose files changed during the run
    staging: str = ""
    tables: Hashes = field(default_factory=dict)  # digests of the tables' files
    ledger: list[tuple[str, str]] = field(default_factory=list)  # its parts and their notes
    parts: list[PlannedPart] = field(default_factory=list)
    needed: list[int] = field(default_factory=list)  # files of rows that the parts need
    firsts: dict[str, str] = field(default_factory=dict)  # the first id of each split
    arrived: Arrived | None = None  # recordings that the previous version does not have


def gather(
    job: Job, scratch: Path, staging: Path, chosen: Choice, digest: str, damaged: Sequence[str] = ()
) -> Gathered:
    """Lay out the next version. Raises RunError if it is refused (`safeguards`).

    `chosen`: the result of `next_version.choose`; `digest`: hash of all rows of the ledger;
    `damaged`: files of the newest version that cannot be read.
    """
    batches = shard_batches.listed(scratch)
    ledger = ledger_notes.portions(job.out, scratch)
    chosen_clips = corpus_clips.chosen(scratch)
    totals = summary.added(portion.every.totals for portion in ledger)
    newest = versions.newest(job.out)
    safeguards.check(job, totals, len(chosen_clips.split), ledger, newest)
    chosen_clips, columns = _with_columns(job, scratch, batches, chosen_clips)
    state, counts = fingerprint(job, chosen_clips, digest, chosen), summary.of_totals(totals)
    described = versions.described(newest) if newest else None
    if newest and described and described["fingerprint"] == state:
        return Gathered(
            version=versions.number(newest),
            fingerprint=state,
            summary=counts,
            totals=totals,
            balance=described["balance"],
            new=False,
            changed=chosen.changed,
        )
    former = _former(job, newest, described, chosen_clips) if newest and described else _Former()
    number = versions.next_number(job.out)
    laid_out = _laid_out(job, number, chosen_clips, former, columns.content)
    planned, needed = parts.save(
        job, scratch, laid_out, chosen_clips, columns, former.version, former.linkable, damaged
    )
    _stage_tables(job, scratch, staging)
    loads = layout.loads_of(laid_out, chosen_clips.clips.seconds)
    return Gathered(
        version=number,
        fingerprint=state,
        summary=counts,
        totals=totals,
        balance=_balance(job, loads),
        layout=parts.rule(job.package),
        frozen=chosen.frozen,
        split_lists=chosen.split_lists,
        tars={split: len(tars) for split, tars in loads.items()},
        new=True,
        changed=chosen.changed,
        staging=str(staging),
        tables={portion.name: portion.file for portion in ledger},
        ledger=[(portion.name, portion.note_file) for portion in ledger],
        parts=planned,
        needed=needed,
        firsts=chosen.firsts,
        arrived=safeguards.arrived(ledger) if newest else summary.arrived(counts),
    )


def _with_columns(
    job: Job,
    scratch: Path,
    batches: Sequence[shard_batches.ShardBatch],
    chosen_clips: corpus_clips.Chosen,
) -> tuple[corpus_clips.Chosen, ClipColumns]:
    """The chosen clips, with digests that include speakers' names and corpus-wide labels, and the
    columns that their shards' rows lack."""
    clips, spoken = chosen_clips.clips, None
    content = clips.content
    if chosen_clips.speakers:
        content = speakers.content(content, clips.speaker, chosen_clips.speakers)
        spoken = speakers.names_of(clips.speaker, pa.array(chosen_clips.speakers))
    if corpus_labels.chosen(job):
        content = corpus_labels.content(job, content, scratch)
    chosen_clips = chosen_clips._replace(clips=clips._replace(content=content))
    if derived := parts.derived(job, batches, clips):
        content = row_digests.joined(content, row_digests.of_rows(pa.table(derived)))
    return chosen_clips, ClipColumns(content, derived, spoken)


def _balance(job: Job, loads: dict[str, list[float]]) -> Balance:
    """How evenly the tars' hours are spread over the trainer's readers. `loads`: see
    `layout.loads_of`."""
    readers = job.package.readers
    seconds, fraction = max(layout.skew(tars, readers) for tars in loads.values())
    return {
        "readers": readers,
        "tars": sum(map(len, loads.values())),
        "worst_reader_extra_hours": round(seconds / 3600, 6),
        "worst_reader_extra_fraction": round(fraction, 6),
    }


class _Former(NamedTuple):
    """The newest version, which the next one continues; the defaults if there is none."""

    version: Published | None = None  # without the hashes of its clips' ids
    clips: layout.Before | None = None  # places of its clips in the next version; for equal seeds
    settings: JsonObject | None = None  # of the stage package
    linkable: bool = False  # equal output shards need no rows


def _former(
    job: Job, newest: Path, described: DatasetJson, chosen_clips: corpus_clips.Chosen
) -> _Former:
    version = previous_version.load(job.out, newest, described, job.package.seed)
    settings = described["settings"]["package"]
    clips, now = None, chosen_clips.clips
    if settings.get("seed") == job.package.seed:
        places = sorted_keys.places_of(version.high, version.low, now.high, now.low)
        clips = layout.Before(version.shards, places)
    nothing = np.zeros(0, np.uint64)
    version = version._replace(high=nothing, low=nothing)
    linkable = parts.all_linkable(job, newest, described)
    return _Former(version, clips, settings, linkable)


def _laid_out(
    job: Job, number: int, chosen_clips: corpus_clips.Chosen, former: _Former, content: UInt64s
) -> list[layout.ShardClips]:
    """The output shards of version `number`; `same` is set for those with equal rows in the newest
    version. `content`: digests of the clips' rows."""
    clips = layout.LayoutClips(
        chosen_clips.clips.high, chosen_clips.clips.seconds, chosen_clips.split, chosen_clips.names
    )
    laid_out = layout.lay_out_clips(clips, job.package, number, former.clips, former.settings)
    if (before := former.version) is None:
        return laid_out

    def is_same(shard: layout.ShardClips) -> bool:
        if not shard.whole or shard.before is None:
            return False
        first = shard.before.first
        return np.array_equal(content[shard.rows], before.content[first : first + len(shard.rows)])

    return [replace(shard, same=is_same(shard)) for shard in laid_out]


def _stage_tables(job: Job, scratch: Path, staging: Path) -> None:
    """Stage `splits.parquet` and `speakers.parquet`, if the settings use them."""
    for name in (splits.FILE, speakers.FILE):
        if storage.exists(scratch / name):
            with storage.of(staging).writing(staging, job.scratch) as home:
                tables.write_parquet(home / name, tables.arrow_batches(scratch / name))


def fingerprint(job: Job, chosen_clips: corpus_clips.Chosen, ledger: str, chosen: Choice) -> str:
    """Hash of everything a version is made from; with the previous versions, it determines the
    version's bytes. `ledger`: hash of all rows of the ledger."""
    state = hashlib.sha256()
    for codes in (chosen_clips.clips.high, chosen_clips.clips.low, chosen_clips.clips.content):
        state.update(codes.data)
    state.update(chosen_clips.split.data)
    formats = {p.use: whole_job.format_version(p) for p in job.package.formats}
    settings = whole_job.settings_of(job)
    inputs: list[object] = [
        out_layout.LAYOUT,
        settings,
        formats,
        chosen.frozen,
        chosen.split_lists,
        ledger,
        chosen_clips.names,
    ]
    if reviews := decisions.identity(job):
        inputs.append(reviews)
    state.update(json.dumps(inputs, sort_keys=True).encode())
    return state.hexdigest()


def publish(job: Job, gathered: Gathered) -> Path:
    """Write lists, description and data card, then publish the version; returns its folder.

    Raises RunError if a table on disk has changed since it was written.
    """
    staging = storage.place(gathered.staging)
    digests = gathered.tables
    plans = staging / plan.PLAN  # `finished` removes it
    notes = [
        (part.name, part.file or storage.read(plans / plan.part_name(part.number) / "told.arrow"))
        for part in gathered.parts
    ]
    with finished(job, staging, [*digests]) as (home, hashes):
        for name, expected in digests.items():
            if storage.hashed(home / name) != expected:
                raise RunError(f"{name} changed after it was written; check the disk")
        datacard.write(job, gathered, home, hashes | digests)
        staged = {*hashes, *digests, splits.FILE, speakers.FILE}
        version = versions.publish(job.out, staging, gathered.version, home, staged)
    seal = versions.described(version)[datacard.SEAL]
    ledger, firsts = gathered.ledger, gathered.firsts
    previous_version.save(job.out, notes, ledger, firsts, seal, job.package.seed)
    previous_version.save_guards(job.out, version)
    return version
