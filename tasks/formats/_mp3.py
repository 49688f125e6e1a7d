"""A clip as an MP3 file: lossy, so only its rate and length follow from its row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import audio
from tasks.checkpoints.manifest import Row
from tasks.errors import ConfigError, ItemError
from tasks.recording import Locator


def check_rates(rows: pa.Table, setting: str) -> None:
    """ConfigError if MP3 does not support a sample rate of the rows."""
    rates = set(pc.unique(rows["sample_rate"]).to_pylist())
    if not rates <= audio.MP3_RATES:
        raise ConfigError(
            f"{setting}: MP3 has no sample rate of {max(rates - audio.MP3_RATES)} Hz; take wav, or "
            "another resample.rate"
        )


def faults(row: Row, path: str, home: Path) -> list[str]:
    """Whether a file has its row's sample rate, and its length within one MP3 frame."""
    try:
        with audio.open_stream(Locator(str(home / path))) as stream:
            samples = sum(len(block) for block in stream.blocks())
    except ItemError as error:
        return [f"{path} does not decode: {error}"]
    difference = abs(samples - row["num_samples"])
    if stream.rate != row["sample_rate"] or difference > audio.MP3_FRAME:
        return [f"{path} has {samples} samples at {stream.rate} Hz, not what its row says"]
    return []
