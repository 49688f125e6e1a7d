"""What is known of one shard under today's settings: the verdicts are a view over the manifests.

Nothing is computed here that costs more than a hash: measures, PCM and transcripts are looked up by
recipe, thresholds are applied, and what is not there yet is what a stage still has to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from types import ModuleType
from typing import Any

from tasks import plugins, recipe, scoring
from tasks.checkpoints import blobs, language_vote, manifest
from tasks.checkpoints.manifest import Row
from tasks.job import Job
from tasks.plugins.rules import Rule, judge
from tasks.recording import Segment, faults, ids
from tasks.recording.faults import Fault
from tasks.scoring.normalisers import base
from tasks.settings import Plugin
from tasks.text import Heard, words


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a span ends. `outcome`: packaged, dropped, failed; or pending (stage still to run)."""

    outcome: str
    stage: str
    reason: str = ""
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


Key = tuple[int, int, int | None]  # start, end, index of the source's segment


@dataclass(slots=True)
class Cut:
    """One recording after the filter stage: its decoded length, its spans, what was measured."""

    decoded: int = 0
    rate: int = 0
    channels: int = 0
    error_code: str | None = None
    error_detail: str | None = None
    faults: tuple[Fault, ...] = ()
    known: bool = False  # the row of kind `recording` was read
    spans: list[Row] = field(default_factory=list)
    measures: dict[Key, dict[str, float | None]] = field(default_factory=dict)
    prints: dict[Key, dict[str, bytes]] = field(default_factory=dict)

    def lacks(self, key: Key, filters: Iterable[Plugin], measure_all: bool) -> tuple[Plugin, ...]:
        """Filters whose measures of the utterance have still to be taken: not the costly ones
        (unless `measure_all`) of an utterance that a cheap one rejects."""
        chosen = tuple(filters)
        known = self.measures.get(key, {})
        prints = self.prints.get(key, {})
        missing = []
        for plugin in chosen:
            module = plugins.load("filters", plugin.use)
            taken = set(module.COLUMNS) <= set(known)
            taken = taken and (not hasattr(module, "fingerprint") or plugin.use in prints)
            if not taken:
                missing.append(plugin)
        if (
            measure_all
            or not any(map(costly, missing))
            or judge(known, cheap_rules(chosen)) is None
        ):
            return tuple(missing)
        return tuple(plugin for plugin in missing if not costly(plugin))


@dataclass
class Utterance:
    """One utterance span with all that is known of it."""

    recording: Row
    start: int
    end: int
    rate: int
    given: int | None
    measures: dict[str, float | None]
    audio: str  # recipe of its PCM
    outcome: Outcome
    segment: Segment | None = None
    turn: Segment | None = None  # the source's segment that it is a part of
    prints: dict[str, bytes] = field(default_factory=dict)
    whole: bool = False  # the utterance is the whole recording
    pcm: Row | None = None
    heard: Row | None = None
    voted: str | None = None  # language of the recording, where it overrules what was detected
    vote: language_vote.Vote | None = None  # of its recording
    texts: dict[str, Any] = field(default_factory=dict)  # `text_values`, where it was heard

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / self.rate

    def _stated(self, name: str) -> str | None:
        """What the source states: of the segment, else of the whole recording."""
        segment = self.segment or self.turn
        own = getattr(segment, name) if segment else None
        stated: str | None = own if own is not None else self.recording[name]
        return stated

    @property
    def source_id(self) -> str | None:
        own = self.segment.source_id if self.segment else None
        stated: str | None = own if own is not None else self.recording["source_id"]
        return stated

    @property
    def speaker(self) -> str | None:
        return self._stated("speaker")

    @property
    def language(self) -> str | None:
        return self._stated("language")

    @property
    def forced(self) -> str | None:
        """Language that the recogniser is told."""
        return self.language or self.voted

    @cached_property
    def reference(self) -> str | None:
        """Text that the source gives for exactly this span, clean: a recording's text is the text
        of an utterance only where the utterance is the whole recording."""
        if self.segment is not None:
            return scoring.clean(self.segment.text or "") or None
        return scoring.clean(self.recording["text"] or "") or None if self.whole else None

    @cached_property
    def id(self) -> str:
        start, end = self.start / self.rate, self.end / self.rate
        key = self.segment.source_id if self.segment else None
        return ids.utterance_id(self.recording["dataset"], self.recording["path"], start, end, key)


def costly(plugin: Plugin) -> bool:
    """Whether a filter takes so long that it is spared for what cheap ones reject."""
    return bool(getattr(plugins.load("filters", plugin.use), "COSTLY", False))


