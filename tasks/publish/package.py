"""Stage package: every kept utterance goes into one verified dataset version.

    facts       gather the facts of a batch of shards: a worker call for each batch
    gather      apply the limits to the facts of all batches; over the whole corpus, choose the
                packaged clips and their splits; write ledger.parquet and utterances.parquet;
                assign clips to tars
    link        link tars that the newest version has with the same rows
    write       write an output shard and read it back: a worker call for each
    publish     write lists, description and data card; publish the version

A version depends on the recordings, the settings and the previous versions, never on how recordings
were grouped into shards. No call holds the rows of the corpus in memory: `gather` holds some tens
of bytes per clip, and DuckDB sorts the tables within `package.memory`.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path

from .. import storage
from ..accounting import summary
from ..base.errors import RunError
from ..base.json_types import Balance, JsonObject
from ..base.schema import DATASET_FILE, LEDGER_FILE, UTTERANCES_FILE
from ..formats import Hashes
from ..recording import forgotten
from ..settings.job import Job, Spoken
from ..shard_store import source_languages, whole_job
from ..storage import sorted_keys, tables, versions
from . import leaks, safeguards, speakers
from .choosing import next_version, splits
from .choosing.next_version import Choice
from .dataset import datacard
from .dataset.datacard import Gathered
from .outcomes import batch_outcomes
from .outcomes.shard_batches import ShardBatch
from .output_shards import layout, plan, version_tables
from .output_shards.format_shards import PreviousVersion

TABLES = (LEDGER_FILE, UTTERANCES_FILE, splits.FILE, speakers.FILE)


def lost(newest: Path) -> list[str]:
    """Files that the newest version has lost. RunError if one of them is a table, or if its
    dataset.json is another: the next version continues them, and only a backup can restore them."""
    if not datacard.is_of(newest):
        raise RunError(versions.differs(newest, DATASET_FILE))
    names = versions.lost(newest)
    for name in names:
        if name in TABLES:
            raise RunError(versions.differs(newest, name))
    return names


def proved(newest: Path) -> list[str]:
    """`lost`, with the bytes of the tables compared, too, before hours of work that could not be
    published. On an object store, where that would download them, `gather` compares them."""
    names = lost(newest)
    if not storage.store_of(newest).remote:
        published = versions.Proved(newest)
        for name in TABLES:
            if name in published.files and not published.holds(name):
                raise RunError(versions.differs(newest, name))
    return names


def gather(
    job: Job,
    batches: Sequence[ShardBatch],
    scratch: Path,
    staging: Path,
) -> Gathered | Spoken:
    """Choose the clips of the next version, write its tables, and plan its output shards. If
    sources have other languages than the job says, only these: clips are heard again. RunError if
    it is refused (`safeguards`), or if a table of the newest version is lost or damaged.

    `batches`: not decided yet.
    """
    newest = versions.newest(job.out)
    batches, whole = batch_outcomes.decide(job, batches, scratch)
    spoken = batch_outcomes.source_languages_of(job, batches)
    if spoken != source_languages.of_job(job):
        return spoken
    chosen = next_version.choose(job, scratch, batches)
    storage.store_of(staging).remove_tree(staging / plan.PLAN)  # of a dead worker
    for name in TABLES:
        storage.store_of(staging).detach(staging / name)
    with storage.store_of(staging).writing(staging, job.scratch) as home:
        facts = version_tables.write_ledger(job, batches, chosen.rejected, newest, home)
        totals = facts.every.totals
        safeguards.check(job, facts, len(chosen.clips.row), newest, chosen.parted)
        previous = PreviousVersion(newest) if newest else None
        before = published_before(chosen) if previous else None
        shards = laid_out(job, chosen, before, previous)
        version_tables.write_utterances(job, batches, chosen, shards, previous, home)
        for name in (splits.FILE, speakers.FILE):
            if storage.exists(scratch / name):
                tables.write_parquet(home / name, tables.arrow_batches(scratch / name))
        digests = {name: storage.hashed(home / name) for name in TABLES if (home / name).exists()}
        settings = whole_job.settings_of(job)
        fingerprint = _fingerprint(job, settings, chosen)
        new = newest is None or not _same(newest, home, fingerprint, digests)
        shared = leaks.of_version(job, home, chosen.names, batches)
    loads = layout.loads_of(shards, chosen.clips.seconds)
    return Gathered(
        version=versions.next_number(job.out) - (not new),
        fingerprint=fingerprint,
        settings=settings,
        summary=summary.of_totals(totals),
        totals=totals,
        balance=_balance(job.package.readers, loads),
        frozen=chosen.frozen,
        split_lists=chosen.split_lists,
        test_sets=chosen.test_sets,
        tars={split: len(tars) for split, tars in loads.items()},
        new=new,
        changed=[name for batch in batches for name in batch.shards if name not in whole],
        leaks=shared,
        staging=str(staging),
        tables=digests,
        arrived=summary.arrived(summary.of_totals(facts.new.totals)),
    )


def _same(newest: Path, home: Path, fingerprint: str, digests: Hashes) -> bool:
    """Whether the newest version was made from the same settings and has the same tables, perhaps
    written by other libraries."""
    files = versions.files(newest)
    if versions.described(newest)["fingerprint"] != fingerprint:
        return False
    if {*TABLES} & files.keys() != digests.keys():
        return False
    return all(
        digest == (files[name]["sha256"], files[name]["bytes"])
        or tables.equal(home / name, newest / name)
        for name, digest in digests.items()
    )


def _balance(readers: int, loads: dict[str, list[float]]) -> Balance:
    """How evenly the tars' hours (`layout.loads_of`) are spread over the trainer's readers."""
    seconds, fraction = max(layout.skew(tars, readers) for tars in loads.values())
    return {
        "readers": readers,
        "tars": sum(map(len, loads.values())),
        "worst_reader_extra_hours": round(seconds / 3600, 6),
        "worst_reader_extra_fraction": round(fraction, 6),
    }


def published_before(chosen: Choice) -> layout.Before:
    """The newest version's output shards, and the places of its clips in the next one."""
    then, now = chosen.published(), chosen.clips
    places = sorted_keys.places_of(then.high, then.low, now.high, now.low)
    return layout.Before(then.shards, places)


