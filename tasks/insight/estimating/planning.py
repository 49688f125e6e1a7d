"""What a run would compute and reuse, stage by stage, from manifests and headers; computes nothing.
Recordings that are already cut are counted exactly, the others predicted (`expected.py`).

`package` answers what a version holds; work is counted here, from what each stage says it lacks,
and only in shards that are not complete: deciding those, too, takes 165 CPU s a million clips.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from tasks import audio, corpus, plugins, shard
from tasks.accounting.broken import Broken
from tasks.base.arrays import FixedBytes
from tasks.base.errors import ItemError
from tasks.base.schema import RecordingRow
from tasks.filter import todo as cuts_lacking
from tasks.insight.estimating import band_sample, channel_sample, refusals, rewritten_clips
from tasks.insight.estimating.changes import Causes, Change, found_since, may_choose_others
from tasks.insight.estimating.expected import Expected, lengths
from tasks.publish import foreseen, safeguards
from tasks.publish.choosing import clip_choice
from tasks.publish.dataset import speaker_warnings
from tasks.publish.outcomes import shard_outcomes
from tasks.publish.unchanged import UpToDate
from tasks.recording import Locator
from tasks.settings.job import Job
from tasks.shard_store import enhanced, manifest, recipe, whole_job
from tasks.shard_store.index import Index
from tasks.shard_store.shard_view import ShardView
from tasks.shard_store.stored_shard import samples_of
from tasks.shard_store.utterance import UNMEASURED, FinalUtterance, Outcome
from tasks.stages import stage
from tasks.stages.contract import STAGES
from tasks.stages.listing import copies, file_parts, fingerprints, shard_choice
from tasks.stages.listing.copies import NewCopy
from tasks.stages.listing.known_recordings import KnownRecordings
from tasks.stages.listing.overlapping_sources import Shared
from tasks.stages.listing.pending_listing import AsListed
from tasks.stages.listing.survey import Survey
from tasks.storage import temporary, versions
from tasks.storage.urls import is_url
from tasks.transcribe import lacking

#: What decides which clips there are: a plan in which they have work predicts the rest.
HEARD = STAGES[:-1]
SOURCES = "sources"  # the cause of work on recordings that are new or changed


@dataclass(slots=True)
class Amount:
    """Work of one stage. `seconds`: audio that it computes, `again`: the part of it that was
    computed before, under other settings; `because`: settings whose change made it necessary."""

    compute: int = 0
    reuse: int = 0
    seconds: float = 0.0
    again: float = 0.0
    because: dict[str, None] = field(default_factory=dict)  # an ordered set

    def add(self, items: int, seconds: float, because: Sequence[str], again: bool) -> None:
        if items:
            self.compute += items
            self.seconds += seconds
            self.again += seconds * again
            self.because.update(dict.fromkeys(because))


@dataclass(slots=True)
class Plan:
    """`clips`: packaged in the newest version, and by a run, as far as known. `unread`: bytes of
    new recordings whose headers were not read; only the first two stages count those."""

    stages: dict[str, Amount]
    changes: list[Change]
    removed: int  # recordings that have left their sources
    ignored: dict[str, int]  # files left aside, by reason
    shards: int
    clips: tuple[int, int]
    other_inputs: bool  # settings or decisions differ from the newest version's, or there is none
    unread: int
    shared: list[Shared]  # recordings in two sources
    stated: list[str]  # what sources state of their recordings, in sentences
    unjudged: int  # clips that filters have yet to measure: those may drop some, so all is at most
    refusal: str | None  # why the run will publish nothing, as far as it is known now
    unusable: int  # new recordings that will fail, by their sources or by their headers
    first_unusable: str | None  # one of these, and why

    @property
    def again(self) -> float:
        """Seconds of audio that are recomputed, in the stage with most of it."""
        return max(amount.again for amount in self.stages.values())


def plan(job: Job, before: Job | None, headers: bool = True, listing: bool = True) -> Plan:
    """The work of a run of `job`; `before` is the job of the newest run, None before the first.
    `headers`: whether the lengths of new recordings are read. `listing`: whether the sources are
    listed; otherwise they count as holding what the last run found there."""
    index = Index(job.out)
    index.warn_of_foreign()
    surveyed, listed = _surveyed(job, index, listing)
    shards = manifest.shards(job.out)
    newest = versions.newest(job.out)
    described = versions.described(newest) if newest else None
    causes = Causes.of(found_since(job, before, described), job)
    scan = _Scan(job, before, causes)
    scan.redescribed = listed.redescribed
    # Without a version every clip is packaged, also where the stages before lack nothing.
    chosen_anew = newest is None or may_choose_others(job, before, described)
    state = None if chosen_anew else UpToDate(job, shards, index, any_code=True)
    listings = _known_shards(scan, shards, listed, state)
    scan.stages["shard"].reuse = surveyed.reused
    gone = listed.removed()
    copied = copies_among(job, listed.fresh, surveyed.known, gone) if headers else {}
    header = lengths(listed.fresh) if headers else None
    unread = _new_recordings(scan, listed, header, copied)
    surveyed.leave_out(_broken(surveyed, listed, header))
    scan.add_expected()
    package = job.package
    selects = bool(package.weights) or package.max_hours_per_speaker is not None
    if scan.scanned and (selects or clip_choice.restricts(package) or corpus.takes_part(job)):
        scan.leave_out_rejected(shards, listings)
    clips = _package(scan, gone | {row["recording"] for row in listed.fresh})
    removed = len(gone - {*listed.moved.values()})
    other = described is None or described["settings"] != whole_job.settings_of(job)
    other = other or bool(causes.people)
    totals = (scan.stages, causes.all, removed, surveyed.ignored, len(shards), clips, other, unread)
    refusal = refusals.of_removals(job, listed, newest)
    unusable = [*_unusable(listed, header)]
    refusal = refusal or refusals.of_failures(job, surveyed, listed, newest, unusable)
    if refusal is None and not clips[1] and not any(scan.stages[name].compute for name in HEARD):
        refusal = safeguards.nothing_left_in_words(job)
    datasets = plugins.datasets(job.sources)
    divided = [*file_parts.channel_sentences(job.out, datasets)]
    divided += channel_sample.sentences(listed.fresh, datasets) if headers else ()
    if headers and speaker_warnings.bands_matter(job):
        divided += band_sample.sentences(listed.fresh, manifest.listings(job.out))
    same = copies.in_words([*copied.values()])
    stated = [*surveyed.stated, *divided, *same, *surveyed.unknown_speakers]
    from_sources = surveyed.shared, stated
    first = next((str(broken) for _, broken in unusable), None)
    return Plan(*totals, *from_sources, scan.unjudged, refusal, len(unusable), first)


def _surveyed(job: Job, index: Index, listing: bool) -> tuple[Survey, AsListed]:
    """The sources compared with what OUT knows; without `listing`, as the last run found them."""
    # No wait for files that may still be growing: of those, nothing is read.
    quick = replace(job, shard=job.shard.model_copy(update={"settle_seconds": 0.0}))
    with temporary.scratch() as home:
        surveyed = (shard.survey if listing else shard.as_known)(quick, index, home)
        return surveyed, AsListed(job.out, surveyed)


def _known_shards(
    scan: _Scan, shards: Sequence[str], listed: AsListed, complete: UpToDate | None
) -> dict[str, list[RecordingRow]]:
    """Count the shards; those that `complete` counts are not opened. Returns the recordings of
    shards that sources list otherwise than OUT."""
    fresh = {row["recording"] for row in listed.fresh}
    listings = {}
    for name in shards:
        counts = complete.items(name) if complete and name in listed.unchanged else None
        if counts is not None:
            for stage_name, items in counts.items():
                scan.stages[stage_name].reuse += items
            continue
        rows = listed.rows(name)
        scan.scanned |= {row["recording"] for row in rows if not row["present"]}  # no clips
        scan.scanned.update(listed.left(name).ever)
        unread = fresh - listed.moved.keys()
        rows = [row for row in rows if row["present"] and row["recording"] not in unread]
        if rows:
            scan.shard(name, rows)
        if name not in listed.unchanged:
            listings[name] = rows
    return listings


def _unusable(listed: AsListed, header: Mapping[str, float] | None) -> Iterator[tuple[str, Broken]]:
    """New and changed recordings that will fail, each with its dataset: first what their sources
    say of, then those without a `header`."""
    for row in listed.fresh:
        if code := row["error_code"]:
            yield row["dataset"], Broken(row["source_path"], code, row["error_detail"] or "")
    for row in listed.fresh:
        if header is not None and not row["error_code"] and row["recording"] not in header:
            reason = "its header cannot be read"
            yield row["dataset"], Broken(row["source_path"], reason, "")


def _broken(surveyed: Survey, listed: AsListed, header: Mapping[str, float] | None) -> FixedBytes:
    """Sorted keys of recordings that cannot be read, as far as it is known now; of those that are
    new or changed, by their `header`s."""
    fresh = [row["recording"] for row in listed.fresh]
    unreadable = [] if header is None else [name for name in fresh if name not in header]
    broken = surveyed.known.broken
    broken = broken[~np.isin(broken, fingerprints.keys(fresh))]
    return np.union1d(broken, fingerprints.keys(unreadable))


def _new_recordings(
    scan: _Scan, listed: AsListed, header: Mapping[str, float] | None, copied: Mapping[str, NewCopy]
) -> int:
    """Count recordings that are new or changed, without those that are `copied`; `header`: their
    seconds, None if no header was read. Returns the bytes of those whose headers stay unread."""
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
    """The shards examined so far: their work, and what they imply for the rest."""

    def __init__(self, job: Job, before: Job | None, causes: Causes) -> None:
        self.job, self.before, self.causes = job, before, causes
        self.stages = {name: Amount() for name in STAGES}
        self.expected = Expected(job)
        self.scanned: set[str] = set()  # recordings
        self.stay: dict[str, float] = {}  # s of utterances that are packaged as they are, by id
        self.coming: dict[str, float] = {}  # s of those that are still to be heard, by id
        self.worded: dict[str, rewritten_clips.Wordings] = {}  # of `redescribed` recordings, by id
        self.redescribed: Set[str] = frozenset()
        self._published = shard_outcomes.published(job)
        self.unjudged = 0
        self._cut_before = _cut_before(job, before)

    def shard(self, name: str, rows: list[RecordingRow]) -> None:
        """Count a shard that may lack something; `rows`: its known recordings."""
        view = ShardView(self.job, name, stage.weights_of(self.job), listed=rows, again=True)
        self.scanned |= {row["recording"] for row in rows}
        causes = self.causes.measures or self.causes.limits
        again = bool(causes) and bool(view.cuts)
        units, reused = cuts_lacking(view)
        self.stages["filter"].reuse += reused
        for unit in units:
            self.stages["filter"].add(1, unit.seconds, causes, again)
            if unit.spans is None:
                self.expected.add(unit.recording, unit.seconds, tuple(causes), again)
        if self._cut_before is not None and any(unit.spans is None for unit in units):
            former = ShardView(self._cut_before, name, view.weights, listed=rows, again=True)
            for utterance in former.transcribed():
                self.expected.saw(utterance, _passes(utterance.outcome))
        seen: set[str] = set()
        for _, group in groupby(view.transcribed(), key=lambda u: u.cut.recording["recording"]):
            utterances = [*group]
            unjudged = [u for u in utterances if u.outcome == UNMEASURED]
            self.unjudged += len(unjudged)
            heard = {u.cut.company for u in unjudged if u.cut.company}
            for utterance in utterances:
                in_window = utterance.heard.companion or utterance.cut.company in heard
                self._count(view, utterance, seen, in_window)

    def _count(
        self, view: ShardView, utterance: FinalUtterance, seen: set[str], in_window: bool
    ) -> None:
        """`seen`: recipes that this run computes. Equal samples are computed once. `in_window`: it
        shares a window with a kept one, so even if it is dropped, its PCM is needed."""
        kept = _passes(utterance.outcome)
        self.expected.saw(utterance, kept)
        pcm = utterance.cut.audio
        if not kept:
            if in_window:
                self._convert(view, utterance, pcm in view.audio or pcm in seen)
                seen.add(pcm)
            return
        text = view.transcript_recipe(utterance.heard)
        if clean := utterance.cut.enhanced:
            if enhanced.heard(self.job) and clean not in view.audio:
                text = view.text_recipe(utterance.heard, clean)  # as it will be heard
            because = self.causes.enhanced or self.causes.pcm or self._let_in(utterance)
            computed = clean in view.audio or clean in seen
            again = bool(self.causes.enhanced)
            self._tally("resample", computed, utterance.cut.seconds, because, again)
            seen.add(clean)
        converted = pcm in view.audio or pcm in seen
        causes, again = self._convert(view, utterance, converted)
        for turn in view.own_turns(utterance.cut):
            stored = turn.audio in view.audio or turn.audio in seen
            seconds = (turn.end - turn.start) / utterance.cut.rate
            self._tally("resample", stored, seconds, causes, again)
            seen.add(turn.audio)
        audio_row = view.audio.get(pcm)
        if converted and audio_row is not None and audio_row["error_code"]:
            return
        if utterance.outcome.stage == "enhance":  # it failed there, or is dropped for its scores
            return
        if enhanced.heard(self.job):
            causes = causes or self.causes.enhanced
        computed = text in view.transcripts or text in seen
        self._tally("transcribe", computed, utterance.cut.seconds, causes, again)
        self._ask_others(view, utterance, seen, causes)
        seen |= {pcm, text}
        self._note_clip(utterance, pcm in view.audio and text in view.transcripts)

    def _ask_others(
        self, view: ShardView, utterance: FinalUtterance, seen: set[str], causes: Sequence[str]
    ) -> None:
        """Count what further recognisers, models and the aligner are asked of one that is heard."""
        if utterance.heard.transcript is None:
            return
        again = bool(self.causes.texts)
        verdicts = [name for name in self.causes.version if name.startswith("transcribe.verdicts")]
        for unit in lacking(utterance, view):
            asked = unit.question is not None
            because = causes or verdicts if asked else causes
            reused, seconds = unit.transcript in seen, utterance.cut.seconds
            self._tally("transcribe", reused, seconds, because, again and not asked)
            seen.add(unit.transcript)

    def _note_clip(self, utterance: FinalUtterance, transcribed: bool) -> None:
        """Note that it will be packaged, or may be; `transcribed`: its text is stored."""
        outcome = utterance.outcome
        measured_only = outcome.stage == "filter" and transcribed
        # What further recognisers hear may drop a clip, but not change the first one's text.
        compared = bool(utterance.heard.missing) and self.job.transcribe.asr == "first"
        compared |= utterance.llm_unanswered or utterance.unaligned
        compared |= bool(utterance.unanswered or utterance.unheard)
        if outcome.outcome == "packaged" or measured_only or compared:
            self.stay[utterance.cut.id] = utterance.cut.seconds
            self._note_text(utterance)
        elif outcome.outcome == "pending":
            self.coming[utterance.cut.id] = utterance.cut.seconds

    def _note_text(self, utterance: FinalUtterance) -> None:
        """Note the text that will be published, if its source may say another one now."""
        recording = utterance.cut.recording["recording"]
        if recording in self.redescribed and utterance.outcome.outcome == "packaged":
            text = self._published(utterance).text
            self.worded[utterance.cut.id] = rewritten_clips.Wordings(text, frozenset())

    def _convert(
        self, view: ShardView, utterance: FinalUtterance, reused: bool
    ) -> tuple[Sequence[str], bool]:
        """Count its PCM; (causes of what follows from it, whether that is made again)."""
        earlier = self._let_in(utterance) or self.causes.pcm
        causes, again = self.causes.texts or earlier, bool(self.causes.texts)
        if not reused:
            again = self._was_converted(view, utterance)
            causes = self.causes.pcm if again else earlier
        self._tally("resample", reused, utterance.cut.seconds, causes, again)
        return causes, again

    def _let_in(self, utterance: FinalUtterance) -> list[str]:
        """What made it pass, if something that has changed did."""
        return (utterance.cut.spared and self.causes.people) or self.causes.limits

    def _tally(
        self, stage: str, reused: bool, seconds: float, causes: Sequence[str], again: bool
    ) -> None:
        """Count one item, which is computed unless it is `reused`."""
        if reused:
            self.stages[stage].reuse += 1
        else:
            self.stages[stage].add(1, seconds, causes, again)

    def leave_out_rejected(self, shards: Sequence[str], listings: foreseen.Listings) -> None:
        """Do not count clips as packaged that rules on the whole corpus reject."""
        with foreseen.version(self.job, shards, listings) as version:
            for clip_id in version.rejected():
                self.stay.pop(clip_id, None)
                self.coming.pop(clip_id, None)

    def _was_converted(self, view: ShardView, utterance: FinalUtterance) -> bool:
        """Whether its PCM was made under the newest run's settings, or by its code."""
        if self.before is None or not self.causes.pcm:
            return False
        if self.causes.recoded:  # what that code called its results, this one cannot tell
            return bool(view.audio)
        content = samples_of(utterance.cut.recording, self.before.filter)
        old = content, utterance.cut.start, utterance.cut.end
        return recipe.of_audio(self.before.resample, *old) in view.audio

    def add_expected(self) -> None:
        """Add the prediction for recordings that are not cut yet."""
        for causes, again, items, seconds in self.expected.kept():
            clips = items * (1 + recipe.enhancing(self.job))
            self.stages["resample"].add(clips, seconds, causes, again)
            self.stages["transcribe"].add(items, seconds, causes, again)


