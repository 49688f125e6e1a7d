"""Drops texts that run in a loop: they compress too well.

Bytes of UTF-8 over bytes of its zlib stream. Whisper takes more than 2.4 for a loop (Radford et al.
2022, arXiv 2212.04356, section 4.5). Texts of a few words never come near it: see `repetition`.
"""

from . import Exemption, Limit, Rule, Threshold


class Settings(Exemption):
    max: float | None = Threshold(2.4, "Largest compression ratio.", gt=0)


def verdict(settings: Settings) -> tuple[Rule, ...]:
    unless = settings.confirmed
    return (
        Limit("compression_ratio", max=settings.max, high="compresses_too_well", unless=unless),
    )
