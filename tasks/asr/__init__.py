"""Shelf of speech recognisers. `tasks.plugins.contracts.asr` says what one has.

`_batching` makes batches and halves those that an engine refuses.
"""

from tasks.plugins.contracts.asr import SpeechClip, Transcript, Word

__all__ = ["SpeechClip", "Transcript", "Word"]
