"""One shard under today's settings: its stored results, and the verdicts on them.

Nothing here computes more than a hash: measures, PCM and transcripts are looked up and thresholds
applied; whatever is missing is left for a stage to compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby

from tasks import plugins
from tasks.base.errors import shortened
from tasks.base.schema import Row
from tasks.plugins.rules import Rule, judge
from tasks.recording import Segment, faults
from tasks.recording.part_texts import PartTexts
from tasks.shard_store import (
    cuts,
    decisions,
    enhanced,
    hypotheses,
    llm_answers,
    recipe,
    shared_windows,
)
from tasks.shard_store.cuts import MOST_BEYOND, Cut, no_samples, seconds_beyond, segments_of
from tasks.shard_store.decision_log import Decision
from tasks.shard_store.shared_windows import Company
from tasks.shard_store.stored_shard import StoredShard
from tasks.shard_store.text_values import TextValues
from tasks.shard_store.utterance import Outcome, Utterance, failed
from tasks.shard_store.verdicts import filter_rules, rules_of

OUTSIDE = "segment_outside_audio"  # reason of segments that the recording does not hold
PERSON = "person"  # reason of utterances that a person dropped


class ShardView(StoredShard):
    """A shard's stored results, with the verdict on each utterance after each stage."""

    @cached_property
    def people(self) -> Mapping[str, Decision]:
        """Decisions by people, by utterance id."""
        return decisions.of(self.job)

    @cached_property
    def filter_columns(self) -> cuts.FilterColumns:
        """What the chosen filters store for an utterance."""
        return cuts.filter_columns(self.job.filter.filters)

    def _transcript(self, utterance: Utterance) -> Row | None:
        return self.transcripts.get(self.transcript_recipe(utterance))

    def filtered(self) -> Iterator[Utterance]:
        """Utterances of all cut recordings, each with the filter stage's verdict."""
        rules = filter_rules(self.job.filter.filters)
        for recording in self.recordings:
            cut = self.cut_of(recording)
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
                    if given:
                        if utterance.id in seen:
                            utterance.outcome = Outcome("failed", "filter", "duplicate_segment")
                        seen.add(utterance.id)
                    yield utterance

    @cached_property
    def _shared_seconds(self) -> float:
        recogniser, settings = plugins.resolve("asr", self.job.transcribe.backend)
        return float(recogniser.shared_seconds(settings))

    def _companies(self, recording: Row, cut: Cut) -> dict[tuple[int, int], Company]:
        """The window of each span that shares one. Segments of the source never share a window."""
        if not self._shared_seconds or enhanced.heard(self.job):
            return {}
        spans = (span for span in cut.spans if span["kind"] == "utterance")
        free = [
            (span["start"], span["end"])
            for span in spans
            if span["given"] is None and span.get("turn") is None and span.get("text") is None
        ]
        audio = partial(self.audio_recipe, recording["content"])
        return shared_windows.companies(free, cut.rate, self._shared_seconds, audio)

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
        # A text about the recording's first seconds alone is not that of the whole.
        whole = given is None or recording["segments"] is not None
        utterance = Utterance(
            recording,
            start,
            end,
            cut.rate,
            index,
            cut.measures.get((start, end, index), {}),
            self.audio_recipe(recording["content"], start, end),
            Outcome("pending", "resample"),
            _segment(span, cut.rate, given),
            given[part_of] if given is not None and part_of is not None else None,
            cut.fingerprints.get((start, end, index), {}),
            whole and index is None and start == 0 and end == cut.decoded,
        )
        if recipe.enhancing(self.job):
            utterance.enhanced = enhanced.recipe_of(self.job, utterance.audio)
        utterance.voice = self._voice(recording, span)
        if self.people:
            utterance.person = self.people.get(utterance.id)
        utterance.outcome = self._filter_outcome(utterance, cut, rules)
        return utterance

    def _voice(self, recording: Row, span: Row) -> str | None:
        """The name of the speaker whose turn the utterance was cut from."""
        number = span.get("voice")
        if number is None:
            return None
        turns = self.turned(recording)[1] or ()
        name = next((turn.name for turn in turns if turn.speaker == number), None)
        return name or f"{recording['path']}#{number + 1}"

    def _filter_outcome(self, utterance: Utterance, cut: Cut, rules: tuple[Rule, ...]) -> Outcome:
        start, end = utterance.start, utterance.end
        if start >= end and utterance.given is None:  # of a text
            lost = utterance.segment.text if utterance.segment else None
            return Outcome("dropped", "filter", "not_in_audio", detail=shortened(lost or ""))
        if start >= end:
            detail = no_samples(utterance.segment, cut) if utterance.segment else ""
            return Outcome("failed", "filter", OUTSIDE, detail=detail)
        if utterance.given is not None and utterance.segment is not None and not utterance.spared:
            beyond = seconds_beyond(utterance.segment, cut)
            if beyond > MOST_BEYOND:  # its text says what the audio lacks
                detail = f"it ends {beyond:.2f} s beyond the end of the recording"
                return Outcome("failed", "filter", OUTSIDE, beyond, MOST_BEYOND, detail)
        if not utterance.spared and (no := judge(utterance.measures, rules)):
            detail = no.detail
            if no.reason == "damaged":
                detail = faults.words(cut.faults, start, end, cut.rate)
            return Outcome("dropped", "filter", no.reason, no.value, no.threshold, detail)
        key, measure_all = (start, end, utterance.given), self.job.filter.measure_all
        if cut.lacks(key, self.filter_columns, measure_all):
            return Outcome("pending", "filter")
        return Outcome("pending", "resample")

    def resampled(self) -> Iterator[Utterance]:
        """`filtered` with PCM looked up; kept utterances are pending for transcribe, or failed.
        Dropped ones that share a window with a kept one get PCM too."""
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
    def _text_values(self) -> TextValues:
        return TextValues(self.job)

    def transcribed(self) -> Iterator[Utterance]:
        """`resampled` with transcripts, verdicts on text and, last, people's decisions; utterances
        that lack any of these are pending."""
        rules = rules_of("text", self.job.transcribe.verdicts)
        by_vote = self.job.transcribe.language_by != "clip"
        by_recording = groupby(self.resampled(), key=lambda u: u.recording["recording"])
        for _, group in by_recording:
            utterances = list(group)
            waiting = [u for u in utterances if u.outcome == Outcome("pending", "transcribe")]
            hypotheses.attach_first(waiting, self._transcript, by_vote)
            for utterance in utterances:
                row = utterance.heard
                if row and row["error_code"]:
                    utterance.outcome = failed("transcribe", row)
                elif row and not self._awaited(utterance, row):
                    utterance.outcome = self._verdict_on_text(utterance, rules)
                    if utterance.outcome.outcome == "packaged":
                        llm_answers.attach(self.job, utterance, self.transcripts.get)
                    if utterance.llm_unanswered:
                        utterance.outcome = Outcome("pending", "transcribe")
                yield utterance

    def with_stored_text(self, utterances: Iterable[Utterance]) -> set[str]:
        """Ids of utterances that a limit dropped before their transcript was looked up, although
        one is stored: the limit was tightened since."""
        return {
            u.id
            for u in utterances
            if u.outcome.outcome == "dropped"
            and u.heard is None
            and any(
                self.text_recipe(u, audio) in self.transcripts
                for audio in (u.audio, u.enhanced)
                if audio is not None
            )
        }

    def _awaited(self, utterance: Utterance, row: Row) -> bool:
        """Whether further recognisers still have to hear the utterance; otherwise attaches their
        texts."""
        chosen = self.job.transcribe
        if not chosen.backends or not hypotheses.asked(chosen, row):
            return False
        wanted = self.further_recipes(utterance)
        hypotheses.attach(utterance, wanted, self.transcripts.get)
        return bool(utterance.missing)

    def _verdict_on_text(self, utterance: Utterance, rules: tuple[Rule, ...]) -> Outcome:
        utterance.texts = self._text_values.of(utterance)
        person = utterance.person
        no = None if utterance.spared else judge(utterance.texts, rules)
        if no:
            return Outcome("dropped", "transcribe", no.reason, no.value, no.threshold, no.detail)
        if person is not None and person.decision == "drop":
            return Outcome("dropped", "package", PERSON, detail=person.words)
        return Outcome("packaged", "package", "packaged", detail=person.words if person else "")


def _segment(span: Row, rate: int, given: Sequence[Segment] | None) -> Segment | None:
    """The source's segment for a span, or the sentence that was found there."""
    if given is not None and span["given"] is not None:
        return given[span["given"]]
    if (text := span.get("text")) is None:
        return None
    return Segment(span["start"] / rate, span["end"] / rate, text=text)
