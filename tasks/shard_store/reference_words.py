"""Times of the words of sources' texts: which texts are aligned with which audio.

The text is the utterance's reference, whatever of it is packaged; the recogniser's own words have
the recogniser's times. It is aligned once it would be packaged, in the recognised language, and
once: other audio, another text or another model give another recipe.
"""

from __future__ import annotations

from typing import NamedTuple

from tasks import plugins
from tasks.base.schema import EnhancedRow, TranscriptRow
from tasks.settings.job import Job
from tasks.settings.transcribe import TranscribeSettings
from tasks.shard_store import recipe
from tasks.shard_store.utterance import HeardUtterance


class AlignmentRequest(NamedTuple):
    """A text to align with the utterance's PCM, and its language ("" if unknown)."""

    recipe: str
    text: str
    language: str
    pcm: EnhancedRow


def request_for(job: Job, weights: str, utterance: HeardUtterance) -> AlignmentRequest | None:
    """The alignment that a packaged utterance needs; None if it needs none. `weights`: identities
    of all models, one a line."""
    text, pcm, heard = utterance.cut.reference, utterance.pcm, utterance.transcript
    if not job.transcribe.reference_words or not text or pcm is None or heard is None:
        return None
    language = heard["language"] or ""
    audio = utterance.hears or utterance.cut.audio
    wanted = recipe.of_alignment(job.transcribe, weights.partition("\n")[0], audio, text, language)
    return AlignmentRequest(wanted, text, language, pcm)


def probabilities(aligned: TranscriptRow) -> tuple[float | None, ...]:
    """The probability of each word of an aligned text; empty if alignment failed."""
    return tuple(row["probability"] for row in aligned.get("word_times") or ())


def rules_on_fit(settings: TranscribeSettings) -> list[str]:
    """The chosen plug-ins on text that judge how well a source's text fits the sound."""
    return [plugin.use for plugin in settings.verdicts if plugins.TEXT.load(plugin.use).ALIGNED]
