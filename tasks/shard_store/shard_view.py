"""One shard under the current settings: its stored results, and its utterances' outcomes by the
rules.

Nothing here computes more than a hash: measures, PCM and transcripts are looked up and limits
applied. Missing results make an utterance pending; a stage computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from .. import plugins
from ..base.errors import shortened
from ..base.schema import AnyRow, CutRow, EnhancedRow, RecordingRow, TranscriptRow
from ..plugins.rules import Rule, judge
from ..recording import Segment, faults, turns
from ..recording.turns import PartTexts
from ..settings import Plugin
from ..settings.job import Spoken
from . import clip_choice, enhanced, hidden, hypotheses, recipe, requests, text_values
from .annotated import filter_rules, rules_of
from .cuts import MOST_BEYOND, Cut, no_samples, seconds_beyond, segment_of, segments_of
from .recipe import AudioRecipe
from .requests import (
    Asked,
    ChannelTurn,
    OwnTurn,
    Recognition,
    Request,
    TextQuestion,
    Window,
    WindowAudio,
)
from .source_languages import of_job as languages_of
from .stored_shard import StoredShard, samples_of
from .text_values import TextValues, final_text
from .utterance import (
    UNCONVERTED,
    UNHEARD,
    UNMEASURED,
    CutUtterance,
    FinalUtterance,
    HeardUtterance,
    Outcome,
    failed,
)

OUTSIDE = "segment_outside_audio"  # reason of segments outside of the recording
DUPLICATE_SEGMENT = "duplicate_segment"  # reason of a segment that the source gives twice
LONG_S = 60.0  # s; a longer recording may have little speech
PERSON = "person"  # reason of utterances that a person dropped


class ShardView(StoredShard):
    """A shard's stored results, with the outcome of each utterance after each stage."""

    @cached_property
    def filters(self) -> tuple[Plugin, ...]:
        return self.job.filter.all_filters

    @cached_property
    def _filter_rules(self) -> tuple[Rule, ...]:
        return filter_rules(self.filters)

    @cached_property
    def _text_rules(self) -> tuple[Rule, ...]:
        return rules_of("text", self.job.transcribe.verdicts)

    def filtered(self) -> Iterator[CutUtterance]:
        """Utterances of all cut recordings, each with its outcome after the filter stage."""
        for recording in self.processed:
            cut = self.cut_of(recording)
            if cut is None or cut.error_code:
                continue
            given = segments_of(recording)
            seen: set[str] = set()
            for utterance in self._uttered(recording, cut, given):
                utterance.outcome = self._filter_outcome(utterance, cut)
                if given:
                    # All segments that begin beyond the end are the same empty span.
                    if utterance.id in seen and utterance.start < utterance.end:
                        utterance.outcome = Outcome("failed", "filter", DUPLICATE_SEGMENT)
                    seen.add(utterance.id)
                yield utterance

    @cached_property
    def _shared_seconds(self) -> float:
        recogniser, settings = plugins.ASR.resolve(self.job.transcribe.backend)
        return float(recogniser.shared_seconds(settings))

    def _windows(self, cut: Cut, audio: AudioRecipe) -> dict[tuple[int, int], Window]:
        """The window of each span that shares one. The source's segments never share a window."""
        if not self._shared_seconds or enhanced.heard(self.job):
            return {}
        spans = (span for span in cut.spans if span["kind"] == "utterance")
        free = [
            (span["start"], span["end"])
            for span in spans
            if span["given"] is None and span.get("turn") is None and span.get("text") is None
        ]
        return requests.by_span(free, cut.rate, self._shared_seconds, audio)

    def _uttered(
        self, recording: RecordingRow, cut: Cut, given: tuple[Segment, ...] | None
    ) -> Iterator[CutUtterance]:
        """The utterances of a cut recording, before its filters; `given`: its `segments_of`."""
        audio_of = recipe.audio_recipes(self.job.resample)(self.contents[recording["recording"]])
        texts, rate, windows = PartTexts(given or ()), cut.rate, self._windows(cut, audio_of)
        stated = self.stated_turns(recording)
        # A text for only the first seconds is not the text of the whole recording.
        all_given = given is None or recording["segments"] is not None
        for span in cut.spans:
            if span["kind"] != "utterance":
                continue
            start, end, index, part = span["start"], span["end"], span["given"], span.get("turn")
            key, audio = (start, end, index), audio_of(start, end)
            segment = segment_of(span, rate, given)
            # The source's text for a part of a segment, or for a clip of several turns.
            text = None
            if part is not None:
                text = texts.between(part, start / rate, end / rate)
            elif stated is not None and (pieces := turns.texts_in_span(stated, start, end, rate)):
                text = " ".join(text for _, _, text in pieces)
            utterance = CutUtterance(
                recording,
                start,
                end,
                rate,
                index,
                cut.measures.get(key, {}),
                audio,
                UNCONVERTED,
                segment,
                given[part] if given is not None and part is not None else None,
                cut.annotations.get(key, {}),
                all_given and index is None and start == 0 and end == cut.decoded,
                text,
                windows.get((start, end)) if segment is None and part is None else None,
                enhanced.recipe_of(self.job, audio),
                self._voice(recording, span),
            )
            if self.people:
                recut = cut.recut.get(key)
                utterance.person = self.people.get(utterance.id) or recut
                utterance.moved = recut is not None
                if recut is not None and index is not None:
                    utterance.part_text = texts.between(index, start / rate, end / rate)
            yield utterance

    def stated_turns(self, recording: RecordingRow) -> tuple[Segment, ...] | None:
        """The source's segments, if clips hold turns, and these are its segments."""
        by_source = plugins.DIARIZERS.load(self.job.speakers.use).USES_SPEAKERS
        if not by_source or recording.get("rttm") is not None:
            return None
        holds_turns = plugins.SEGMENTERS.load(self.job.filter.segmenter.use).HOLDS_TURNS
        return (segments_of(recording) or ()) if holds_turns else None

    @cached_property
    def _hears_channels(self) -> bool:
        return requests.asks_channels(self.job)

    def own_turns(self, cut: CutUtterance) -> list[OwnTurn]:
        if not self._hears_channels:  # most jobs
            return []
        speech = self.turned(cut.recording)[1] or ()

        def audio(channel: int) -> AudioRecipe:
            return self._channel_recipes(samples_of(cut.recording, self.job.filter, channel))

        window = cut.start, cut.end
        return [*requests.own_turns(window, cut.rate, speech, self._shared_seconds, audio)]

    @cached_property
    def writes_sides(self) -> bool:
        return requests.writes_sides(self.job)

    def sides(self, cut: CutUtterance) -> tuple[str, ...]:
        """The recipes of the PCM of both channels of a clip, if its recording has two and each of
        its turns has one; else none."""
        of_recording = self.cut_of(cut.recording)
        if of_recording is None or of_recording.channels != 2 or cut.start >= cut.end:
            return ()
        speech = turns.within(self.turned(cut.recording)[1] or (), cut.start, cut.end)
        if not speech or any(turn.channel is None for turn in speech):
            return ()
        contents = (samples_of(cut.recording, self.job.filter, channel) for channel in (0, 1))
        return tuple(self._channel_recipes(content)(cut.start, cut.end) for content in contents)

    def _with_sides(self, utterance: HeardUtterance) -> HeardUtterance:
        rows = [self.audio.get(recipe) for recipe in self.sides(utterance.cut)]
        broken = [failed("resample", row) for row in rows if row and row["error_code"]]
        outcome = UNCONVERTED if None in rows else next(iter(broken), utterance.outcome)
        return utterance._replace(outcome=outcome, sides=tuple(row for row in rows if row))

    @cached_property
    def _channel_recipes(self) -> Callable[[str], AudioRecipe]:
        return recipe.audio_recipes(requests.of_one_channel(self.job.resample))

    def channel_turns(self, utterance: HeardUtterance) -> tuple[ChannelTurn, ...]:
        """The turns of a transcribed window, with what is stored for their own channels."""
        language = utterance.transcript["language"] if utterance.transcript else None
        stored: list[ChannelTurn] = []
        for turn in self.own_turns(utterance.cut):
            members = turn.window.audio if turn.window else ()
            wanted = self._transcript_recipes(turn.audio, language, members)
            rows = self.audio.get(turn.audio), self.transcripts.get(wanted)
            stored.append(ChannelTurn(turn, wanted, language, *rows))
        return tuple(stored)

    def _voice(self, recording: RecordingRow, span: CutRow) -> str | None:
        number = span.get("voice")
        if number is None:
            return None
        return turns.name_of(self.turned(recording)[1] or (), number, recording["path"])

    def _filter_outcome(self, utterance: CutUtterance, cut: Cut) -> Outcome:
        start, end = utterance.start, utterance.end
        if start >= end and utterance.given is None:  # a sentence of a text
            lost = utterance.segment.text if utterance.segment else None
            lost = hidden.shown(self.job, lost, utterance.language)
            return Outcome("dropped", "filter", "not_in_audio", detail=shortened(lost or ""))
        if start >= end:
            detail = no_samples(utterance.segment, cut) if utterance.segment else ""
            return Outcome("failed", "filter", OUTSIDE, detail=detail)
        if utterance.given is not None and utterance.segment is not None and not utterance.spared:
            beyond = seconds_beyond(utterance.segment, cut)
            if beyond > MOST_BEYOND:  # the text has words that are not in the audio
                detail = f"it ends {beyond:.2f} s beyond the end of the recording"
                return Outcome("failed", "filter", OUTSIDE, beyond, MOST_BEYOND, detail)
        rejection = None if utterance.spared else judge(utterance.measures, self._filter_rules)
        if rejection:
            reason, detail = rejection.reason, rejection.detail
            if reason == "damaged":
                detail = self.damage(utterance, cut)
            limit = rejection.value, rejection.threshold
            return Outcome("dropped", "filter", reason, *limit, detail)
        key, measure_all = (start, end, utterance.given), self.job.filter.measure_all
        if cut.lacks(key, self.filters, measure_all):
            return UNMEASURED
        return UNCONVERTED if self._is_chosen(utterance) else clip_choice.NOT_CHOSEN

    @cached_property
    def _choice(self) -> Callable[[clip_choice.Asked], bool] | None:
        package = self.job.package
        return clip_choice.choice(package) if clip_choice.restricts(package) else None

    def _is_chosen(self, utterance: CutUtterance) -> bool:
        """Whether `package.only` and `without` take the clip, by what is known of it now."""
        return self._choice is None or self._choice(clip_choice.of_clip(self.job, utterance))

    def damage(self, utterance: CutUtterance, cut: Cut) -> str:
        return faults.words(cut.faults, utterance.start, utterance.end, cut.rate)

    def resampled(self) -> Iterator[HeardUtterance]:
        """`filtered`, with PCM looked up. Kept utterances with PCM are pending for transcribe, or
        have failed. Dropped ones that share a window with a kept one get PCM, too."""
        for _, group in groupby(self.filtered(), key=lambda u: u.recording["recording"]):
            utterances = list(group)
            windows = {u.window for u in utterances if u.outcome is UNCONVERTED}
            for utterance in utterances:
                kept = utterance.outcome is UNCONVERTED
                for_window = (
                    utterance.outcome.outcome == "dropped"
                    and utterance.window is not None
                    and utterance.window in windows
                )
                row = self.audio.get(utterance.audio) if kept or for_window else None
                outcome = utterance.outcome
                if kept and row:
                    outcome = failed("resample", row) if row["error_code"] else UNHEARD
                measures = utterance.measures
                heard = HeardUtterance(utterance, outcome, measures, for_window, row, row)
                if utterance.enhanced and outcome is UNHEARD:
                    heard = self._beside(heard, self.audio.get(utterance.enhanced))
                if self.writes_sides and heard.outcome is UNHEARD:
                    heard = self._with_sides(heard)
                yield heard

    def _beside(self, utterance: HeardUtterance, row: EnhancedRow | None) -> HeardUtterance:
        return enhanced.beside(self.job, utterance, row)

    @cached_property
    def _text_values(self) -> TextValues:
        return TextValues(self.job)

    @cached_property
    def _mutes(self) -> bool:
        return hidden.mutes(self.job)

    @cached_property
    def _asking(self) -> tuple[text_values.Asking, ...]:
        return text_values.asking(self.job.transcribe)

    def questions(self, utterance: HeardUtterance) -> list[TextQuestion]:
        """Questions of plug-ins on text about an utterance, if it is packaged."""
        row = utterance.transcript
        if not self._asking or row is None or row["error_code"]:
            return []
        whole = final_text(self.job, utterance)[0]
        text = hidden.shown_of(self.job, utterance, whole)
        audio = utterance.pcm["audio"] if utterance.pcm and text == whole else None
        return text_values.questions_about(self._asking, text, audio) if text else []

    def transcribed(self) -> Iterator[FinalUtterance]:
        """`resampled`, with transcripts looked up, then rules on text and decisions by people
        applied. Utterances that lack a result are pending."""
        by_recording = groupby(self.resampled(), key=lambda u: u.cut.recording["recording"])
        for _, group in by_recording:
            utterances = list(group)
            waiting = [u for u in utterances if u.outcome is UNHEARD]
            first, spoken = self._heard(waiting)
            heard = iter(first)
            for utterance in utterances:
                one = next(heard) if utterance.outcome is UNHEARD else utterance
                yield self._final(one, spoken)

    @cached_property
    def _spoken_in(self) -> Spoken:
        return languages_of(self.job)

    def _transcript(self, utterance: HeardUtterance) -> TranscriptRow | None:
        return self.transcripts.get(self.transcript_recipe(utterance))

    def _heard(
        self, waiting: Sequence[HeardUtterance]
    ) -> tuple[list[HeardUtterance], float | None]:
        """The utterances of one recording with their transcripts, and its seconds of speech with
        words; None if it is shorter than LONG_S, or lacks a transcript."""
        by = self.job.transcribe.language_by
        first = hypotheses.first(waiting, self._transcript, by, self._spoken_in)
        return first, self._spoken(first)

    def _spoken(self, heard: Sequence[HeardUtterance]) -> float | None:
        cut = self.cut_of(heard[0].cut.recording) if heard else None
        if cut is None or cut.decoded < LONG_S * cut.rate:
            return None
        seconds = 0.0
        for row in (utterance.transcript for utterance in heard):
            if row is None or (row["text"] and row["speech_seconds"] is None):
                return None
            seconds += row["speech_seconds"] or 0.0 if row["text"] else 0.0
        return seconds

    def _final(self, utterance: HeardUtterance, spoken: float | None) -> FinalUtterance:
        cut, row = utterance.cut, utterance.transcript
        if row is None:
            first = self._recognition(utterance) if utterance.outcome is UNHEARD else ()
            return FinalUtterance(cut, utterance, utterance.outcome, missing=first)
        if row["error_code"]:
            return FinalUtterance(cut, utterance, failed("transcribe", row))
        if further := self._further(utterance, row):
            if missing := self._missing(utterance, further):
                return FinalUtterance(cut, utterance, utterance.outcome, missing=missing)
            rows = [self.transcripts[request.recipe] for request in further]
            utterance = hypotheses.with_others(utterance, rows)

        questions = self.questions(utterance)
        answers = text_values.answers_to(questions, self.transcripts)
        texts = self._text_values.values(utterance, row, spoken, answers)
        outcome = self._outcome_by_text(cut, texts)
        kept = outcome.outcome == "packaged"
        if kept and (missing := self._missing(utterance, questions)):  # an answer may drop it
            return FinalUtterance(cut, utterance, UNHEARD, texts, missing=missing)

        alignments = text_values.alignment(self.job, self.weights, utterance) if kept else ()
        aligned = self._answer(alignments)
        if alignments and text_values.rules_on_fit(self.job.transcribe):
            if missing := self._missing(utterance, alignments):  # a rule may drop it
                return FinalUtterance(cut, utterance, UNHEARD, texts, missing=missing)
            texts = self._text_values.values(utterance, row, spoken, answers, aligned)
            outcome = self._outcome_by_text(cut, texts)
            kept = outcome.outcome == "packaged"

        turns = self.channel_turns(utterance) if kept else ()
        muted = None
        if self._mutes:
            of_turns = requests.heard_turns(turns, cut.start, cut.rate)
            dropped = outcome.outcome == "dropped"
            muted = hidden.silence(self.job, utterance, texts, dropped, of_turns)
        if kept and (muted or turns):
            remarks = [f"muted: {muted}" if muted else "", requests.turn_faults(turns)]
            detail = "; ".join(filter(None, (outcome.detail, *remarks)))
            outcome = outcome._replace(detail=detail)

        rewritings = text_values.rewriting(self.job, utterance) if kept else ()
        rewritten = self._answer(rewritings)
        missing = (
            *self._of_channels(turns),
            *self._missing(utterance, rewritings),
            *self._missing(utterance, alignments if kept else ()),
        )
        outcome = UNHEARD if missing else outcome
        facts = texts, aligned, rewritten, turns, muted, missing
        return FinalUtterance(cut, utterance, outcome, *facts)

    def _missing(
        self, utterance: HeardUtterance, asked: Sequence[Asked]
    ) -> tuple[Request[Asked], ...]:
        pcm = utterance.pcm
        if pcm is None or not asked:
            return ()
        lacking = (one for one in asked if one.recipe not in self.transcripts)
        return tuple(Request(one, pcm, self.shard) for one in lacking)

    def _answer(self, asked: Sequence[Asked]) -> TranscriptRow | None:
        return self.transcripts.get(asked[0].recipe) if asked else None

    def _recognition(self, utterance: HeardUtterance) -> tuple[Request[Asked], ...]:
        cut = utterance.cut
        window = self._window(cut.audio, cut.window)
        wanted = self.transcript_recipe(utterance)
        asked = Recognition(wanted, utterance.forced, cut.reference, window=window)
        return self._missing(utterance, [asked])

    def _window(self, audio: str, window: Window | None) -> WindowAudio | None:
        """The window that the PCM of this recipe shares with others."""
        if window is None:
            return None
        rows = (self.audio.get(member) for member in window.audio)
        usable = tuple(row if row and not row["error_code"] else None for row in rows)
        return WindowAudio(window.audio, usable, window.pauses, window.audio.index(audio))

    def _further(self, utterance: HeardUtterance, row: TranscriptRow) -> list[Recognition]:
        """The requests to further recognisers, which get the clip by itself."""
        chosen = self.job.transcribe
        if not chosen.backends or not hypotheses.asked(chosen, row, utterance.measures):
            return []
        language, reference = utterance.forced, utterance.cut.reference
        return [
            Recognition(wanted, language, reference, number)
            for number, wanted in enumerate(self.further_recipes(utterance), 1)
        ]

    def _of_channels(self, turns: Sequence[ChannelTurn]) -> Iterator[Request[Asked]]:
        """The requests for turns whose own channels have no transcript yet."""
        for turn in turns:
            if turn.unheard and turn.pcm is not None:
                window = self._window(turn.own.audio, turn.own.window)
                asked = Recognition(turn.recipe, turn.language, None, window=window)
                yield Request(asked, turn.pcm, self.shard)

    def _outcome_by_text(self, utterance: CutUtterance, texts: AnyRow) -> Outcome:
        person = utterance.person
        rejection = None if utterance.spared else judge(texts, self._text_rules)
        if rejection:
            detail = rejection.detail or (utterance.decided if utterance.moved else "")
            limit = rejection.value, rejection.threshold
            return Outcome("dropped", "transcribe", rejection.reason, *limit, detail)
        if person is not None and person.decision == "drop":
            return Outcome("dropped", "package", PERSON, detail=person.words)
        return Outcome("packaged", "package", "packaged", detail=utterance.decided)