def filter_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all filters, those of cheap ones first: what rejects a row does not depend on
    whether the costly measures of it were spared."""
    return rules_of("filters", tuple(sorted(chosen, key=costly)))


def cheap_rules(chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    return rules_of("filters", tuple(p for p in chosen if not costly(p)))


@lru_cache(maxsize=64)
def rules_of(shelf: str, chosen: tuple[Plugin, ...]) -> tuple[Rule, ...]:
    """Rules of all chosen plug-ins of a shelf, in the order of the settings."""
    rules: list[Rule] = []
    for plugin in chosen:
        module, settings = plugins.resolve(shelf, plugin)
        rules.extend(module.verdict(settings))
    return tuple(rules)


def segments_of(recording: Row) -> tuple[Segment, ...] | None:
    given = recording["segments"]
    return None if given is None else tuple(Segment(**s) for s in given)


def final_text(job: Job, utterance: Utterance) -> tuple[str, str]:
    """(text to train on, `reference` or `asr`). Where nobody listened, a reference is close."""
    heard = utterance.heard or {}
    reference, spoken = utterance.reference, heard.get("text")
    wanted = job.transcribe.text
    if reference and wanted == "reference_if_close" and spoken is not None:
        wer = _rate(heard["word_errors"], heard["words"])
        wanted = "reference" if wer is not None and wer <= job.transcribe.close_wer else "asr"
    if reference and wanted != "asr":
        return reference, "reference"
    return str(spoken or ""), "asr"


def text_columns(verdicts: tuple[Plugin, ...]) -> dict[str, tuple[str, str]]:
    """(unit, meaning) of all columns that the chosen verdicts on text work out, by name."""
    return {
        name: about
        for plugin in verdicts
        for name, about in getattr(plugins.load("text", plugin.use), "COLUMNS", {}).items()
    }


def listens(job: Job) -> bool:
    """Whether the recogniser's texts say anything about the audio."""
    return bool(getattr(plugins.load("asr", job.transcribe.backend.use), "LISTENS", True))


def text_values(
    job: Job, utterance: Utterance, measures: Iterable[tuple[ModuleType, Any]]
) -> dict[str, Any]:
    """What the verdicts on text are taken from: the transcript's columns and what follows, by the
    plug-ins of `measures` with their settings."""
    assert utterance.heard is not None
    row = utterance.heard
    text, source = final_text(job, utterance)
    wer = _rate(row["word_errors"], row["words"])
    cer = _rate(row["char_errors"], row["chars"])
    probability = _language_probability(utterance)
    heard = Heard(
        text, source, utterance.seconds, row["text"], utterance.reference, row["normalised"],
        row["reference_normalised"], row["language"], probability,
        row["avg_logprob"], row["no_speech_probability"], row["compression_ratio"], wer, cer,
        listens(job) and row["text"] is not None,
    )  # fmt: skip
    values = {
        **row,
        "text": text,
        "text_chars": len(text.strip()),
        "wer": wer,
        "cer": cer,
        "language_probability": probability,
        **_derived(utterance),
    }
    for module, settings in measures:
        values.update(module.measure(heard, settings))
    return values


#: Columns that follow from a transcript and from its recording's others; all are numbers.
DERIVED = ("words_per_speech_second", "language_vote")


def _language_probability(utterance: Utterance) -> float | None:
    """Probability of a clip's language as verdicts see it: its own, or its recording's if more."""
    row, vote = utterance.heard or {}, utterance.vote
    own: float | None = row["language_probability"]
    elected = vote.language if vote else None
    if own is None or vote is None or elected is None or row["language"] != elected:
        return own
    return max(own, vote.shares[elected])


def _derived(utterance: Utterance) -> dict[str, float | None]:
    """`DERIVED`, and how sure the recogniser is of another language than the source states."""
    row = utterance.heard or {}
    spoken, text = row.get("speech_seconds"), row["text"]
    vote, stated, detected = utterance.vote, utterance.language, row.get("detected_language")
    contradicted = stated and detected and base(stated) != detected
    return {
        "words_per_speech_second": len(words(text)) / spoken if text and spoken else None,
        "language_vote": vote.shares.get(row["language"], 0.0) if vote else None,
        "language_contradiction": row.get("detected_probability") if contradicted else None,
    }


