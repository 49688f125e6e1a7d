"""Differences between a run's workers that may change data, if `cluster.mixed` allows them.

They are stored with OUT's checkpoints, and every version made from these lists them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from .. import storage


def record(out: Path, differences: Iterable[str]) -> None:
    """Add differences to those of earlier workers."""
    before = recorded(out)
    if {*differences} - {*before}:
        storage.write_atomic(_place(out), json.dumps(sorted({*before, *differences})).encode())


def recorded(out: Path) -> list[str]:
    """All recorded differences, sorted; empty if all workers have been alike."""
    place = _place(out)
    return list(storage.read_json(place)) if storage.exists(place) else []


def _place(out: Path) -> Path:
    return out / "manifests" / "mixed.json"
