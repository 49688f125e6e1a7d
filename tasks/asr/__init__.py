"""Shelf of speech recognisers; `tasks.plugins.contracts.asr` is their contract."""

from tasks.plugins.contracts.asr import SharedWindow, SpeechClip, Transcript, Word

__all__ = ["SharedWindow", "SpeechClip", "Transcript", "Word"]
