"""Plans a run: what it would compute and reuse in each stage, from manifests and headers.

Computes nothing itself. Recordings that are already cut are counted exactly, others are predicted
(`expected.py`). Work is counted from each stage's own list of missing items, and only in shards
that are not complete, because deciding complete shards, too, would take 165 CPU s a million clips.
The functions of `package` forecast the version (`publish/foreseen.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress, groupby
from pathlib import Path

import numpy as np

from ... import audio, plugins
from ...accounting.broken import Broken
from ...accounting.ledger import PENDING
from ...base.arrays import FixedBytes
from ...base.errors import ConfigError, ItemError, RunError
from ...base.json_types import DatasetJson
from ...base.schema import RecordingRow
from ...publish import foreseen, safeguards, speakers
from ...publish.unchanged import UpToDate
from ...recording import Locator
from ...settings.job import Job
from ...settings.package import keeps_speakers_apart
from ...shard_store import clip_choice, enhanced, manifest, recipe, whole_job
from ...shard_store.index import Index
from ...shard_store.requests import TextQuestion
from ...shard_store.shard_view import ShardView
from ...shard_store.stored_shard import samples_of
from ...shard_store.utterance import UNMEASURED, Outcome, Utterance
from ...stages import probe, shard
from ...stages.contract import STAGES
from ...stages.filter import todo as cuts_lacking
from ...stages.listing import copies, entries, known_recordings, shard_choice
from ...stages.listing.copies import NewCopy, Shared
from ...stages.listing.known_recordings import KnownRecordings
from ...stages.listing.pending_listing import AsListed
from ...stages.listing.survey import Survey
from ...storage import owners, temporary, versions
from ...storage.urls import is_url
from . import expected, new_files, refusals, rewritten_clips
from .changes import Causes, Change, found_since
from .expected import Expected, Stated, lengths
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
    other_inputs: bool  # settings or decisions differ from the newest version's, or there is none
    unread: int  # bytes of new recordings whose headers were not read; only two stages count them
    shared: list[Shared]  # recordings in two sources
    stated: list[str]  # sentences about the sources
    unjudged: int  # clips that filters have yet to measure, so that all numbers are upper bounds
    refusal: str | None  # why the run will publish nothing, if that is known
    unusable: int  # new recordings that will fail, by their sources or by their headers
    first_unusable: str | None  # one of them, and why
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
    copied = copies_among(job, surveyed.known, listed) if headers else {}
    header = lengths(listed.fresh) if headers else None
    unread = _new_recordings(scan, listed, header, copied)
    surveyed.leave_out(_broken(surveyed, listed, header))
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
    other = described is None or described["settings"] != whole_job.settings_of(job)
    refusal = refusals.of_removals(job, listed, newest)
    unusable = [*_unusable(listed, header)]
    refusal = refusal or refusals.of_failures(job, surveyed, listed, newest, unusable) or of_splits
    if refusal is None and not clips[1]:
        refusal = no_texts or (None if scan.coming() else safeguards.nothing_left_in_words(job))
    stated = _stated(job, surveyed, listed, copied, headers)
    unknown = expected.in_words(job, scan.expected.stated, coming, len(met))
    return Plan(
        stages=scan.stages,
        changes=causes.all,
        removed=listed.removed_count,
        ignored=surveyed.ignored,
        shards=len(shards),
        clips=clips,
        other_inputs=other or bool(causes.people),
        unread=unread,
        shared=surveyed.shared,
        stated=[*stated, *_speakers_come(job, causes, newest), *untexted, *unknown],
        unjudged=scan.unjudged,
        refusal=refusal,
        unusable=len(unusable),
        first_unusable=next((str(broken) for _, broken in unusable), None),
        redescribed=change.differing,
        gone=index.gone_in_words(),
        unlisted=unlisted,
    )


def _stated(
    job: Job, surveyed: Survey, listed: AsListed, copied: Mapping[str, NewCopy], headers: bool
) -> Iterator[str]:
    """Sentences about the sources."""
    yield from surveyed.stated
    datasets = plugins.datasets(job.sources)
    yield from probe.channel_sentences(job.out, datasets)
    if headers:
        yield from new_files.channels(listed.fresh, datasets)
        if speakers.bands_matter(job):
            yield from new_files.bands(listed.fresh, manifest.listings(job.out))
    yield from copies.in_words([*copied.values()])
    yield from surveyed.unknown_speakers


def _speakers_come(job: Job, causes: Causes, newest: Path | None) -> Iterator[str]:
    """A sentence if the run finds speakers whom the newest version's splits do not know."""
    package = job.package
    apart = keeps_speakers_apart(package.splits, package.disjoint) and not package.resplit
    if job.speakers.use == "none":
        return
    if newest and apart and any(name.startswith("speakers") for name in causes.measures):
        yield (
            f"{newest.name}'s splits were drawn without the speakers that this run finds: clips of "
            "a speaker in two splits are dropped, and too many refuse the version; with "
            "package.resplit=true, all splits are drawn again"
        )


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