def _cut_before(job: Job, before: Job | None) -> Job | None:
    """The job with recordings cut as by the newest run; None if the job cuts them so, too. Cuts of
    then tell how many utterances are to be expected."""
    if before is None:
        return None
    same = job.filter.model_copy(update={"segmenter": before.filter.segmenter})
    former = replace(job, filter=same, speakers=before.speakers)
    return None if former == job else former


def _passes(outcome: Outcome) -> bool:
    """Whether an utterance passes the filters, as far as they have measured it."""
    return outcome.stage != "filter" or outcome.outcome == "pending"


def _package(scan: _Scan, gone: set[str]) -> tuple[int, int]:
    """Count the clips that are written, in tars whose content changes; (clips now, clips then).
    `gone`: recordings that left their sources, or whose bytes are others now."""
    worded = rewritten_clips.wordings(scan.job) if scan.causes.people else {}
    worded |= scan.worded
    change = rewritten_clips.of_version(
        scan.job, scan.before, scan.stay, scan.scanned, gone, worded
    )
    amount = scan.stages["package"]
    waiting, seconds = scan.expected.packaged(scan.coming)
    causes = [
        name
        for stage_name in ("resample", "transcribe")
        for name in scan.stages[stage_name].because
    ]
    causes += [*scan.causes.published, *([SOURCES] if gone or scan.worded else [])]
    items = change.written + waiting
    amount.add(items, change.seconds + seconds, causes, again=False)
    then = change.staying + waiting
    amount.reuse = then - items
    return change.clips, then


