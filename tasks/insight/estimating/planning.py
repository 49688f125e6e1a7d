"""Plans a run: what it would compute and reuse in each stage, from manifests and headers.

Recordings that are already cut are counted exactly, others are predicted (`expected.py`). Work is
counted from each stage's own list of missing items, and only in shards that are not complete:
reading complete ones, too, would take 165 CPU s a million clips. The functions of `package`
forecast the version (`publish/foreseen.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ... import plugins
from ...base.errors import ConfigError, RunError
from ...base.json_types import DatasetJson
from ...base.schema import EnhancedRow, RecordingRow
from ...publish import foreseen, safeguards, speakers
from ...publish.unchanged import UpToDate
from ...settings.job import Job
from ...shard_store import clip_choice, enhanced, manifest, recipe, whole_job
from ...shard_store.cuts import Cut
from ...shard_store.index import Index
from ...shard_store.requests import TextQuestion
from ...shard_store.shard_view import ShardView
from ...shard_store.stored_shard import samples_of
from ...shard_store.utterance import UNCONVERTED, UNHEARD, UNMEASURED, Outcome, Utterance
from ...stages import probe, resample, shard
from ...stages.contract import STAGES
from ...stages.filter import todo as cuts_lacking
from ...stages.listing import copies, entries, known_recordings
from ...stages.listing.copies import Shared
from ...stages.listing.pending_listing import AsListed
from ...stages.listing.survey import Survey
from ...storage import owners, temporary, versions
from . import expected, refusals, rewritten_clips
from .changes import Causes, Change, found_since
from .expected import Expected, Stated
from .new_files import NewFiles
from .rewritten_clips import Rewriting

#: The stages that decide which clips exist; while they have work, the plan of `package` is a
#: prediction.
HEARD = STAGES[:-1]
SOURCES = "sources"  # cause of work on new and changed recordings


@dataclass(slots=True)
class Amount:
    """The work of one stage."""

    compute: int = 0  # items
    reuse: int = 0  # items
    seconds: float = 0.0  # audio to compute
    again: float = 0.0  # of `seconds`, audio that was computed before, under other settings
    because: dict[str, None] = field(default_factory=dict)  # causes, as an ordered set

    def add(self, items: int, seconds: float, because: Sequence[str], again: bool) -> None:
        if items:
            self.compute += items
            self.seconds += seconds
            self.again += seconds * again
            self.because.update(dict.fromkeys(because))


@dataclass(slots=True)
class Plan:
    """The work of a run, and its result as far as it is known."""

    stages: dict[str, Amount]
    changes: list[Change]
    removed: int  # recordings that have left their sources
    ignored: dict[str, int]  # skipped files, by reason
    shards: int
    clips: tuple[int, int]  # in the newest version, and after the run
    new: bool  # whether the run will publish a version: another one, or the first
    unread: int  # bytes of new recordings whose headers were not read; only two stages count them
    shared: list[Shared]  # recordings in two sources
    stated: list[str]  # sentences about the sources
    unjudged: int  # clips that filters have yet to measure, so that all numbers are upper bounds
    refusal: str | None  # why the run will publish nothing, if that is known
    unusable: list[str]  # new recordings that will fail, by their sources or headers, and why
    redescribed: int  # published clips of which people or sources say something else now
    gone: list[str]  # what is gone of earlier results, in words: numbers are upper bounds then
    unlisted: str | None  # why sources could not be listed, which count as the last run found them

    @property
    def again(self) -> float:
        """Seconds of audio that are computed again, in the stage with most of them."""
        return max(amount.again for amount in self.stages.values())


def plan(job: Job, before: Job | None, headers: bool = True, lenient: bool = False) -> Plan:
    """The plan of a run of `job`. `before`: the job of the newest run, None before the first;
    `headers`: read the lengths of new recordings; `lenient`: sources that cannot be listed count as
    the last run found them."""
    with temporary.scratch() as home, owners.naming(home.parent):
        return _plan(job, before, headers, lenient, home)


def _plan(job: Job, before: Job | None, headers: bool, lenient: bool, home: Path) -> Plan:
    index = Index(job.out)
    index.warn_of_foreign()
    surveyed, listed, unlisted = _surveyed(job, index, lenient, home)
    shards = manifest.shards(job.out)
    newest = versions.newest(job.out)
    described = versions.described(newest) if newest else None
    causes = Causes.from_changes(found_since(job, before, described), job)
    scan = _Scan(job, before, described, causes, listed.redescribed)
    complete = UpToDate(job, shards, index, any_code=True, scratch=home)
    listings = _known_shards(scan, shards, listed, complete)
    scan.stages["shard"].reuse = surveyed.reused
    gone = len(surveyed.gone) > 0
    new = NewFiles(job, surveyed.known, listed, headers)
    unread = _new_recordings(scan, listed, new)
    scan.add_expected()
    (no_texts, untexted), of_splits = refusals.of_texts(job, surveyed), None
    count = described["utterances"]["packaged"] if described else 0
    change = Rewriting(count, count if shards else 0)
    if no_texts is not None:
        change, scan.expected = Rewriting(count), Expected(job, described)
    elif shards and (scan.opened or gone or listed.fresh or causes.all or newest is None):
        with foreseen.version(job, shards, listings, index, complete.decided) as version:
            change = rewritten_clips.of_version(job, version, listed.redescribed)
            parts = version.choice.parted
            of_splits = safeguards.refusal_of_splits(job, parts, newest, scan.coming())
    of_sources = gone or listed.fresh or (listed.redescribed and change.differing)
    met = expected.meeting(job, scan.expected.stated)
    clips, coming = _package(scan, change, bool(of_sources), met)
    refusal = refusals.of_removals(job, listed, newest)
    lost = [*new.unusable.values()]
    refusal = refusal or refusals.of_failures(job, surveyed, listed, newest, lost) or of_splits
    if refusal is None and not clips[1]:
        refusal = no_texts or (None if scan.coming() else safeguards.nothing_left_in_words(job))
    of_voices = refusals.of_voices(job, causes, newest)
    unknown = expected.in_words(job, scan.expected.stated, coming, len(met))
    other = described is None or described["settings"] != whole_job.settings_of(job)
    other = other or bool(causes.people or change.differing or listed.removed_count)
    return Plan(
        stages=scan.stages,
        changes=causes.all,
        removed=listed.removed_count,
        ignored=surveyed.ignored,
        shards=len(shards),
        clips=clips,
        new=other or clips[0] != clips[1] or scan.stages["package"].compute > 0,
        unread=unread,
        shared=surveyed.shared,
        stated=[*_stated(job, surveyed, new), *of_voices, *untexted, *unknown],
        unjudged=scan.unjudged,
        refusal=refusal,
        unusable=[str(broken) for _, broken in lost],
        redescribed=change.differing,
        gone=index.gone_in_words(),
        unlisted=unlisted,
    )


def _stated(job: Job, surveyed: Survey, new: NewFiles) -> Iterator[str]:
    """Sentences about the sources; if headers were read, also about channels and bands."""
    broken = surveyed.known.broken
    broken = broken[~np.isin(broken, entries.keys(row["recording"] for row in new.rows))]
    surveyed.leave_out(np.union1d(broken, entries.keys(new.unusable)))
    yield from surveyed.stated
    datasets = plugins.datasets(job.sources)
    yield from probe.channel_sentences(job.out, datasets)
    yield from new.channels(datasets)
    if speakers.bands_matter(job):
        yield from new.bands(manifest.listings(job.out))
    yield from copies.in_words([*new.copies.values()])
    yield from surveyed.unknown_speakers


def _surveyed(
    job: Job, index: Index, lenient: bool, home: Path
) -> tuple[Survey, AsListed, str | None]:
    """What the sources hold, and why they could not be listed."""
    # No wait for files that may still be growing: a plan reads nothing of them.
    quick = replace(job, shard=job.shard.model_copy(update={"settle_seconds": 0.0}))
    had = known_recordings.read(job.out, index)
    unlisted: str | None = None
    try:
        surveyed = shard.survey(quick, index, home, had=had)
    except (ConfigError, RunError, OSError) as error:
        if not lenient:
            raise
        surveyed, unlisted = shard.as_known(had, home), str(error)
    return surveyed, AsListed(job.out, surveyed), unlisted


def _known_shards(
    scan: _Scan, shards: Sequence[str], listed: AsListed, complete: UpToDate
) -> dict[str, list[RecordingRow]]:
    """Count the work in shards; complete ones (`complete`) are not opened. Returns, by shard, the
    recordings of shards whose listing in OUT is outdated."""
    fresh = {row["recording"] for row in listed.fresh}
    listings = {}
    for name in shards:
        counts = complete.items(name) if name in listed.unchanged else None
        if counts is not None:
            for stage_name, items in counts.items():
                scan.stages[stage_name].reuse += items
            continue
        rows = listed.rows(name)
        scan.opened = True
        unread = fresh - listed.moved.keys()
        rows = [row for row in rows if row["present"] and row["recording"] not in unread]
        if rows:
            scan.shard(name, rows)
        if name not in listed.unchanged:
            listings[name] = rows
    return listings


def _new_recordings(scan: _Scan, listed: AsListed, new: NewFiles) -> int:
    """Count the work on new and changed recordings that are no copies. Returns the bytes of these
    recordings if no headers were read, else 0."""
    seconds = sum((new.seconds or {}).values())
    scan.stages["shard"].add(len(listed.fresh), seconds, [SOURCES], again=False)
    same_bytes = listed.moved.keys() | new.copies.keys()
    others = [row for row in listed.fresh if row["recording"] not in same_bytes]
    if new.seconds is None:
        scan.stages["filter"].add(len(others), 0.0, [SOURCES], again=False)
        return sum(row["size"] for row in others)
    for row in others:
        if (length := new.seconds.get(row["recording"])) is not None:
            scan.stages["filter"].add(1, length, [SOURCES], again=False)
            scan.expected.add(row, length, (SOURCES,), again=False)
    return 0


class _Scan:
    """Accumulates the work in the shards examined so far."""

    def __init__(
        self,
        job: Job,
        before: Job | None,
        described: DatasetJson | None,
        causes: Causes,
        redescribed: Set[str],
    ) -> None:
        self.job, self.before, self.causes = job, before, causes
        self.stages = {name: Amount() for name in STAGES}
        self.expected = Expected(job, described)
        self.opened = False  # whether any shard was
        self.redescribed = redescribed
        self.unjudged = 0

    def coming(self) -> bool:
        """Whether clips of the next version are still to be computed."""
        return any(self.stages[name].compute for name in HEARD)

    def shard(self, name: str, rows: list[RecordingRow]) -> None:
        """Count the work in a shard that may be incomplete; `rows`: its known recordings."""
        view = _Ahead(self.job, name, listed=rows, again=True)
        causes = self.causes.measures or self.causes.limits
        again = bool(causes) and bool(view.cuts)
        units, reused = cuts_lacking(view)
        self.stages["filter"].reuse += reused
        for unit in units:
            self.stages["filter"].add(1, unit.seconds, causes, again)
            if unit.spans is None:
                self.expected.add(unit.recording, unit.seconds, tuple(causes), again)
        seen = set[str]()
        for utterance in view.transcribed():
            self._count(view, utterance, seen)
            if utterance.outcome is UNHEARD or utterance in view.unjudged:
                self.expected.waits(utterance)
        self.unjudged += len(view.unjudged)

    def _count(self, view: _Ahead, u: Utterance, seen: set[str]) -> None:
        """Count the work on an utterance."""
        earlier: Sequence[str] = (u.spared and self.causes.people) or self.causes.limits
        earlier = earlier or self.causes.pcm  # the changes that may have made it pass
        causes, again = self.causes.texts or earlier, bool(self.causes.texts)
        if u.audio not in view.audio and u.audio not in seen:
            again = self._was_converted(view, u)
            causes = self.causes.pcm if again else earlier
        for wanted in resample.wanted_by(view, u):
            start, end, audio = wanted.span
            why = causes, again
            if wanted.enhanced:
                because = self.causes.enhanced or self.causes.pcm or earlier
                why = because, bool(self.causes.enhanced)
            self._tally("resample", audio, view.audio, seen, (end - start) / u.rate, *why)
        if enhanced.heard(self.job):
            causes = causes or self.causes.enhanced
        if u.recording["recording"] in self.redescribed:  # in another language, say
            causes = causes or [SOURCES]
        if u.transcript is not None:
            self.stages["transcribe"].reuse += 1
        verdicts = [name for name in self.causes.version if name.startswith("transcribe.verdicts")]
        for request in u.missing:
            why = causes, again
            if isinstance(request.asked, TextQuestion):
                why = causes or verdicts, False
            self._tally("transcribe", request.recipe, (), seen, u.seconds, *why)

    def _tally(
        self,
        stage: str,
        name: str,
        stored: Container[str],
        seen: set[str],
        seconds: float,
        causes: Sequence[str],
        again: bool,
    ) -> None:
        """Count one item of a stage, by the name of its recipe, as reused if it is `stored`, or
        `seen` as one that this run computes already: equal samples are computed once."""
        if name in stored or name in seen:
            self.stages[stage].reuse += 1
        else:
            self.stages[stage].add(1, seconds, causes, again)
        seen.add(name)

    def _was_converted(self, view: ShardView, u: Utterance) -> bool:
        """Whether the utterance's PCM was made under the newest run's settings, or by its code."""
        if self.before is None or not self.causes.pcm:
            return False
        if self.causes.recoded:  # recipes of the former code cannot be computed any more
            return bool(view.audio)
        content = samples_of(u.recording, self.before.filter)
        audio_of = recipe.audio_recipes(self.before.resample)(content)
        return audio_of(u.start, u.end) in view.audio

    def add_expected(self) -> None:
        """Add the predicted work on recordings that are not cut yet."""
        for causes, again, items, seconds in self.expected.kept():
            clips = items * (1 + recipe.enhancing(self.job))
            self.stages["resample"].add(clips, seconds, causes, again)
            self.stages["transcribe"].add(items, seconds, causes, again)


class _Ahead(ShardView):
    """A shard once each stage has done its work for the next one: what its filters have yet to
    measure passes, and what passes is converted. The lists of the stages then name everything that
    a run computes, as far as it is known."""

    @cached_property
    def unjudged(self) -> set[Utterance]:
        """Utterances that filters have yet to measure, of those read so far."""
        return set()

    def _filter_outcome(self, utterance: Utterance, cut: Cut) -> Outcome:
        outcome = super()._filter_outcome(utterance, cut)
        if outcome is not UNMEASURED:
            return outcome
        self.unjudged.add(utterance)
        chosen = self._choice is None or self._choice(clip_choice.of_clip(self.job, utterance))
        return UNCONVERTED if chosen else clip_choice.NOT_CHOSEN

    def _with_pcm(self, utterances: list[Utterance]) -> list[Utterance]:
        for u in super()._with_pcm(utterances):
            if u.outcome is not UNCONVERTED:
                continue
            name = u.recording["recording"]
            row: EnhancedRow = {"audio": u.audio, "recording": name, "start": u.start, "end": u.end}
            u.outcome, u.pcm = UNHEARD, u.pcm or row
            if enhanced.heard(self.job) and u.enhanced not in self.audio:
                u.hears = u.enhanced
        return utterances


def _package(
    scan: _Scan, change: Rewriting, other_sources: bool, met: Sequence[Stated]
) -> tuple[tuple[int, int], int]:
    """Count the clips that are written, because the content of their tar changes; returns the
    numbers of clips in the newest version and after the run, and how many of the latter are still
    to be computed, with those that will be dropped. `other_sources`: whether recordings are new,
    have left their source or have other bytes, or sources say something else of them. `met`: clips
    still to be computed that will be dropped."""
    amount = scan.stages["package"]
    waiting, seconds = scan.expected.packaged(change.coming, change.coming_seconds)
    causes = [*scan.stages["resample"].because, *scan.stages["transcribe"].because]
    causes += [*scan.causes.published, *([SOURCES] if other_sources else [])]
    then = max(change.staying + waiting - len(met), 0)
    items = min(change.written + max(waiting - len(met), 0), then)
    seconds = max(seconds - sum(clip.seconds for clip in met), 0.0)
    amount.add(items, change.seconds + seconds, causes, again=False)
    amount.reuse = then - items
    return (change.clips, then), min(waiting + scan.unjudged, then + len(met))
