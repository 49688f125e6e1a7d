"""One shard under today's settings: its manifests joined by recipe, and the verdicts on them.

Nothing here computes more than a hash: measures, PCM and transcripts are looked up, thresholds are
applied, and what is missing is what a stage still has to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby

from tasks import plugins, recipe
from tasks.checkpoints import (
    blobs,
    cuts,
    enhanced,
    hypotheses,
    manifest,
    sharing,
    transcripts,
    written,
)
from tasks.checkpoints.cuts import Cut, segments_of, speakers_of
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.sharing import Company
from tasks.checkpoints.texts import text_values
from tasks.checkpoints.utterance import Outcome, Utterance, failed
from tasks.checkpoints.verdicts import filter_rules, rules_of
from tasks.job import Job
from tasks.plugins.contracts import TextVerdict
from tasks.plugins.rules import Rule, judge
from tasks.recording import Segment, faults
from tasks.recording.said import PartTexts
from tasks.recording.turns import Turn
from tasks.reviews import applied
from tasks.reviews.log import Decision
from tasks.settings import StageSettings

PERSON = "person"  # reason of what a person dropped
MOST_DETAIL = 500  # characters of a text that was not said


class ShardView:
    """The manifests of one shard, joined lazily by recipe.

    `strict`: a damaged manifest raises CorruptManifest instead of counting as missing. `listed`:
    the shard's recordings as its sources list them now, where nobody has committed that yet.
    """

    def __init__(
        self,
        job: Job,
        shard: str,
        weights: str = "",
        strict: bool = False,
        listed: Sequence[Row] | None = None,
    ) -> None:
        self.job, self.shard, self.weights, self.strict = job, shard, weights, strict
        self._listed = listed
        self._read: dict[str, list[manifest.Part]] = {}
        self.lost: dict[str, str] = {}  # recipe of PCM whose blob is gone or cut short: the blob

    def _parts(self, stage: str) -> list[manifest.Part]:
        """Of one stage; listed once."""
        if stage not in self._read:
            self._read[stage] = manifest.read(self.job.out, stage, self.shard, self.strict)
        return self._read[stage]

    @cached_property
    def recordings(self) -> list[Row]:
        """Recordings that are in their source now (and in the sample, if any), in listing order."""
        if self._listed is not None:
            rows = list(self._listed)
        else:
            parts = self._parts("shard")
            rows = parts[-1].table.to_pylist() if parts else []
        only = self.job.only
        return [r for r in rows if r["present"] and (only is None or r["recording"] in only)]

    def cut_recipe(self, recording: Row) -> str:
        given, content = segments_of(recording), recording["content"]
        turns = self._of_turns(recording)
        text, language = recording["text"], recording["language"]
        chosen = self.job.filter.segmenter, content, given, turns, self.job.speakers
        return recipe.of_cut(*chosen, text, language)

    def _of_turns(self, recording: Row) -> str | None:
        told, fault = speakers_of(recording), recording.get("rttm_error")
        return recipe.of_turns(self.job.speakers, recording["content"], told, fault)

    def turned(self, recording: Row) -> tuple[str | None, tuple[Turn, ...] | None]:
        """The recipe of a recording's turns, None where nobody asks who speaks; and the turns, None
        where they are not known."""
        name = self._of_turns(recording)
        return name, None if name is None else self.turns.get(name)

    @cached_property
    def people(self) -> Mapping[str, Decision]:
        """What people decided, by utterance id."""
        return applied.of(self.job)

    @cached_property
    def wanted(self) -> dict[str, str]:
        """Recipe of the measures of each chosen filter."""
        return {p.use: recipe.of_plugin("filters", p) for p in self.job.filter.filters}

    @cached_property
    def cuts(self) -> dict[str, Cut]:
        """Everything the filter stage stored for the shard, by recipe of the cut."""
        found: dict[str, Cut] = {}
        for part in self._parts("filter"):
            stored = part.meta["measures"]
            usable = {use for use, wanted in self.wanted.items() if stored.get(use) == wanted}
            # A failure may be a filter's: it stands while every filter measured then is still
            # chosen, and is tried again otherwise.
            cuts.merge(found, part.table.to_pylist(), usable, usable == set(stored))
        return found

    @cached_property
    def turns(self) -> dict[str, tuple[Turn, ...]]:
        """Turns that the filter stage stored, by recipe."""
        found: dict[str, tuple[Turn, ...]] = {}
        for part in self._parts("filter"):
            cuts.merge_turns(found, part.table)
        return found

    @cached_property
    def audio(self) -> dict[str, Row]:
        """Rows of failures, and of PCM whose blob is there, by recipe."""
        sizes = blobs.sizes(self.job.out, self.shard)
        found: dict[str, Row] = {}
        for part in self._parts("resample"):
            for row in part.table.to_pylist():
                if row["error_code"] or blobs.present(row, sizes):
                    found[row["audio"]] = row
                else:
                    self.lost[row["audio"]] = row["blob"]
        return found

    @cached_property
    def transcripts(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for part in self._parts("transcribe"):
            for row in part.table.to_pylist():
                found.setdefault(row["transcript"], row)  # the first text of a recipe stands
        return found

    def transcript_recipe(self, utterance: Utterance) -> str:
        company = utterance.company.audio if utterance.company else ()
        weights = self.weights.partition("\n")[0]
        audio = utterance.hears or utterance.audio
        return recipe.of_transcript(self.job.transcribe, weights, audio, utterance.forced, company)

    def further_recipes(self, utterance: Utterance) -> tuple[str, ...]:
        """Recipes of what further recognisers hear of it, where they are asked."""
        if not self.job.transcribe.backends:
            return ()
        return hypotheses.recipes(self.job.transcribe, self.weights, utterance)

    def _transcript(self, utterance: Utterance) -> Row | None:
        return self.transcripts.get(self.transcript_recipe(utterance))

    def filtered(self) -> Iterator[Utterance]:
        """Utterances of all cut recordings, each with the filter stage's verdict."""
        rules = filter_rules(self.job.filter.filters)
        for recording in self.recordings:
            if recording["error_code"]:
                continue
            cut = self.cuts.get(self.cut_recipe(recording))
            if cut is None or cut.error_code:
                continue
            given = segments_of(recording)
            texts = PartTexts(given or ())
            companies = self._companies(recording, cut)
            seen: set[str] = set()
            for span in cut.spans:
                if span["kind"] == "utterance":
                    utterance = self._utterance(recording, cut, span, given, rules)
                    if (part := span.get("turn")) is not None:
                        start, end = (at / cut.rate for at in (utterance.start, utterance.end))
                        utterance.part_text = texts.between(part, start, end)
                    if utterance.segment is None and part is None:
                        utterance.company = companies.get((span["start"], span["end"]))
                    if given and utterance.id in seen:
                        utterance.outcome = Outcome("failed", "filter", "duplicate_segment")
                    seen.add(utterance.id)
                    yield utterance

    @cached_property
    def _shared_seconds(self) -> float:
        recogniser, settings = plugins.resolve("asr", self.job.transcribe.backend)
        return float(recogniser.shared_seconds(settings))

    def _companies(self, recording: Row, cut: Cut) -> dict[tuple[int, int], Company]:
        """Windows of several utterances, by each of their spans. Segments of the source are heard
        one by one."""
        if not self._shared_seconds or enhanced.heard(self.job):
            return {}
        spans = (span for span in cut.spans if span["kind"] == "utterance")
        free = [
            (span["start"], span["end"])
            for span in spans
            if span["given"] is None and span.get("turn") is None and span.get("text") is None
        ]
        audio = partial(recipe.of_audio, self.job.resample, recording["content"])
        return sharing.companies(free, cut.rate, self._shared_seconds, audio)

    def _utterance(
        self,
        recording: Row,
        cut: Cut,
        span: Row,
        given: tuple[Segment, ...] | None,
        rules: tuple[Rule, ...],
    ) -> Utterance:
        start, end, index = span["start"], span["end"], span["given"]
        part_of = span.get("turn")
        utterance = Utterance(
            recording,
            start,
            end,
            cut.rate,
            index,
            cut.measures.get((start, end, index), {}),
            recipe.of_audio(self.job.resample, recording["content"], start, end),
            Outcome("pending", "resample"),
            _segment(span, cut.rate, given),
            given[part_of] if given is not None and part_of is not None else None,
            cut.fingerprints.get((start, end, index), {}),
            index is None and start == 0 and end == cut.decoded,
        )
        if recipe.enhancing(self.job):
            utterance.enhanced = enhanced.recipe_of(self.job, utterance.audio)
        utterance.voice = self._voice(recording, span)
        if self.people:
            utterance.person = self.people.get(utterance.id)
        utterance.outcome = self._filter_outcome(utterance, cut, rules)
        return utterance

    def _voice(self, recording: Row, span: Row) -> str | None:
        """What the speaker is called whose turn an utterance was cut from."""
        number = span.get("voice")
        if number is None:
            return None
        turns = self.turned(recording)[1] or ()
        name = next((turn.name for turn in turns if turn.speaker == number), None)
        return name or f"{recording['path']}#{number + 1}"

    def _filter_outcome(self, utterance: Utterance, cut: Cut, rules: tuple[Rule, ...]) -> Outcome:
        start, end = utterance.start, utterance.end
        chosen = self.job.filter
        if start >= end and utterance.given is None:  # of a text
            lost = utterance.segment.text if utterance.segment else None
            return Outcome("dropped", "filter", "not_in_audio", detail=(lost or "")[:MOST_DETAIL])
        if start >= end:
            return Outcome("failed", "filter", "segment_outside_audio")
        if not utterance.spared and (no := judge(utterance.measures, rules)):
            detail = no.detail
            if no.reason == "damaged":
                detail = faults.words(cut.faults, start, end, cut.rate)
            return Outcome("dropped", "filter", no.reason, no.value, no.threshold, detail)
        if cut.lacks((start, end, utterance.given), chosen.filters, chosen.measure_all):
            return Outcome("pending", "filter")
        return Outcome("pending", "resample")

    def resampled(self) -> Iterator[Utterance]:
        """`filtered` with PCM looked up; kept utterances are pending for transcribe, or failed.
        Dropped ones that share a window with a kept one have PCM, too."""
        wanted = Outcome("pending", "resample")
        for _, group in groupby(self.filtered(), key=lambda u: u.recording["recording"]):
            utterances = list(group)
            heard = {u.company for u in utterances if u.outcome == wanted}
            for utterance in utterances:
                kept = utterance.outcome == wanted
                utterance.companion = (
                    utterance.outcome.outcome == "dropped"
                    and utterance.company is not None
                    and utterance.company in heard
                )
                if kept or utterance.companion:
                    utterance.pcm = utterance.packed = row = self.audio.get(utterance.audio)
                    if kept and row:
                        error = row["error_code"]
                        utterance.outcome = (
                            failed("resample", row) if error else Outcome("pending", "transcribe")
                        )
                    if kept and utterance.enhanced:
                        enhanced.attach(self.job, utterance, self.audio.get(utterance.enhanced))
                yield utterance

    @cached_property
    def text_measures(self) -> tuple[tuple[TextVerdict, StageSettings], ...]:
        """The text verdicts that compute columns of their own, with their settings."""
        found = (plugins.resolve("text", plugin) for plugin in self.job.transcribe.verdicts)
        return tuple((module, settings) for module, settings in found if module.COLUMNS)

    def decided(self) -> Iterator[Utterance]:
        """`resampled` with transcripts, the verdicts on text and, last, those of people; what is
        missing is pending."""
        rules = rules_of("text", self.job.transcribe.verdicts)
        by_vote = self.job.transcribe.language_by != "clip"
        by_recording = groupby(self.resampled(), key=lambda u: u.recording["recording"])
        for _, group in by_recording:
            utterances = list(group)
            waiting = [u for u in utterances if u.outcome == Outcome("pending", "transcribe")]
            transcripts.attach(waiting, self._transcript, by_vote)
            for utterance in utterances:
                row = utterance.heard
                if row and row["error_code"]:
                    utterance.outcome = failed("transcribe", row)
                elif row and not self._awaited(utterance, row):
                    utterance.outcome = self._verdict_on_text(utterance, rules)
                    if utterance.outcome.outcome == "packaged":
                        written.attach(self.job, utterance, self.transcripts.get)
                    if utterance.unwritten:
                        utterance.outcome = Outcome("pending", "transcribe")
                yield utterance

    def _awaited(self, utterance: Utterance, row: Row) -> bool:
        """Whether further recognisers are asked that have still to hear it; else their texts are
        attached."""
        chosen = self.job.transcribe
        if not chosen.backends or not hypotheses.asked(chosen, row):
            return False
        wanted = self.further_recipes(utterance)
        hypotheses.attach(utterance, wanted, self.transcripts.get)
        return bool(utterance.missing)

    def _verdict_on_text(self, utterance: Utterance, rules: tuple[Rule, ...]) -> Outcome:
        utterance.texts = text_values(self.job, utterance, self.text_measures)
        person = utterance.person
        no = None if utterance.spared else judge(utterance.texts, rules)
        if no:
            return Outcome("dropped", "transcribe", no.reason, no.value, no.threshold, no.detail)
        if person is not None and person.decision == "drop":
            return Outcome("dropped", "package", PERSON, detail=person.words)
        return Outcome("packaged", "package", "packaged", detail=person.words if person else "")


def _segment(span: Row, rate: int, given: Sequence[Segment] | None) -> Segment | None:
    """The source's segment that a span is, or the sentence that was found there."""
    if given is not None and span["given"] is not None:
        return given[span["given"]]
    if (text := span.get("text")) is None:
        return None
    return Segment(span["start"] / rate, span["end"] / rate, text=text)
