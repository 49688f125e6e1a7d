"""What language models are asked: questions of plug-ins about a text, and to rewrite it.

A model gets only texts that would be packaged, without the words that `pii` hides. Answers are
looked up by text, whoever spoke it; those of a model that gets the clip also by its samples. A text
is rewritten after all other steps, unless a person wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..base.schema import TranscriptRow
from ..plugins.contracts.text import Question
from ..settings import Plugin, TranscribeSettings
from ..settings.job import Job
from . import hidden, recipe
from .chosen_rules import text_plugins
from .requests import Rewriting, TextQuestion
from .text_values import final_text
from .utterance import FinalUtterance, HeardUtterance

TAKEN = "taken"


class Asking(NamedTuple):
    """A chosen plug-in on text with its questions about each text."""

    plugin: Plugin
    version: int
    questions: tuple[Question, ...]


def asking(settings: TranscribeSettings) -> tuple[Asking, ...]:
    """The chosen plug-ins on text that have questions."""
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
    """The stored answers, by plug-in and key."""
    by_plugin: dict[str, dict[str, str | None]] = {}
    for request in text_requests:
        if (row := stored.get(request.recipe)) is not None:
            by_plugin.setdefault(request.plugin.use, {})[request.question.key] = row["text"]
    return by_plugin


def rewriting(job: Job, utterance: HeardUtterance) -> Rewriting | None:
    """The request to rewrite the text of a packaged utterance; None if none is needed."""
    chosen, person = job.transcribe.llm_text, utterance.cut.person
    if chosen is None or utterance.transcript is None or (person is not None and person.text):
        return None
    language = utterance.transcript["language"] or ""
    text = final_text(job, utterance)[0]
    text = hidden.shown(job, text, language, hidden.most_places(job, utterance, text)) or ""
    return Rewriting(recipe.of_llm_answer(chosen, text, language), text, language) if text else None


def became(utterance: FinalUtterance) -> str | None:
    """`taken` if the model's answer replaced the text, else the reason why not; None without a
    request."""
    row = utterance.rewritten
    return None if row is None else row["error_code"] or TAKEN
