"""Input of the rules on text: the chosen text, and numbers derived from a transcript."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from .. import plugins
from ..base.schema import AnyRow, TranscriptRow, WordRow
from ..plugins import annotation_kinds
from ..plugins.annotation_kinds import Annotations, Event, Events, Label
from ..plugins.contracts.text import Question, ScoredTranscript, TextVerdict, words
from ..scoring import scripts
from ..scoring.cleaning import wordless
from ..scoring.normalisers import base
from ..scoring.said import said
from ..settings import Plugin, StageSettings, TranscribeSettings
from ..settings.job import Job
from . import hidden, hypotheses, recipe
from .annotated import text_plugins
from .requests import Alignment, Rewriting, TextQuestion
from .utterance import Utterance


def final_text(job: Job, utterance: Utterance) -> tuple[str, str]:
    """(text to train on, `reference` or `asr`). With `reference_if_close` but without a transcript,
    it is the reference."""
    reference, spoken = utterance.reference, hypotheses.spoken(job, utterance)
    if reference and utterance.person is not None and utterance.person.text:
        return reference, "reference"
    wanted = job.transcribe.text
    heard = utterance.transcript
    if reference and wanted == "reference_if_close" and spoken is not None and heard is not None:
        wer = _rate(heard["word_errors"], heard["words"])
        wanted = "reference" if wer is not None and wer <= job.transcribe.close_wer else "asr"
    if reference and wanted != "asr":
        return reference, "reference"
    return str(spoken or ""), "asr"


def compared(job: Job, utterance: Utterance, text: str, source: str) -> str | None:
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
NO_ANSWERS: Answers = MappingProxyType({})
SOURCE = "text_source"  # the key of the chosen text's origin


#: Numbers that every rule may limit, besides `language` and its own columns.
SHARED_COLUMNS = (
    *("text_chars", "wer", "cer", "language_probability", "avg_logprob"),
    *("no_speech_probability", "compression_ratio", "speech_after_text"),
    "speech_without_words",
    *("words_per_speech_second", "language_vote", "language_contradiction", "recording_speech"),
)


class TextValues:
    """The values that rules on text limit: the transcript's columns, those derived from them, and
    the measures of the chosen plug-ins. Plug-ins are looked up once for all utterances."""

    def __init__(self, job: Job) -> None:
        self._job = job
        #: Whether the recogniser's text depends on the audio.
        self._listens = plugins.ASR.load(job.transcribe.backend.use).LISTENS
        self._measures: list[tuple[TextVerdict, StageSettings]] = []
        self._annotating: list[tuple[str, Annotations, TextVerdict, StageSettings]] = []
        for use, module, settings in text_plugins(job.transcribe.verdicts):
            declared = module.annotates(settings)
            if declared and module.labelled is None:
                self._annotating.append((use, declared, module, settings))
            elif module.COLUMNS:
                self._measures.append((module, settings))

    def values(
        self, utterance: Utterance, spoken: float | None = None, answers: Answers = NO_ANSWERS
    ) -> AnyRow:
        """Values by column, of a transcribed utterance. `spoken`: speech with words in the
        recording, s, used unless the source gives the segments."""
        row, aligned = utterance.transcript, utterance.aligned
        assert row is not None
        text, source = final_text(self._job, utterance)
        wer = _rate(row["word_errors"], row["words"])
        cer = _rate(row["char_errors"], row["chars"])
        probability = _language_probability(utterance, row, text if source == "asr" else "")
        aligned_words = (aligned and aligned.get("word_times")) or ()
        heard = ScoredTranscript(
            text,
            source,
            utterance.seconds,
            row["text"],
            utterance.reference,
            row["normalised"],
            row["reference_normalised"],
            row["language"],
            probability,
            row["avg_logprob"],
            row["no_speech_probability"],
            row["compression_ratio"],
            row.get("text_probability"),
            wer,
            cer,
            tuple(hypotheses.texts(utterance)) if utterance.others else (),
            None if (timed := row.get("word_times")) is None else tuple(w["word"] for w in timed),
            self._listens and row["text"] is not None,
            None if aligned is None else tuple(one["probability"] for one in aligned_words),
        )
        voiced, vote, detected = row["speech_seconds"], utterance.vote, row.get("detected_language")
        stated = utterance.language
        contradicted = stated and detected and base(stated) != detected
        heard_words = 0
        if row["text"] and voiced:
            same = row["text"] == text
            heard_words = len(heard.spoken if same else words(said(row["text"], row["language"])))
        values = {
            **row,
            "text": text,
            SOURCE: source,
            "text_chars": len(text.strip()),
            "words": _words(utterance, row, text, source),
            "wer": wer,
            "cer": cer,
            "language_probability": probability,
            "recording_speech": None if utterance.segment or utterance.turn else spoken,
            "words_per_speech_second": heard_words / voiced if row["text"] and voiced else None,
            "language_vote": vote.shares.get(row["language"] or "", 0.0) if vote else None,
            # The probability of a detected language that the source contradicts.
            "language_contradiction": row.get("detected_probability") if contradicted else None,
        }
        for module, settings in self._measures:
            values.update(module.measure(heard, settings))
        if self._annotating:
            values |= self._annotations(heard, answers)
        return values

    def _annotations(self, heard: ScoredTranscript, answers: Answers) -> dict[str, object]:
        annotations: dict[str, object] = {}
        for use, declared, module, settings in self._annotating:
            answered = replace(heard, answers=answers[use]) if use in answers else heard
            who, measured = f"the plug-in on text {use}", module.measure(answered, settings)
            taken = annotation_kinds.take(who, declared, measured, heard.seconds)
            annotations |= {**taken.numbers, **taken.labels, **taken.large}
            if hidden.hides(self._job):
                rewritten = heard.text if module.REWRITES else None
                annotations |= self._masked(declared, annotations, heard.language, rewritten)
        return annotations

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


def _language_probability(utterance: Utterance, row: TranscriptRow, text: str = "") -> float | None:
    """The higher of the clip's own probability of its language and its recording's; 0 if a `text`
    that was heard is in a script in which its language is not written."""
    if not scripts.fits(text, row["language"]):
        return 0.0
    vote, probability = utterance.vote, row["language_probability"]
    elected = vote.language if vote else None
    if probability is None or vote is None or elected is None or row["language"] != elected:
        return probability
    return max(probability, vote.shares[elected])


def _words(utterance: Utterance, row: TranscriptRow, text: str, source: str) -> int | None:
    """The number of words of the reference: 0 for a text without words, None for a text that
    normalises to nothing, such as "um"."""
    likely = base(utterance.language or row["language"] or "")
    return 0 if source == "reference" and wordless(text, likely) else row["words"] or None


def _rate(errors: int | None, total: int | None) -> float | None:
    return None if errors is None or not total else errors / total


# What models are asked about an utterance that would be packaged: questions of plug-ins about its
# text, the times of the words of its source's text, and to rewrite its text.
#
# A language model gets only texts without the words that `pii` hides. Answers are looked up by
# text, whoever spoke it; those of a model that gets the clip also by its samples. A text is
# rewritten after all other steps, unless a person wrote it. The text to align is the reference,
# whichever text is packaged (words of a hypothesis have the recogniser's own times), in the
# recognised language.


#: A chosen plug-in on text, its version, and one of its questions about each text.
Asking = tuple[Plugin, int, Question]


def asking(settings: TranscribeSettings) -> list[Asking]:
    resolved = zip(settings.verdicts, text_plugins(settings.verdicts), strict=True)
    return [
        (plugin, module.VERSION, question)
        for plugin, (_, module, plugin_settings) in resolved
        for question in module.questions(plugin_settings)
    ]


def identities(settings: TranscribeSettings) -> list[str]:
    """Recipes of everything that the answers depend on, except texts."""
    return [request.recipe for request in questions_about(asking(settings), "", "")]


def questions_about(chosen: Iterable[Asking], text: str, audio: str | None) -> list[TextQuestion]:
    """All questions about a text. `audio`: the recipe of its clip's samples; None: the samples must
    not leave this machine, so questions that need them are left out."""
    requests = []
    for plugin, version, question in chosen:
        if (heard := audio if question.hears else "") is not None:
            wanted = recipe.digest("asked", plugin.use, version, question.recipe, text, heard)
            requests.append(TextQuestion(wanted, plugin, question, text))
    return requests


def rewriting(job: Job, utterance: Utterance) -> tuple[Rewriting, ...]:
    """The request to rewrite the text of an utterance, if it needs one."""
    chosen, person = job.transcribe.llm_text, utterance.person
    if chosen is None or utterance.transcript is None or (person is not None and person.text):
        return ()
    language = utterance.transcript["language"] or ""
    text = hidden.shown_of(job, utterance, final_text(job, utterance)[0])
    if not text:
        return ()
    return (Rewriting(recipe.of_llm_answer(chosen, text, language), text, language),)


def alignment(job: Job, weights: str, utterance: Utterance) -> tuple[Alignment, ...]:
    """The request to align the source's text of an utterance, if it needs one. `weights`:
    identities of all models, one on each line."""
    text, heard = utterance.reference, utterance.transcript
    if not job.transcribe.reference_words or not text or utterance.pcm is None or heard is None:
        return ()
    language = heard["language"] or ""
    audio = utterance.hears or utterance.audio
    wanted = recipe.of_alignment(job.transcribe, weights.partition("\n")[0], audio, text, language)
    return (Alignment(wanted, text, language),)


def rules_on_fit(settings: TranscribeSettings) -> list[str]:
    """The chosen text plug-ins that judge how well a source's text fits the audio."""
    return [plugin.use for plugin in settings.verdicts if plugins.TEXT.load(plugin.use).ALIGNED]
