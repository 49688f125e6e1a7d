"""Weights that only `uttermill models fetch` brings: without them, what needs them skips."""

from __future__ import annotations

from typing import Any

import pytest

from uttermill.tasks.base import shelves
from uttermill.tasks.models import model_files, registry

SPEAKERS = all(model_files.state(model) == "ok" for model in registry.fetched("speakers"))
GTCRN = model_files.state(registry.GTCRN) == "ok"
needs_gtcrn = pytest.mark.skipif(
    not GTCRN, reason="its weights are not here: run `uttermill models fetch gtcrn`"
)
needs_distillmos = pytest.mark.skipif(
    model_files.state(registry.DISTILLMOS) != "ok",
    reason="its weights are not here: run `uttermill models fetch distillmos`",
)
needs_speakers = pytest.mark.skipif(
    not SPEAKERS, reason="its weights are not here: run `uttermill models fetch speakers`"
)


def filters() -> list[Any]:
    """Names on the shelf, as parameters of a test that measures; `sounds` and `music` have no
    weights but those of a folder (`tests/filters/test_sounds.py`)."""
    fetched = {"speaker_purity": needs_speakers, "distillmos": needs_distillmos}
    return [
        pytest.param(name, marks=fetched[name]) if name in fetched else name
        for name in shelves.names("filters")
        if name not in ("sounds", "music")
    ]
