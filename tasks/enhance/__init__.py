"""Enhancers; `tasks.plugins.contracts.audio` is their contract."""

from pydantic import Field

from ..plugins.contracts.audio import Enhancer
from ..settings import StageSettings, Threshold


class EnhancerSettings(StageSettings):
    """How much an enhancer may take away, and what is kept of it."""

    limit_db: float | None = Field(
        12.0,
        gt=0,
        le=100,
        description="Most attenuation, dB: the original stays in the result this far below. "
        "null: no limit.",
    )
    keep_if_better: bool = Threshold(
        True, "Take the enhanced clip only where its DNSMOS OVRL is above the original's."
    )
    min_ovrl: float | None = Threshold(
        None,
        "Smallest DNSMOS OVRL kept, MOS, of the enhanced clip; with keep_if_better, of "
        "the better one.",
    )
