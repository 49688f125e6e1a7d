"""Texts as a language model writes them: which it is asked about, and what it answered.

It is asked about what would be packaged, last of all, and each text once: an answer is found by the
text, whoever said it. What a person wrote stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tasks import recipe
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.texts import final_text
from tasks.checkpoints.utterance import Utterance
from tasks.job import Job

TAKEN = "taken"


class Asked(NamedTuple):
    """A text that the model is asked about, with its language ("" where it is not known)."""

    recipe: str
    text: str
    language: str


def asked(job: Job, utterance: Utterance) -> Asked | None:
    """What the model is asked about an utterance that is packaged; None: nothing."""
    chosen, person = job.transcribe.llm_text, utterance.person
    if chosen is None or utterance.heard is None or (person is not None and person.text):
        return None
    text, language = final_text(job, utterance)[0], utterance.heard["language"] or ""
    return Asked(recipe.of_written(chosen, text, language), text, language) if text else None


def attach(job: Job, utterance: Utterance, lookup: Callable[[str], Row | None]) -> None:
    """Set `written`, or `unwritten` where the model has still to be asked."""
    question = asked(job, utterance)
    if question is not None:
        utterance.written = lookup(question.recipe)
        utterance.unwritten = utterance.written is None


def became(utterance: Utterance) -> str | None:
    """What became of the model's answer: `taken`, or why the text stayed; None: none was asked."""
    row = utterance.written
    return None if row is None else row["error_code"] or TAKEN
