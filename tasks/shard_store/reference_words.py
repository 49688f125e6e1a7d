"""Times of the words of sources' texts: requests to align a text with audio.

The text is the utterance's reference, whichever text is packaged; words of a hypothesis have the
recogniser's own times. A text is aligned if its clip would be packaged, in the recognised language,
and only once: its recipe includes the audio, the text and the model.
"""

from __future__ import annotations

from .. import plugins
from ..base.schema import TranscriptRow
from ..settings.job import Job
from ..settings.transcribe import TranscribeSettings
from . import recipe
from .requests import Alignment
from .utterance import HeardUtterance


def request_for(job: Job, weights: str, utterance: HeardUtterance) -> Alignment | None:
    """The alignment that a packaged utterance needs; None if it needs none. `weights`: identities
    of all models, one on each line."""
    text, heard = utterance.cut.reference, utterance.transcript
    if not job.transcribe.reference_words or not text or utterance.pcm is None or heard is None:
        return None
    language = heard["language"] or ""
    audio = utterance.hears or utterance.cut.audio
    wanted = recipe.of_alignment(job.transcribe, weights.partition("\n")[0], audio, text, language)
    return Alignment(wanted, text, language)


def probabilities(aligned: TranscriptRow) -> tuple[float | None, ...]:
    """The probability of each word of an aligned text; empty if alignment failed."""
    return tuple(row["probability"] for row in aligned.get("word_times") or ())


def rules_on_fit(settings: TranscribeSettings) -> list[str]:
    """The chosen text plug-ins that judge how well a source's text fits the audio."""
    return [plugin.use for plugin in settings.verdicts if plugins.TEXT.load(plugin.use).ALIGNED]