def laid_out(
    job: Job, chosen: Choice, before: layout.Before | None, previous: PreviousVersion | None
) -> list[layout.ShardClips]:
    """The output shards, which continue those of the newest version (`previous`)."""
    now = chosen.clips
    clips = layout.LayoutClips(now.high, now.seconds, now.split, chosen.names)
    generation = versions.next_number(job.out)  # versions of another layout count, too
    settings = previous.described["settings"]["package"] if previous else None
    return layout.lay_out_clips(clips, job.package, generation, before, settings)


def _fingerprint(job: Job, settings: JsonObject, chosen: Choice) -> str:
    """Hash of everything that a version is made from besides its tables and the versions before."""
    inputs = whole_job.of_version(job, settings)
    inputs += [chosen.frozen, chosen.split_lists, chosen.test_sets]
    if gone := forgotten.read(job.out):
        inputs.append(sorted(gone.recordings | gone.speakers))
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def publish(job: Job, gathered: Gathered, lost: Collection[str] = ()) -> Path:
    """Write lists, description and data card, then publish the version; returns its folder. If it
    is not new, only the files `lost` of the newest version are made again.

    Raises RunError if a table on disk has changed since it was written.
    """
    staging = storage.place(gathered.staging)
    digests = gathered.tables
    with plan.finished(job, staging, [*digests]) as (home, hashes):
        for name, expected in digests.items():
            if storage.hashed(home / name) != expected:
                raise RunError(f"{name} changed after it was written; check the disk")
        datacard.write(job, gathered, home, hashes | digests)
        staged = {*hashes, *digests}
        if gathered.new:
            version = versions.publish(job.out, staging, gathered.version, home, staged)
        else:
            version = versions.numbered(job.out, gathered.version)
            versions.restore(version, staging, home, lost)
    plan.save_guards(job.out, version)
    return version
