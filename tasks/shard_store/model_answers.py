"""What models are asked about an utterance that would be packaged: questions of plug-ins about its
text, the times of the words of its source's text, and to rewrite its text.

A language model gets only texts without the words that `pii` hides. Answers are looked up by text,
whoever spoke it; those of a model that gets the clip also by its samples. A text is rewritten after
all other steps, unless a person wrote it. The text to align is the reference, whichever text is
packaged (words of a hypothesis have the recogniser's own times), in the recognised language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .. import plugins
from ..base.schema import TranscriptRow
from ..plugins.contracts.text import Question
from ..settings import Plugin, TranscribeSettings
from ..settings.job import Job
from . import hidden, recipe
from .chosen_rules import text_plugins
from .requests import Alignment, Rewriting, TextQuestion
from .text_values import final_text
from .utterance import FinalUtterance, HeardUtterance

TAKEN = "taken"


class Asking(NamedTuple):
    """A chosen plug-in on text with its questions about each text."""

    plugin: Plugin
    version: int
    questions: tuple[Question, ...]


def asking(settings: TranscribeSettings) -> tuple[Asking, ...]:
    chosen = []
    resolved = text_plugins(settings.verdicts)
    for plugin, (_, module, plugin_settings) in zip(settings.verdicts, resolved, strict=True):
        if questions := module.questions(plugin_settings):
            chosen.append(Asking(plugin, module.VERSION, questions))
    return tuple(chosen)


def identities(chosen: Sequence[Asking]) -> list[str]:
    """Recipes of everything that the answers depend on, except texts."""
    return [request.recipe for request in requests(chosen, "", "")]


def requests(chosen: Iterable[Asking], text: str, audio: str | None) -> list[TextQuestion]:
    """All questions about a text. `audio`: the recipe of its clip's samples; None: the samples must
    not leave this machine, so questions that need them are left out."""
    return [
        TextQuestion(
            recipe.digest("asked", one.plugin.use, one.version, question.recipe, text, heard),
            one.plugin,
            question,
            text,
        )
        for one in chosen
        for question in one.questions
        for heard in ([audio] if question.hears else [""])
        if heard is not None
    ]


def answers(
    text_requests: Iterable[TextQuestion], stored: Mapping[str, TranscriptRow]
) -> dict[str, dict[str, str | None]]:
    by_plugin: dict[str, dict[str, str | None]] = {}
    for request in text_requests:
        if (row := stored.get(request.recipe)) is not None:
            by_plugin.setdefault(request.plugin.use, {})[request.question.key] = row["text"]
    return by_plugin


def rewriting(job: Job, utterance: HeardUtterance) -> tuple[Rewriting, ...]:
    """The request to rewrite the text of an utterance, if it needs one."""
    chosen, person = job.transcribe.llm_text, utterance.cut.person
    if chosen is None or utterance.transcript is None or (person is not None and person.text):
        return ()
    language = utterance.transcript["language"] or ""
    text = hidden.shown_of(job, utterance, final_text(job, utterance)[0])
    if not text:
        return ()
    return (Rewriting(recipe.of_llm_answer(chosen, text, language), text, language),)


def alignment(job: Job, weights: str, utterance: HeardUtterance) -> tuple[Alignment, ...]:
    """The request to align the source's text of an utterance, if it needs one. `weights`:
    identities of all models, one on each line."""
    text, heard = utterance.cut.reference, utterance.transcript
    if not job.transcribe.reference_words or not text or utterance.pcm is None or heard is None:
        return ()
    language = heard["language"] or ""
    audio = utterance.hears or utterance.cut.audio
    wanted = recipe.of_alignment(job.transcribe, weights.partition("\n")[0], audio, text, language)
    return (Alignment(wanted, text, language),)


def rules_on_fit(settings: TranscribeSettings) -> list[str]:
    """The chosen text plug-ins that judge how well a source's text fits the audio."""
    return [plugin.use for plugin in settings.verdicts if plugins.TEXT.load(plugin.use).ALIGNED]


def became(utterance: FinalUtterance) -> str | None:
    """`taken` if the model's answer replaced the text, else the reason why not; None without a
    request."""
    row = utterance.rewritten
    return None if row is None else row["error_code"] or TAKEN