def _unusable(listed: AsListed, header: Mapping[str, float] | None) -> Iterator[tuple[str, Broken]]:
    """(dataset, failure) of each new or changed recording that will fail: first those with an error
    from their source, then those without a readable `header`."""
    for row in listed.fresh:
        if code := row["error_code"]:
            yield row["dataset"], Broken(row["source_path"], code, row["error_detail"] or "")
    for row in listed.fresh:
        if header is not None and not row["error_code"] and row["recording"] not in header:
            reason = "its header cannot be read"
            yield row["dataset"], Broken(row["source_path"], reason, "")


def _broken(surveyed: Survey, listed: AsListed, header: Mapping[str, float] | None) -> FixedBytes:
    """Sorted keys of recordings that are known to be unreadable; new and changed ones count by
    `header`."""
    fresh = [row["recording"] for row in listed.fresh]
    unreadable = [] if header is None else [name for name in fresh if name not in header]
    broken = surveyed.known.broken
    broken = broken[~np.isin(broken, entries.keys(fresh))]
    return np.union1d(broken, entries.keys(unreadable))


def _new_recordings(
    scan: _Scan, listed: AsListed, header: Mapping[str, float] | None, copied: Mapping[str, NewCopy]
) -> int:
    """Count the work on new and changed recordings that are not `copied`. `header`: seconds by
    name, None if no headers were read; then the bytes of these recordings are returned, else 0."""
    seconds_in = sum(header.values()) if header else 0.0
    scan.stages["shard"].add(len(listed.fresh), seconds_in, [SOURCES], again=False)
    same_bytes = listed.moved.keys() | copied.keys()
    new = [row for row in listed.fresh if row["recording"] not in same_bytes]
    for row in new:
        if header is None:
            scan.stages["filter"].add(1, 0.0, [SOURCES], again=False)
        elif (seconds := header.get(row["recording"])) is not None:
            scan.stages["filter"].add(1, seconds, [SOURCES], again=False)
            scan.expected.add(row, seconds, (SOURCES,), again=False)
    return sum(row["size"] for row in new) if header is None else 0


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
        self._cut_before = _cut_before(job, before)

    def coming(self) -> bool:
        """Whether clips of the next version are still to be computed."""
        return any(self.stages[name].compute for name in HEARD)

    def shard(self, name: str, rows: list[RecordingRow]) -> None:
        """Count the work in a shard that may be incomplete; `rows`: its known recordings."""
        view = ShardView(self.job, name, listed=rows, again=True)
        causes = self.causes.measures or self.causes.limits
        again = bool(causes) and bool(view.cuts)
        units, reused = cuts_lacking(view)
        self.stages["filter"].reuse += reused
        for unit in units:
            self.stages["filter"].add(1, unit.seconds, causes, again)
            if unit.spans is None:
                self.expected.add(unit.recording, unit.seconds, tuple(causes), again)
        if self._cut_before is not None and any(unit.spans is None for unit in units):
            former = ShardView(self._cut_before, name, listed=rows, again=True)
            for utterance in former.transcribed():
                self.expected.saw(utterance, _passes(utterance.outcome))
        seen = set[str]()
        for _, group in groupby(view.transcribed(), key=lambda u: u.recording["recording"]):
            utterances = [*group]
            unjudged = [u for u in utterances if u.outcome == UNMEASURED]
            self.unjudged += len(unjudged)
            if self.job.package.exclude:
                waiting = [u for u in utterances if u.outcome.outcome == PENDING]
                self.expected.stated += map(expected.of_cut, waiting)
            heard = {u.window for u in unjudged if u.window}
            for utterance in utterances:
                kept = _passes(utterance.outcome)
                self.expected.saw(utterance, kept)
                if kept:
                    self._count(view, utterance, seen)
                elif utterance.for_window or utterance.window in heard:
                    self._convert(view, utterance, seen)  # a kept one is heard in the same window

    def _count(self, view: ShardView, utterance: Utterance, seen: set[str]) -> None:
        """Count the work on an utterance that passes the filters."""
        causes, again = self._convert(view, utterance, seen)
        for one in view.companions(utterance):
            because, anew = causes, again
            if one.enhanced:
                because = self.causes.enhanced or self.causes.pcm or self._let_in(utterance)
                anew = bool(self.causes.enhanced)
            length = (one.end - one.start) / utterance.rate
            self._tally("resample", one.audio, view.audio, seen, length, because, anew)
        audio_row = view.audio.get(utterance.audio)
        if audio_row is not None and audio_row["error_code"]:
            return
        if utterance.outcome.stage == "enhance":  # failed there, or dropped for its scores
            return
        if enhanced.heard(self.job):
            causes = causes or self.causes.enhanced
        if utterance.recording["recording"] in self.redescribed:  # in another language, say
            causes = causes or [SOURCES]
        text, seconds = view.wanted_text(utterance), utterance.seconds
        self._tally("transcribe", text, view.transcripts, seen, seconds, causes, again)
        # Requests to further recognisers, language models and the aligner.
        again = bool(self.causes.texts)
        verdicts = [name for name in self.causes.version if name.startswith("transcribe.verdicts")]
        for request in utterance.missing if utterance.transcript is not None else ():
            is_question = isinstance(request.asked, TextQuestion)
            because = causes or verdicts if is_question else causes
            anew = again and not is_question
            self._tally("transcribe", request.recipe, (), seen, seconds, because, anew)

    def _convert(
        self, view: ShardView, utterance: Utterance, seen: set[str]
    ) -> tuple[Sequence[str], bool]:
        """Count an utterance's PCM; returns (causes of the work that follows, whether that was done
        before)."""
        earlier, pcm = self._let_in(utterance) or self.causes.pcm, utterance.audio
        causes, again = self.causes.texts or earlier, bool(self.causes.texts)
        if pcm not in view.audio and pcm not in seen:
            again = self._was_converted(view, utterance)
            causes = self.causes.pcm if again else earlier
        self._tally("resample", pcm, view.audio, seen, utterance.seconds, causes, again)
        return causes, again

    def _let_in(self, utterance: Utterance) -> list[str]:
        """The changes that may have made an utterance pass."""
        return (utterance.spared and self.causes.people) or self.causes.limits

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

    def _was_converted(self, view: ShardView, utterance: Utterance) -> bool:
        """Whether the utterance's PCM was made under the newest run's settings, or by its code."""
        if self.before is None or not self.causes.pcm:
            return False
        if self.causes.recoded:  # recipes of the former code cannot be computed any more
            return bool(view.audio)
        content = samples_of(utterance.recording, self.before.filter)
        audio_of = recipe.audio_recipes(self.before.resample)(content)
        return audio_of(utterance.start, utterance.end) in view.audio

    def add_expected(self) -> None:
        """Add the predicted work on recordings that are not cut yet."""
        for causes, again, items, seconds in self.expected.kept():
            clips = items * (1 + recipe.enhancing(self.job))
            self.stages["resample"].add(clips, seconds, causes, again)
            self.stages["transcribe"].add(items, seconds, causes, again)


