"""The whole pipeline: shard, then filter, resample, transcribe per shard, then package.

`run` decides what to compute, and in which order. An `Executor` runs functions in this process,
that of `flows/` on a cluster. An `Observer` is notified of every step: `flows/` turns these into
Prefect task runs and progress bars.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from . import plugins, storage
from .base.errors import MAY_PASS, CorruptManifest, NothingLeft, RunError
from .base.json_types import JsonObject
from .base.logs import log
from .publish import package, safeguards
from .publish.unchanged import UpToDate
from .runs import publish
from .runs.executor import Elected, Executor, Observer, Published, Sharded, Totals
from .settings.job import Done, Job, Spoken
from .shard_store import decision_log, manifest, source_languages
from .shard_store.index import ROOTS, Index
from .shard_store.manifest import Part
from .stages import compaction, contract, probe, shard, stage
from .stages.listing import copies, entries, known_recordings, skipped
from .storage import containment, versions

REPAIRS = 3  # rounds of making damaged audio again before the disk is called bad


def chain(
    job: Job, shard: str, seconds: float, executor: Executor, observer: Observer
) -> list[Done]:
    """Filter, resample and transcribe one shard as observed steps; damaged audio is made again.
    CorruptManifest if the shard's listing is damaged: its source has to be listed again."""
    ended: dict[str, Done] = {}
    for attempt in range(REPAIRS):
        try:
            sure = False
            for name in stage.PER_SHARD:
                before = ended.get(name)
                work = partial(run_stage, job, shard, seconds, executor, name, sure, before)
                done = observer.step(name, work, shard, seconds)
                if before is None and not done.ran:
                    observer.advance(name, seconds, reused=True)
                ended[name], sure = done, done.ran
                if done.converted:  # items of resample, made in the same pass
                    before = ended.get("resample") or Done("resample", shard)
                    ended["resample"] = replace(before, computed=before.computed + done.converted)
                    observer.advance("resample", done.converted_seconds)
            return [*ended.values()]
        except CorruptManifest as fault:
            if manifest.is_listing(job.out, fault):
                raise
            manifest.repair(job.out, fault)
            if attempt == REPAIRS - 1:
                raise RunError(
                    f"{fault}; it is damaged again after {REPAIRS} repairs: check the disk"
                ) from None
    raise AssertionError("unreachable")


def run_stage(
    job: Job,
    shard: str,
    seconds: float,
    executor: Executor,
    name: str,
    sure: bool = False,
    before: Done | None = None,
) -> Done:
    """Run one stage for one shard; a complete shard is not sent to a worker.

    `sure`: the stage before it computed something, so something is missing. `before`: what the
    stage did before a repair, which the result counts, too.
    """
    missing, reused = (True, 0) if sure else stage.pending(name, job, shard)
    if missing or compaction.due(job.out, name, shard):
        done = executor.stage(name, job, shard, seconds)
    else:
        done = Done(name, shard, 0, reused)
    return done if before is None else done.after(before)


def sweep(out: Path, index: Index | None = None) -> int:
    """Remove the temporary files that a dead run left in an OUT; returns how many. Only while
    holding OUT's lock.

    `index`: has just listed the checkpoints. Of the versions only the newest is looked through: a
    late worker can only have written into an older one before its publication, and the next run
    swept that.
    """
    store = storage.store_of(out)
    if store.remote:  # nothing has a temporary name there
        return 0
    paths = [*map(out.joinpath, (index or Index(out)).temporaries)]
    home = out / "manifests"
    listed = {Path(root).name for root in ROOTS}
    others = [home / name for name in store.folders(home) if name not in listed]
    newest = versions.newest(out)
    for folder in (*others, *([newest] if newest else [])):
        paths += store.temporaries(folder)
    for folder in (home, versions.home(out)):
        paths += [path for path in store.names(folder, ".tmp") if path.name.startswith(".")]
    for path in paths:
        store.remove(path)
    return len(paths)


