"""Input of the rules on text: the chosen text, and numbers derived from a transcript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from .. import plugins
from ..base.schema import AnyRow, TranscriptRow, WordRow
from ..plugins import annotation_kinds
from ..plugins.annotation_kinds import Annotations, Event, Events, Label
from ..plugins.contracts.text import ScoredTranscript, words
from ..scoring.cleaning import wordless
from ..scoring.normalisers import base
from ..scoring.said import said
from ..settings import Plugin
from ..settings.job import Job
from . import hidden, hypotheses
from .chosen_rules import text_plugins
from .utterance import HeardUtterance


def final_text(job: Job, utterance: HeardUtterance) -> tuple[str, str]:
    """(text to train on, `reference` or `asr`). With `reference_if_close` but without a transcript,
    it is the reference."""
    reference, spoken = utterance.cut.reference, hypotheses.spoken(job, utterance)
    if reference and utterance.cut.person is not None and utterance.cut.person.text:
        return reference, "reference"
    wanted = job.transcribe.text
    heard = utterance.transcript
    if reference and wanted == "reference_if_close" and spoken is not None and heard is not None:
        wer = _rate(heard["word_errors"], heard["words"])
        wanted = "reference" if wer is not None and wer <= job.transcribe.close_wer else "asr"
    if reference and wanted != "asr":
        return reference, "reference"
    return str(spoken or ""), "asr"


def compared(job: Job, utterance: HeardUtterance, text: str, source: str) -> str | None:
    """The normalised `final_text` of a transcribed utterance; None without one."""
    heard = utterance.transcript
    assert heard is not None
    if source == "asr" and job.transcribe.asr != "first" and utterance.others:
        return hypotheses.compared(utterance, text)
    return heard["reference_normalised" if source == "reference" else "normalised"]


def text_columns(chosen: tuple[Plugin, ...]) -> dict[str, tuple[str, str]]:
    """(unit, meaning) of the columns that the chosen plug-ins on text compute, by name."""
    return {
        name: about
        for plugin in chosen
        for name, about in plugins.columns("text", plugin.use).items()
    }


#: Stored answers of models, by plug-in and key.
Answers = Mapping[str, Mapping[str, str | None]]
SOURCE = "text_source"  # the key of the chosen text's origin


class TextValues:
    """The values that rules on text limit: the transcript's columns, those derived from them, and
    the measures of the chosen plug-ins. Plug-ins are looked up once for all utterances."""

    def __init__(self, job: Job) -> None:
        self._job = job
        #: Whether the recogniser's text depends on the audio.
        self._listens = plugins.ASR.load(job.transcribe.backend.use).LISTENS
        resolved = text_plugins(job.transcribe.verdicts)
        annotating = {
            use for use, m, chosen in resolved if m.annotates(chosen) and m.labelled is None
        }
        self._measures = [
            (module.measure, settings)
            for use, module, settings in resolved
            if module.COLUMNS and use not in annotating
        ]
        self._annotating = [
            (use, module.annotates(settings), module, settings)
            for use, module, settings in resolved
            if use in annotating
        ]

    def values(
        self,
        utterance: HeardUtterance,
        row: TranscriptRow,
        spoken: float | None = None,
        answers: Answers = MappingProxyType({}),
        aligned: TranscriptRow | None = None,
    ) -> AnyRow:
        """Values by column. `row`: the transcript; `spoken`: speech with words in the whole
        recording, s, used unless the source gives the segments; `aligned`: the source's text with
        the times of its words."""
        cut, (text, source) = utterance.cut, final_text(self._job, utterance)
        wer = _rate(row["word_errors"], row["words"])
        cer = _rate(row["char_errors"], row["chars"])
        probability = _language_probability(utterance, row)
        aligned_words = (aligned and aligned.get("word_times")) or ()
        heard = ScoredTranscript(
            text,
            source,
            cut.seconds,
            row["text"],
            cut.reference,
            row["normalised"],
            row["reference_normalised"],
            row["language"],
            probability,
            row["avg_logprob"],
            row["no_speech_probability"],
            row["compression_ratio"],
            wer,
            cer,
            tuple(hypotheses.texts(utterance)) if utterance.others else (),
            None if (timed := row.get("word_times")) is None else tuple(w["word"] for w in timed),
            self._listens and row["text"] is not None,
            None if aligned is None else tuple(one["probability"] for one in aligned_words),
        )
        values = {
            **row,
            "text": text,
            SOURCE: source,
            "text_chars": len(text.strip()),
            "words": _words(utterance, row, text, source),
            "wer": wer,
            "cer": cer,
            "language_probability": probability,
            "recording_speech": None if cut.segment or cut.turn else spoken,
            **_derived(utterance, row),
        }
        for measure, settings in self._measures:
            values.update(measure(heard, settings))
        for use, declared, module, settings in self._annotating:
            answered = replace(heard, answers=answers[use]) if use in answers else heard
            who, measured = f"the plug-in on text {use}", module.measure(answered, settings)
            taken = annotation_kinds.take(who, declared, measured, heard.seconds)
            remarks = {**taken.numbers, **taken.labels, **taken.large}
            if hidden.hides(self._job):
                rewritten = text if module.REWRITES else None
                remarks |= self._masked(declared, remarks, row["language"], rewritten)
            values |= remarks
        return values

    def _masked(
        self,
        declared: Annotations,
        given: Mapping[str, Any],
        language: str | None,
        rewritten: str | None,
    ) -> dict[str, object]:
        """Annotations that may contain parts of a text, with hidden words masked. `rewritten`: a
        text that they say in another form; they are null if something in it is hidden."""
        if rewritten is not None:
            hides = hidden.places(self._job, rewritten, language, True)
            return dict.fromkeys(declared) if hides else {}
        masked: dict[str, object] = {}
        for name, kind in declared.items():
            value = given[name]
            if isinstance(kind, Label) and kind.values is None:
                spots = hidden.places(self._job, value or "", language, True)
                masked[name] = hidden.masked(value, spots) if spots else value
            elif isinstance(kind, Events) and kind.labels is None and value:
                words: list[WordRow] = [
                    {"word": label, "start": start, "end": end, "probability": score}
                    for start, end, label, score in value
                ]
                masked[name] = [
                    Event(word["start"], word["end"], word["word"], word["probability"])
                    for word in hidden.words(self._job, words, language, True) or ()
                ]
        return masked


#: Numeric columns derived from a transcript and from the others of its recording.
DERIVED = ("words_per_speech_second", "language_vote")


def _language_probability(utterance: HeardUtterance, row: TranscriptRow) -> float | None:
    """The higher of the clip's own probability of its language and its recording's."""
    vote, probability = utterance.vote, row["language_probability"]
    elected = vote.language if vote else None
    if probability is None or vote is None or elected is None or row["language"] != elected:
        return probability
    return max(probability, vote.shares[elected])


def _derived(utterance: HeardUtterance, row: TranscriptRow) -> dict[str, float | None]:
    """`DERIVED`, and the probability of a detected language that the source contradicts."""
    spoken, text = row.get("speech_seconds"), row["text"]
    vote, stated, detected = utterance.vote, utterance.cut.language, row.get("detected_language")
    contradicted = stated and detected and base(stated) != detected
    return {
        "words_per_speech_second": len(words(said(text, row["language"]))) / spoken
        if text and spoken
        else None,
        "language_vote": vote.shares.get(row["language"] or "", 0.0) if vote else None,
        "language_contradiction": row.get("detected_probability") if contradicted else None,
    }


def _words(utterance: HeardUtterance, row: TranscriptRow, text: str, source: str) -> int | None:
    """The number of words of the reference: 0 for a text without words, None for a text that
    normalises to nothing, such as "um"."""
    likely = base(utterance.cut.language or row["language"] or "")
    return 0 if source == "reference" and wordless(text, likely) else row["words"] or None


def _rate(errors: int | None, total: int | None) -> float | None:
    return None if errors is None or not total else errors / total
