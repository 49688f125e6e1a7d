"""Speech recognisers; `tasks.plugins.contracts.asr` is their contract."""

from tasks.plugins.contracts.asr import Abilities, SharedWindow, SpeechClip, Transcript, Word
