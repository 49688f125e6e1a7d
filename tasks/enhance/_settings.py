"""Settings that all enhancers share: how much they may take away, and what is kept of it."""

from __future__ import annotations

from pydantic import Field

from tasks.settings import StageSettings, Threshold


class EnhancerSettings(StageSettings):
    limit_db: float | None = Field(
        12.0,
        gt=0,
        le=100,
        description="Most that is taken away, dB: the original stays in the result so far below. "
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