def _cut_before(job: Job, before: Job | None) -> Job | None:
    """The job with the segmenter and diarizer of the newest run, whose cuts show how many
    utterances to expect; None if the job cuts recordings in the same way."""
    if before is None:
        return None
    same = job.filter.model_copy(update={"segmenter": before.filter.segmenter})
    former = replace(job, filter=same, speakers=before.speakers)
    return None if former == job else former


def _passes(outcome: Outcome) -> bool:
    """Whether an utterance passes the filters and is chosen, or may be once it is measured."""
    if outcome is clip_choice.NOT_CHOSEN:
        return False
    return outcome.stage != "filter" or outcome.outcome == "pending"


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


# Finds new files with the same bytes as others, which a run will not process again.
#
# A listing does not show the content of files, so they are read here, up to MOST_BYTES.

MOST_BYTES = 256 << 20  # takes less than a second


def copies_among(job: Job, had: KnownRecordings, listed: AsListed) -> dict[str, NewCopy]:
    """The copies among new recordings, by name; empty if the new files have more than MOST_BYTES.
    `had`: recordings of earlier runs. Those that left their sources have no copies."""
    sound = [row for row in listed.fresh if not row["error_code"]]
    if (
        job.filter.duplicate_files == "keep"
        or sum(row["size"] for row in sound) > MOST_BYTES
        or any(is_url(Locator.loads(row["locator"]).path) for row in sound[:1])
    ):
        return {}
    hashed: list[RecordingRow] = []
    for row in sound:
        locator = Locator.loads(row["locator"])
        if not (locator.apart or locator.every_track):  # which is divided
            with suppress(OSError, ItemError):  # the run will report it
                hashed.append({**row, "content": audio.digest(locator)[0], "present": True})
    contents = entries.heads(row["content"] for row in hashed)
    numbers = shard_choice.with_bytes(had, contents)
    others: list[RecordingRow] = []
    for number in np.unique(numbers[numbers >= 0]):
        others += manifest.listed(job.out, had.shards[number]).to_pylist()
    names = {row["recording"] for row in hashed}
    others = [row for row in others if row["recording"] not in names]
    before = copies.former(others)
    gone = listed.left(row["recording"] for row in others)
    rows = [*compress(others, ~gone), *hashed]
    marked = copies.mark(rows, before)
    return {copy.recording: copy for copy in marked if copy.recording in names}