@dataclass(frozen=True, slots=True)
class Run:
    sharded: Sharded
    published: Published
    totals: Totals


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of OUT and the sources."""

    index: Index
    survey: shard.Survey


@dataclass(slots=True)
class Begun:
    """A run's progress, so that it can continue with other workers: its listing, and the shards
    that it has checked."""

    listed: Listing | None = None
    sharded: Sharded | None = None
    state: UpToDate | None = None
    languages: Spoken | None = None  # of sources

    def forget(self) -> None:
        self.listed = self.sharded = self.state = None


def run(job: Job, executor: Executor, observer: Observer, begun: Begun | None = None) -> Run:
    """Run the whole pipeline; only while holding OUT's lock.

    `begun` records the run's progress; pass it to the next call to continue there. Completed steps
    are reported again.

    ConfigError if a link leads out of OUT; RunError if the newest version cannot be continued;
    CorruptManifest if audio is still damaged after REPAIRS attempts to make it again; NothingLeft
    if no utterance is left to package; TooManyFailed as soon as too many recordings have failed.
    """
    containment.check(job.out)
    versions.begin_layout(job.out, versions.next_number(job.out) - 1)
    totals = Totals()
    begun = begun or Begun()
    job = decision_log.pinned(job)
    if begun.languages is None:
        begun.languages = source_languages.of_job(job)
    if begun.listed is None and (newest := versions.newest(job.out)) is not None:
        package.proved(newest)  # refuses what `publish` would refuse, before any work
        decision_log.warn_of_gone(job, newest)
    if job.shard.retry and begun.listed is None:
        again = forget_quarantine(job.out)
        log.info("retrying %d items that had crashed or timed out", again)
    for attempt in range(REPAIRS + 1):  # one of them for a vote on languages
        job = replace(job, languages=begun.languages)
        try:
            sharding = sharded(job, executor, observer, begun)
            totals.add(sharding.done)
            safeguards.check_readable(job, sharding.unreachable)
            safeguards.check_failed(job, sharding.listed)
            state = begun.state = begun.state or UpToDate(job, sharding.shards, sharding.index)
            _chains(job, sharding, executor, observer, state, totals)
            observer.start("package", sharding.done.seconds)
            work = partial(publish.publish, job, sharding.shards, executor, job.listing, state)
            published = observer.step("package", work)
            if isinstance(published, Elected):
                log.info("doubtful clips are heard again in the languages of their sources")
                begun.languages, begun.state = published.languages, None
                totals.begin_again()
                continue
        except NothingLeft as error:
            notes = (*error.notes, *skipped.notes_in_words(job.sources))
            raise NothingLeft(error.args[0], error.reasons, sharding.ignored, notes) from None
        except CorruptManifest as fault:  # what it held is made again
            if attempt >= REPAIRS - 1:
                raise
            manifest.repair(job.out, fault)
            if begun.listed is not None:
                begun.listed.index.forget([fault.path.removeprefix(f"{job.out}/")])
            begun.forget()
            totals.begin_again()
            continue
        totals.add(published.done)
        packaged = published.summary["seconds"]["packaged"]
        observer.start("package", packaged)
        observer.advance("package", packaged, reused=not published.new)
        observer.finish("package")
        return Run(sharding, published, totals)
    raise AssertionError("unreachable")


def run_here(job: Job) -> tuple[Published, dict[str, JsonObject]]:
    """`run` in this process; returns the published version and the stages' counts."""
    ended = run(job, Executor(), Observer())
    return ended.published, ended.totals.stages


def sharded(
    job: Job, executor: Executor, observer: Observer, begun: Begun | None = None
) -> Sharded:
    observer.start("shard", 0.0)
    work = partial(run_shard_stage, job, executor, job.listing, begun)
    sharding = observer.step("shard", work)
    observer.start("shard", sharding.done.seconds)
    observer.advance("shard", sharding.done.seconds, reused=not sharding.done.ran)
    observer.finish("shard")
    observer.sharded(sharding)
    return sharding


def _chains(
    job: Job,
    sharding: Sharded,
    executor: Executor,
    observer: Observer,
    state: UpToDate,
    totals: Totals,
) -> None:
    """Run the chains of all shards, and count their results.

    A shard's results are counted as soon as its chain ends: even for a hundred thousand shards,
    only the counts stay in memory. CorruptManifest if the listing of a shard is damaged.
    """
    for name in stage.PER_SHARD:
        observer.start(name, sharding.done.seconds)
    shards = []
    for one in sharding.shards:
        if (items := state.items(one)) is None:
            shards.append(one)
        for name, count in (items or {}).items():  # it lacks nothing
            observer.advance(name, sharding.seconds[one], reused=True)
            totals.add(Done(name, one, 0, count))
    if passed := len(sharding.shards) - len(shards):
        log.info("%d of %d shards are unchanged; they are skipped", passed, len(sharding.shards))

    counting = threading.Lock()

    def run_chain(shard: str) -> list[Done]:
        dones = chain(job, shard, sharding.seconds[shard], executor, observer)
        with counting:
            state.record(dones)
            for done in dones:
                totals.add(done)
        return []

    with observer.chains({shard: sharding.seconds[shard] for shard in shards}) as order:
        executor.chains(order, run_chain)
    for name in stage.PER_SHARD:
        observer.finish(name)