class ShardView:
    """The manifests of one shard, joined lazily by recipe. `strict`: a damaged one is no gap that
    somebody fills, but raised as CorruptManifest."""

    def __init__(self, job: Job, shard: str, weights: str = "", strict: bool = False) -> None:
        self.job, self.shard, self.weights, self.strict = job, shard, weights, strict
        self.lost: dict[str, str] = {}  # recipes of PCM that was made, and the blob that lacks it

    def _parts(self, stage: str) -> list[manifest.Part]:
        return manifest.read(self.job.out, stage, self.shard, self.strict)

    @cached_property
    def recordings(self) -> list[Row]:
        """Recordings of the shard that are in their source now, in listing order; of a sample,
        only those that it holds."""
        parts = self._parts("shard")
        rows = parts[-1].table.to_pylist() if parts else []
        only = self.job.only
        return [r for r in rows if r["present"] and (only is None or r["recording"] in only)]

    def cut_recipe(self, recording: Row) -> str:
        return recipe.of_cut(
            self.job.filter.segmenter, recording["content"], segments_of(recording)
        )

    @cached_property
    def wanted(self) -> dict[str, str]:
        """Filters asked for, with the recipes of their measures."""
        return {p.use: recipe.of_plugin("filters", p) for p in self.job.filter.filters}

    @cached_property
    def cuts(self) -> dict[str, Cut]:
        """Everything the filter stage stored for the shard, by recipe of the cut."""
        found: dict[str, Cut] = {}
        for part in self._parts("filter"):
            stored = part.meta["measures"]
            usable = {use for use, wanted in self.wanted.items() if stored.get(use) == wanted}
            # A failure may be a filter's: it stands while every filter that was measured then is
            # asked for, and is tried again when one of them is not.
            _merge(found, part.table.to_pylist(), usable, usable == set(stored))
        return found

    @cached_property
    def audio(self) -> dict[str, Row]:
        """PCM rows whose blob is there, by recipe; rows of failures too."""
        sizes: dict[str, int] = {}
        found: dict[str, Row] = {}
        for part in self._parts("resample"):
            for row in part.table.to_pylist():
                if row["error_code"] or blobs.present(self.job.out, self.shard, row, sizes):
                    found[row["audio"]] = row
                else:
                    self.lost[row["audio"]] = row["blob"]
        return found

    @cached_property
    def transcripts(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for part in self._parts("transcribe"):
            for row in part.table.to_pylist():
                found.setdefault(row["transcript"], row)  # once stored, a text is the truth
        return found

    def transcript_recipe(self, utterance: Utterance) -> str:
        return recipe.of_transcript(
            self.job.transcribe, self.weights, utterance.audio, utterance.forced
        )

    def filtered(self) -> Iterator[Utterance]:
        """Utterances of all cut recordings with the filter stage's verdict on each."""
        rules = filter_rules(self.job.filter.filters)
        for recording in self.recordings:
            if recording["error_code"]:
                continue
            cut = self.cuts.get(self.cut_recipe(recording))
            if cut is None or cut.error_code:
                continue
            given = segments_of(recording)
            seen: set[str] = set()
            for span in cut.spans:
                if span["kind"] == "utterance":
                    utterance = self._utterance(recording, cut, span, given, rules)
                    if given and utterance.id in seen:
                        utterance.outcome = Outcome("failed", "filter", "duplicate_segment")
                    seen.add(utterance.id)
                    yield utterance

    def _utterance(
        self,
        recording: Row,
        cut: Cut,
        span: Row,
        given: tuple[Segment, ...] | None,
        rules: tuple[Rule, ...],
    ) -> Utterance:
        start, end, index = span["start"], span["end"], span["given"]
        measures = cut.measures.get((start, end, index), {})
        chosen = self.job.filter
        whole = index is None and start == 0 and end == cut.decoded
        audio = recipe.of_audio(self.job.resample, recording["content"], start, end)
        segment = given[index] if given is not None and index is not None else None
        if start >= end:
            outcome = Outcome("failed", "filter", "segment_outside_audio")
        elif no := judge(measures, rules):
            detail = no.detail
            if no.reason == "damaged":
                detail = faults.words(cut.faults, start, end, cut.rate)
            outcome = Outcome("dropped", "filter", no.reason, no.value, no.threshold, detail)
        elif cut.lacks((start, end, index), chosen.filters, chosen.measure_all):
            outcome = Outcome("pending", "filter")
        else:
            outcome = Outcome("pending", "resample")
        part_of = span.get("turn")
        turn = given[part_of] if given is not None and part_of is not None else None
        return Utterance(
            recording, start, end, cut.rate, index, measures, audio, outcome, segment, turn,
            cut.prints.get((start, end, index), {}), whole,
        )  # fmt: skip

    def resampled(self) -> Iterator[Utterance]:
        """The same with PCM looked up; kept ones are pending for transcribe, or failed."""
        for utterance in self.filtered():
            if utterance.outcome == Outcome("pending", "resample"):
                row = self.audio.get(utterance.audio)
                utterance.pcm = row
                if row and row["error_code"]:
                    utterance.outcome = _failed("resample", row)
                elif row:
                    utterance.outcome = Outcome("pending", "transcribe")
            yield utterance

    @cached_property
    def text_measures(self) -> tuple[tuple[ModuleType, Any], ...]:
        """The verdicts on text that work out columns of their own, with their settings."""
        chosen = [plugins.resolve("text", plugin) for plugin in self.job.transcribe.verdicts]
        return tuple((module, own) for module, own in chosen if hasattr(module, "measure"))

    def decided(self) -> Iterator[Utterance]:
        """The same with transcripts and the verdicts on text; what is missing is pending."""
        rules = rules_of("text", self.job.transcribe.verdicts)
        by_recording = groupby(self.resampled(), key=lambda u: u.recording["recording"])
        for _, group in by_recording:
            utterances = list(group)
            self._hear(utterances)
            for utterance in utterances:
                row = utterance.heard
                if row and row["error_code"]:
                    utterance.outcome = _failed("transcribe", row)
                elif row:
                    utterance.outcome = self._verdict_on_text(utterance, rules)
                yield utterance

    def _hear(self, utterances: list[Utterance]) -> None:
        """Look up the transcripts of one recording, and the language that most of it is in.

        The vote is taken when all clips were heard, so that it does not depend on their order."""
        waiting = [u for u in utterances if u.outcome == Outcome("pending", "transcribe")]
        for utterance in waiting:
            self._look_up(utterance)
        if self.job.transcribe.language_by == "clip" or any(u.heard is None for u in waiting):
            return
        sound = [u for u in waiting if u.heard and not u.heard["error_code"]]
        vote = language_vote.count((u.heard or {}, u.seconds) for u in sound)
        for utterance in sound if vote else ():
            assert vote is not None
            assert utterance.heard is not None
            utterance.vote = vote
            if not utterance.language and vote.overrules(utterance.heard, utterance.seconds):
                utterance.voted = vote.language
                self._look_up(utterance)

    def _look_up(self, utterance: Utterance) -> None:
        row = self.transcripts.get(self.transcript_recipe(utterance))
        if row and not row["error_code"]:
            # Counted again where the source's text or the rules changed; nothing is heard.
            row = scoring.scored(row, utterance.reference, utterance.language)
        utterance.heard = row

    def _verdict_on_text(self, utterance: Utterance, rules: tuple[Rule, ...]) -> Outcome:
        utterance.texts = text_values(self.job, utterance, self.text_measures)
        no = judge(utterance.texts, rules)
        if no:
            return Outcome("dropped", "transcribe", no.reason, no.value, no.threshold, no.detail)
        return Outcome("packaged", "package", "packaged")


def _failed(stage: str, row: Row) -> Outcome:
    return Outcome("failed", stage, row["error_code"], detail=row["error_detail"] or "")


def _rate(errors: int | None, total: int | None) -> float | None:
    return None if errors is None or not total else errors / total


def _merge(found: dict[str, Cut], rows: list[Row], usable: set[str], failures_stand: bool) -> None:
    """Add the rows of one part to the cuts known so far; the first cuts of a recipe stand."""
    columns = {c for use in usable for c in plugins.load("filters", use).COLUMNS}
    rows = [row for row in rows if failures_stand or not row["error_code"]]
    fresh = {row["cut"] for row in rows if row["kind"] == "recording"}
    fresh -= {name for name, cut in found.items() if cut.known}
    first: dict[str, str] = {}  # equal files have one recipe: the spans of the first are taken
    for row in rows:
        if first.setdefault(row["cut"], row["recording"]) != row["recording"]:
            continue
        if row["error_code"] and row["cut"] not in fresh:  # a filter that was asked for later
            cut = found[row["cut"]]
            cut.error_code, cut.error_detail = row["error_code"], row["error_detail"]
            continue
        cut = found.setdefault(row["cut"], Cut())
        if row["cut"] in fresh:
            if row["kind"] == "recording":
                cut.known = True
                cut.decoded, cut.rate, cut.channels = row["decoded"], row["rate"], row["channels"]
                cut.error_code, cut.error_detail = row["error_code"], row["error_detail"]
                cut.faults = tuple(Fault(**fault) for fault in row.get("faults") or ())
            else:
                cut.spans.append(row)
        if row["kind"] == "utterance":
            measured = {k: v for k, v in (row["measures"] or []) if k in columns}
            known = cut.measures.setdefault((row["start"], row["end"], row["given"]), {})
            known.update(measured)
            prints = cut.prints.setdefault((row["start"], row["end"], row["given"]), {})
            prints.update((k, v) for k, v in row.get("prints") or [] if k in usable)
