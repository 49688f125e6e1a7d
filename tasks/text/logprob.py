"""Drops utterances that the recogniser was unsure of.

Mean log-probability of a token, in nats. Whisper decodes a window again if it is below -1.0
(Radford et al. 2022, arXiv 2212.04356, section 4.5): each token had one chance in e on average.
"""

from . import Exemption, Limit, Rule, Threshold


class Settings(Exemption):
    min: float | None = Threshold(-1.0, "Least mean log-probability, nats per token.", le=0)


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("avg_logprob", min=settings.min, low="low_logprob", unless=settings.confirmed),)
