"""Drops texts that do not cover the speech in their clip.

Before that, the recogniser has transcribed again the speech that its text missed, if it can
(`tasks/asr`). Seconds of speech come from the voice detector, words from the recogniser, not from a
reference. The detail of a text with a hole says where in the clip it begins.
"""

from . import Exemption, Limit, Rule, Threshold


class Settings(Exemption):
    max_speech_after_text: float | None = Threshold(
        1.0, "Most speech behind the last word, s; null: any.", ge=0
    )
    max_speech_without_words: float | None = Threshold(
        1.0, "Most speech in one stretch of the clip that no word covers, s; null: any.", ge=0
    )
    min_words_per_speech_second: float | None = Threshold(
        0.4,
        "Fewest words (characters, where a script has no spaces) in a second of speech; null: any.",
        ge=0,
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    most, least = settings.max_speech_after_text, settings.min_words_per_speech_second
    reason, unless = "text_incomplete", settings.confirmed
    return (
        Limit("speech_after_text", max=most, high=reason, unless=unless),
        Limit(
            "speech_without_words",
            max=settings.max_speech_without_words,
            high=reason,
            unless=unless,
            place="speech_without_words_start",
        ),
        Limit("words_per_speech_second", min=least, low=reason, unless=unless),
    )
