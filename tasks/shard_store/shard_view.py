"""One shard under the current settings: its stored results, and its utterances' outcomes by the
rules.

Nothing here computes more than a hash: measures, PCM and transcripts are looked up and limits
applied. Missing results make an utterance pending; a stage computes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain

from .. import scoring
from ..base.errors import shortened
from ..base.schema import RecordingRow, TranscriptRow
from ..plugins.rules import judge
from ..recording import Segment, faults, names, turns
from ..recording.turns import PartTexts
from ..settings.job import Job, Spoken
from . import clip_choice, enhanced, hidden, hypotheses, manifest, recipe, requests, text_values
from .annotated import filter_rules, rules_of, stored_by
from .cuts import MOST_BEYOND, Cut, no_samples, seconds_beyond, segment_of, segments_of
from .recipe import AudioRecipe
from .requests import Asked, Recognition, Request, TextQuestion, Window
from .source_languages import of_job as languages_of
from .stored_shard import StoredShard
from .text_values import TextValues, final_text
from .utterance import PACKAGED, UNCONVERTED, UNHEARD, UNMEASURED, Outcome, Utterance, failed

OUTSIDE = "segment_outside_audio"  # reason of segments outside of the recording
DUPLICATE_SEGMENT = "duplicate_segment"  # reason of a segment that the source gives twice
LONG_S = 60.0  # s; a longer recording may have little speech
PERSON = "person"  # reason of utterances that a person dropped


class ShardView(StoredShard):
    """A shard's stored results, with the outcome of each utterance after each stage."""

    def __init__(
        self,
        job: Job,
        shard: str,
        damaged: manifest.OnDamage = manifest.leave,
        listed: Sequence[RecordingRow] | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(job, shard, damaged, listed, again)
        # What is looked up once for all clips.
        self.filters = job.filter.all_filters
        self._filter_rules = filter_rules(self.filters)
        self._measures, self._kept = set[str](), set[str]()  # of all filters; what else is kept
        for plugin in self.filters:
            self._measures |= stored_by(plugin.use).measures
            self._kept |= stored_by(plugin.use).kept
        package, verdicts = job.package, job.transcribe.verdicts
        self._choice = clip_choice.choice(package) if clip_choice.restricts(package) else None
        self._text_rules = rules_of("text", verdicts)
        self._asking = text_values.asking(job.transcribe)
        self._takes_turns = self._hears_channels or hidden.mutes(job)

    def filtered(self) -> Iterator[Utterance]:
        """Utterances of all cut recordings, each with its outcome after the filter stage."""
        return chain.from_iterable(self._recordings())

    def resampled(self) -> Iterator[Utterance]:
        """`filtered`, with PCM looked up. Kept utterances with PCM are pending for transcribe, or
        have failed. Dropped ones that share a window with a kept one get PCM, too."""
        return chain.from_iterable(map(self._with_pcm, self._recordings()))

    def transcribed(self) -> Iterator[Utterance]:
        """`resampled`, with transcripts looked up, then rules on text and decisions by people
        applied. Utterances that lack a result are pending."""
        for utterances in map(self._with_pcm, self._recordings()):
            waiting = [u for u in utterances if u.outcome is UNHEARD]
            spoken = self._hear(waiting) if waiting else None
            for utterance in waiting:
                self._finish(utterance, spoken)
            yield from utterances

    def _recordings(self) -> Iterator[list[Utterance]]:
        """The utterances of each cut recording, with their outcomes by the filters."""
        for recording in self.processed:
            cut = self.cut_of(recording)
            if cut is None or cut.error_code:
                continue
            given = segments_of(recording)
            utterances = [*self._uttered(recording, cut, given)]
            seen = Counter[str]()
            for utterance in utterances:
                utterance.outcome = self._filter_outcome(utterance, cut)
                if given:
                    seen[utterance.id] += 1
                    if (number := seen[utterance.id]) > 1:
                        # All segments that begin beyond the end are the same empty span.
                        if utterance.start < utterance.end:
                            utterance.outcome = Outcome("failed", "filter", DUPLICATE_SEGMENT)
                        utterance.id += f"_{number}"  # so that an id is that of one row
            yield utterances

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
    ) -> Iterator[Utterance]:
        """The utterances of a cut recording, before its filters; `given`: its `segments_of`."""
        audio_of = recipe.audio_recipes(self.job.resample)(self.contents[recording["recording"]])
        texts, rate, windows = PartTexts(given or ()), cut.rate, self._windows(cut, audio_of)
        stated, named = self.stated_turns(recording), (recording["dataset"], recording["path"])
        # A text for only the first seconds is not the text of the whole recording.
        all_given = given is None or recording["segments"] is not None
        for span in cut.spans:
            if span["kind"] != "utterance":
                continue
            start, end, index, part = span["start"], span["end"], span["given"], span.get("turn")
            key, audio, segment = (start, end, index), audio_of(start, end), None
            if index is not None or span.get("text") is not None:
                segment = segment_of(span, rate, given)
            turn = given[part] if given is not None and part is not None else None
            of_source = segment or turn
            language = of_source.language if of_source else None
            source_id = segment.source_id if segment else None
            utterance = Utterance(
                names.utterance_id(*named, start / rate, end / rate, source_id),
                recording,
                start,
                end,
                rate,
                index,
                cut.measures.get(key, {}),
                audio,
                UNCONVERTED,
                language if language is not None else recording["language"],
                segment,
                turn,
                cut.annotations.get(key, {}),
                all_given and index is None and start == 0 and end == cut.decoded,
            )
            # The source's text for a part of a segment, or for a clip of several turns.
            if part is not None:
                utterance.part_text = texts.between(part, start / rate, end / rate)
            elif stated is not None and (pieces := turns.texts_in_span(stated, start, end, rate)):
                utterance.part_text = " ".join(text for _, _, text in pieces)
            if segment is None and part is None:
                utterance.window = windows.get((start, end))
            if self._enhances:
                utterance.enhanced = enhanced.recipe_of(self.job, audio)
            if (number := span.get("voice")) is not None:
                voices = self.turned(recording)[1] or ()
                utterance.voice = turns.name_of(voices, number, recording["path"])
            if self.people:
                recut = cut.recut.get(key)
                utterance.person = person = self.people.get(utterance.id) or recut
                utterance.spared = person is not None and person.keeps
                utterance.moved = recut is not None
                if recut is not None and index is not None:
                    utterance.part_text = texts.between(index, start / rate, end / rate)
            yield utterance

    def _filter_outcome(self, utterance: Utterance, cut: Cut) -> Outcome:
        if utterance.start >= utterance.end:
            return self._without_samples(utterance, cut)
        segment, spared = utterance.segment, utterance.spared
        if utterance.given is not None and segment is not None and not spared:
            beyond = seconds_beyond(segment, cut)
            if beyond > MOST_BEYOND:  # the text has words that are not in the audio
                detail = f"it ends {beyond:.2f} s beyond the end of the recording"
                return Outcome("failed", "filter", OUTSIDE, beyond, MOST_BEYOND, detail)
        rejection = None if spared else judge(utterance.measures, self._filter_rules)
        if rejection:
            reason, detail = rejection.reason, rejection.detail
            if reason == "damaged":
                detail = self.damage(utterance, cut)
            limit = rejection.value, rejection.threshold
            return Outcome("dropped", "filter", reason, *limit, detail)
        measured = self._measures <= utterance.measures.keys()
        if not (measured and self._kept <= utterance.annotations.keys()):
            key = utterance.start, utterance.end, utterance.given
            if cut.lacks(key, self.filters, self.job.filter.measure_all):
                return UNMEASURED
        # `package.only` and `without`, by what is known of it now.
        if self._choice is None or self._choice(clip_choice.of_clip(self.job, utterance)):
            return UNCONVERTED
        return clip_choice.NOT_CHOSEN

    def _without_samples(self, utterance: Utterance, cut: Cut) -> Outcome:
        """The outcome of an empty span: a segment of the source, or a sentence of a text."""
        segment = utterance.segment
        if utterance.given is not None:
            detail = no_samples(segment, cut) if segment else ""
            return Outcome("failed", "filter", OUTSIDE, detail=detail)
        lost = hidden.shown(self.job, segment.text if segment else None, utterance.language)
        return Outcome("dropped", "filter", "not_in_audio", detail=shortened(lost or ""))

    def damage(self, utterance: Utterance, cut: Cut) -> str:
        return faults.words(cut.faults, utterance.start, utterance.end, cut.rate)

    def _with_pcm(self, utterances: list[Utterance]) -> list[Utterance]:
        """The utterances of one recording, with their PCM."""
        windows = {u.window for u in utterances if u.window and u.outcome is UNCONVERTED}
        for utterance in utterances:
            outcome = utterance.outcome
            if outcome is UNCONVERTED:
                utterance.pcm = utterance.packed = row = self.audio.get(utterance.audio)
                if row is None:
                    continue
                utterance.outcome = failed("resample", row) if row["error_code"] else UNHEARD
                if self._enhances and utterance.outcome is UNHEARD:
                    self._take_enhanced(utterance)
                if self.writes_sides and utterance.outcome is UNHEARD:
                    self._take_sides(utterance)
            elif outcome.outcome == "dropped" and utterance.window in windows:
                utterance.for_window = True
                utterance.pcm = utterance.packed = self.audio.get(utterance.audio)
        return utterances

    def _take_enhanced(self, utterance: Utterance) -> None:
        enhanced.beside(self.job, utterance, self.audio.get(utterance.enhanced or ""))

    def _take_sides(self, utterance: Utterance) -> None:
        rows = [self.audio.get(recipe) for recipe in self.sides(utterance)]
        broken = [failed("resample", row) for row in rows if row and row["error_code"]]
        utterance.outcome = UNCONVERTED if None in rows else next(iter(broken), UNHEARD)
        utterance.sides = tuple(row for row in rows if row)

    @cached_property
    def _text_values(self) -> TextValues:
        return TextValues(self.job)

    def questions(self, utterance: Utterance) -> list[TextQuestion]:
        """Questions of plug-ins on text about an utterance, if it is packaged."""
        row = utterance.transcript
        if not self._asking or row is None or row["error_code"]:
            return []
        whole = final_text(self.job, utterance)[0]
        text = hidden.shown_of(self.job, utterance, whole)
        audio = utterance.pcm["audio"] if utterance.pcm and text == whole else None
        return text_values.questions_about(self._asking, text, audio) if text else []

    @cached_property
    def _spoken_in(self) -> Spoken:
        return languages_of(self.job)

    def _transcript(self, utterance: Utterance) -> TranscriptRow | None:
        """The stored transcript, with its errors counted again if the source's text or the rules
        have changed."""
        row = self.transcripts.get(self.transcript_recipe(utterance))
        if row is None or row["error_code"]:
            return row
        return scoring.scored(row, utterance.reference, utterance.language)

    def _hear(self, waiting: Sequence[Utterance]) -> float | None:
        """Looks up the transcripts of one recording's utterances; returns its seconds of speech
        with words, None if it is shorter than LONG_S, or lacks a transcript."""
        by = self.job.transcribe.language_by
        hypotheses.hear(waiting, self._transcript, by, self._spoken_in)
        cut = self.cut_of(waiting[0].recording) if waiting else None
        if cut is None or cut.decoded < LONG_S * cut.rate:
            return None
        seconds = 0.0
        for row in (utterance.transcript for utterance in waiting):
            if row is None or (row["text"] and row["speech_seconds"] is None):
                return None
            seconds += row["speech_seconds"] or 0.0 if row["text"] else 0.0
        return seconds

    def _finish(self, utterance: Utterance, spoken: float | None) -> None:
        """What becomes of a clip that filters keep. `spoken`: speech with words in its recording,
        s. A step returns False if the later ones have to wait for what is `missing`."""
        row, chosen = utterance.transcript, self.job.transcribe
        if row is None:
            wanted, reference = self.transcript_recipe(utterance), utterance.reference
            window = self.window(utterance.audio, utterance.window)
            asked = Recognition(wanted, utterance.forced, reference, window=window)
            self._ask(utterance, [asked])
        elif row["error_code"]:
            utterance.outcome = failed("transcribe", row)
        else:
            if (
                (not chosen.backends or self._take_others(utterance))
                and self._judge(utterance, spoken)
                and (not chosen.reference_words or self._align(utterance, spoken))
            ):
                if self._takes_turns:
                    self._take_turns(utterance)
                if chosen.llm_text is not None:
                    self._rewrite(utterance)
            if utterance.missing:
                utterance.outcome = UNHEARD

    def _take_others(self, utterance: Utterance) -> bool:
        """Further recognisers get the clip by itself."""
        language, reference = utterance.forced, utterance.reference
        assert utterance.transcript is not None
        if not hypotheses.asked(self.job.transcribe, utterance.transcript, utterance.measures):
            return True
        recipes = enumerate(self.further_recipes(utterance), 1)
        further = [Recognition(one, language, reference, number) for number, one in recipes]
        if (rows := self._ask(utterance, further)) is None:
            return False
        sound = (row for row in rows if not row["error_code"])
        scored = (scoring.scored(row, reference, utterance.language) for row in sound)
        utterance.others = tuple(scored)
        return True

    def _judge(self, utterance: Utterance, spoken: float | None) -> bool:
        """Values of the rules on text, with models' answers, and the outcome by these."""
        questions = self.questions(utterance)
        answers: dict[str, dict[str, str | None]] = {}  # stored ones, by plug-in and key
        for one in questions:
            if (row := self.transcripts.get(one.recipe)) is not None:
                answers.setdefault(one.plugin.use, {})[one.question.key] = row["text"]
        utterance.texts = self._text_values.values(utterance, spoken, answers)
        utterance.outcome = self._outcome_by_text(utterance)
        if not questions or utterance.outcome.outcome != "packaged":
            return True
        return self._ask(utterance, questions) is not None  # an answer may drop it

    def _align(self, utterance: Utterance, spoken: float | None) -> bool:
        if utterance.outcome.outcome != "packaged":
            return True
        alignments = text_values.alignment(self.job, self.weights, utterance)
        rows = self._ask(utterance, alignments)
        utterance.aligned = rows[0] if rows else None
        if not alignments or not text_values.rules_on_fit(self.job.transcribe):
            return True
        return rows is not None and self._judge(utterance, spoken)  # a rule may drop it

    def _take_turns(self, utterance: Utterance) -> None:
        """Turns that are transcribed from their own channels, and muted words."""
        outcome = utterance.outcome
        kept = self.channel_turns(utterance) if outcome.outcome == "packaged" else ()
        utterance.in_channels = kept
        utterance.missing += tuple(self.requests_of(kept))
        of_turns = requests.heard_turns(kept, utterance.start, utterance.rate)
        utterance.muted = hidden.silence(self.job, utterance, of_turns)
        if outcome.outcome == "packaged":
            muted = f"muted: {utterance.muted}" if utterance.muted else ""
            remarks = filter(None, (outcome.detail, muted, requests.turn_faults(kept)))
            utterance.outcome = outcome._replace(detail="; ".join(remarks))

    def _rewrite(self, utterance: Utterance) -> None:
        if utterance.outcome.outcome == "packaged":
            rows = self._ask(utterance, text_values.rewriting(self.job, utterance))
            utterance.rewritten = rows[0] if rows else None

    def _ask(self, utterance: Utterance, asked: Sequence[Asked]) -> list[TranscriptRow] | None:
        """The stored answers; None if some are `missing`, which is noted."""
        assert utterance.pcm is not None
        lacking = [one for one in asked if one.recipe not in self.transcripts]
        utterance.missing += tuple(Request(one, utterance.pcm, self.shard) for one in lacking)
        return None if lacking else [self.transcripts[one.recipe] for one in asked]

    def _outcome_by_text(self, utterance: Utterance) -> Outcome:
        person = utterance.person
        rejection = None if utterance.spared else judge(utterance.texts, self._text_rules)
        if rejection:
            detail = rejection.detail or (utterance.decided if utterance.moved else "")
            limit = rejection.value, rejection.threshold
            return Outcome("dropped", "transcribe", rejection.reason, *limit, detail)
        if person is not None and person.decision == "drop":
            return Outcome("dropped", "package", PERSON, detail=person.words)
        return PACKAGED if person is None else PACKAGED._replace(detail=utterance.decided)