def run_shard_stage(
    job: Job, executor: Executor, scratch: Path, begun: Begun | None = None
) -> Sharded:
    """List the sources, probe new recordings on the workers, group and commit them; continues from
    `begun`. CorruptManifest if a shard's listing proves damaged: remove it, and call again."""
    begun, began = begun or Begun(), time.monotonic()
    if begun.sharded is not None:
        return begun.sharded
    if begun.listed is None:
        index = Index(job.out)
        sweep(job.out, index)
        index.warn_of_foreign()
        index.warn_of_gone()
        doubted = known_recordings.doubted(job, index)
        survey = shard.survey(job, index, scratch, index.repair, doubted)
        for shared in survey.shared:
            log.warning("%s: %s", shared, copies.outcome(job))
        begun.listed = Listing(index, survey)
    index, survey = begun.listed.index, begun.listed.survey
    step = job.shard.probe_batch or probe_batch(survey.fresh.count)
    batches = [
        (job, path, low, min(low + step, count), size)
        for path, count in survey.fresh.files
        for low, size in shard.sizes(path, step)
    ]
    waited = executor.ready() if batches else 0.0
    results = executor.map(shard.PROBE, batches) if batches else []
    entries.forget_listings()
    seconds = shard.commit(job, survey, results, index)
    if survey.fresh.files or survey.redescribed.files:
        storage.store_of(scratch).clear(scratch)
    wall = time.monotonic() - began - waited
    done = Done("shard", "", survey.fresh.count, survey.reused, sum(seconds.values()), wall)
    index.note_files()
    # The longest shards first: no straggler at the end.
    shards = sorted(seconds, key=lambda shard: (-seconds[shard], shard))
    strict = survey.known.outside(safeguards.exempt(job))
    listed = shard.broken_of(job, survey.known, strict, job.package.max_failed_fraction)
    away = shard.unreachable_of(job, survey)
    divided = probe.channel_sentences(job.out, plugins.datasets(job.sources))
    survey.leave_out(survey.known.broken)
    stated = [*survey.stated, *divided, *copies.in_words(survey.copies)]
    begun.sharded = Sharded(
        shards, done, index, survey.ignored, survey.left, seconds, listed, away, stated
    )
    return begun.sharded


def probe_batch(recordings: int) -> int:
    """Recordings per probing call: few calls, as each costs as much as probing thirty; but small
    enough that all workers have some, and that a death repeats little."""
    return min(max(recordings // 16, 50), 200)


# Lift the quarantine of items whose failure may have been temporary, so that they are tried
# again.
#
# A crash, a hang or a memory overrun may be the machine's fault: it was full, too small, or had
# an older library. A fault of the item itself (undecodable, NaN) would only be found again.


def forget_quarantine(out: Path) -> int:
    """Remove the rows of such items from the manifests; returns how many. Only while holding OUT's
    lock. A file is rewritten without them, each of its parts separately, before it is removed: a
    kill in between loses nothing."""
    count = 0
    for name in contract.PER_SHARD:
        for shard_name in manifest.shards(out):
            parts = manifest.read(out, name, shard_name, manifest.repair)
            parts = sorted(parts, key=lambda part: part.path)
            for path, members in groupby(parts, key=lambda part: part.path):
                count += _forget(out, name, shard_name, path, [*members])
    return count


def _forget(out: Path, name: str, shard: str, path: Path, parts: list[Part]) -> int:
    dead = [pc.is_in(part.table["error_code"], pa.array(MAY_PASS)) for part in parts]
    bad = sum(int(pc.sum(pc.cast(flags, pa.int64())).as_py() or 0) for flags in dead)
    if not bad:
        return 0
    for part, flags in zip(parts, dead, strict=True):
        rows = part.table.filter(pc.invert(flags)).to_pylist()
        if rows:  # in the same place: the first part's rows count
            schema = contract.find(name).schema_of(rows)
            manifest.commit(out, name, shard, rows, schema, part.meta, part.number)
    storage.remove(path)
    return bad