# New files with the bytes of others, which a run will not process again.
#
# A listing does not show what a file holds, so files are read here: as many bytes as take a
# moment.

MOST_BYTES = 256 << 20  # read in less than a second


def copies_among(
    job: Job, fresh: Sequence[RecordingRow], had: KnownRecordings, gone: Collection[str]
) -> dict[str, NewCopy]:
    """The copies among new recordings, by name; none if the new files are more than are read.
    `gone`: recordings that left their sources, of which nothing is a copy."""
    sound = [row for row in fresh if not row["error_code"]]
    if (
        job.filter.duplicate_files == "keep"
        or sum(row["size"] for row in sound) > MOST_BYTES
        or any(is_url(Locator.loads(row["locator"]).path) for row in sound[:1])
    ):
        return {}
    hashed = list(filter(None, map(_hashed, sound)))
    contents = fingerprints.contents(row["content"] for row in hashed)
    numbers = shard_choice.with_bytes(had, contents)
    others: list[RecordingRow] = []
    for number in np.unique(numbers[numbers >= 0]):
        others += manifest.listed(job.out, had.shards[number]).to_pylist()
    names = {row["recording"] for row in hashed}
    others = [row for row in others if row["recording"] not in names]
    before = copies.former(others)
    rows = [row for row in others if row["recording"] not in gone] + hashed
    copies.mark(rows, before)
    return {copy.recording: copy for copy in copies.new(rows, before) if copy.recording in names}


def _hashed(row: RecordingRow) -> RecordingRow | None:
    """The row with its content; None if it cannot be read, as the run will say, or if its file is
    to be divided."""
    locator = Locator.loads(row["locator"])
    if locator.apart or locator.every_track:
        return None
    with suppress(OSError, ItemError):
        return {**row, "content": audio.digest(locator)[0], "present": True}
    return None
