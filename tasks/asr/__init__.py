"""Speech recognisers; `tasks.plugins.contracts.asr` is their contract."""

from ..plugins.contracts.asr import (
    Abilities,
    SharedWindow,
    SpeechClip,
    Transcript,
    Word,
)
