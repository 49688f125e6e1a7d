"""Shelf of speech recognisers; `tasks.plugins.contracts.asr` is their contract."""

from tasks.plugins.contracts.asr import SpeechClip, Transcript, Word

__all__ = ["SpeechClip", "Transcript", "Word"]
