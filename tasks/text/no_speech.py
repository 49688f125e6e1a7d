"""Drops utterances that the recogniser considers not to be speech.

Whisper's rule (Radford et al. 2022, arXiv 2212.04356, section 4.5): silence where the probability
of no speech is above 0.6 and the mean log-probability below -1.0; neither alone means silence.

It also drops the few words that are recognised in minutes of noise: all of a recording of a minute
or more with less detected speech than `min_recording_speech`, unless the source gives its segments.
"""

from . import Exemption, Limit, Rule, Threshold, sure


class Settings(Exemption):
    max: float | None = Threshold(0.6, "Largest probability of no speech.", ge=0, le=1)
    unless_logprob: float | None = Threshold(
        -1.0, "A mean log-probability of this or more confirms speech; null: none does.", le=0
    )
    min_recording_speech: float | None = Threshold(
        2.0,
        "Least detected speech with words in a recording of a minute and more, s; null: any.",
        ge=0,
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    unless = (*sure(settings.unless_logprob), *settings.confirmed)
    little = settings.min_recording_speech
    return (
        Limit("no_speech_probability", max=settings.max, high="no_speech", unless=unless),
        Limit("recording_speech", min=little, low="little_speech", unless=settings.confirmed),
    )
