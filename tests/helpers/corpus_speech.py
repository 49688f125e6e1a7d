"""Reads the test corpus for all benchmarks: its list, and samples in mono at 16 kHz."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from uttermill.tasks.audio import open_stream
from uttermill.tasks.recording import Locator

RATE = 16_000  # Hz

Floats = NDArray[np.float32]


def listed(corpus: Path) -> list[dict[str, Any]]:
    """Every row of the corpus's list."""
    lines = (corpus / "manifest.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def transcribed(corpus: Path) -> Iterator[dict[str, Any]]:
    """Rows of speech whose text is known, in the list's order."""
    return (row for row in listed(corpus) if row["kind"] == "speech" and row["text"])


def read(path: Path) -> Floats:
    """Mean of the channels at `RATE`, float32 [samples]; level as recorded."""
    with open_stream(Locator(str(path))) as stream:
        samples = np.concatenate(list(stream.blocks())).mean(axis=1)
        rate = stream.rate
    if rate != RATE:
        samples = soxr.resample(samples, rate, RATE, "HQ")
    return np.asarray(samples, np.float32)
