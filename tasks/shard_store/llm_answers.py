"""Texts rewritten by a language model: requests to it, and its answers.

It gets only texts of clips that would be packaged, after all other steps, and each text once:
answers are looked up by text, whoever spoke it. Texts written by people are not sent.
"""

from __future__ import annotations

from ..settings.job import Job
from . import hidden, recipe
from .requests import Rewriting
from .text_values import final_text
from .utterance import FinalUtterance, HeardUtterance

TAKEN = "taken"


def request_for(job: Job, utterance: HeardUtterance) -> Rewriting | None:
    """The request to the model about a packaged utterance; None if none is needed."""
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
