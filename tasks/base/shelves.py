"""Names of the built-in plug-ins: a plug-in is registered by its file. Imports nothing of
uttermill."""

from __future__ import annotations

import pkgutil
from pathlib import Path

SHELVES = (
    "sources",
    "diarizers",
    "segmenters",
    "filters",
    "enhance",
    "resamplers",
    "levels",
    "asr",
    "text",
    "formats",
)


def names(shelf: str) -> list[str]:
    """The plug-ins of one kind, sorted."""
    folder = Path(__file__).parents[1] / shelf
    return sorted(m.name for m in pkgutil.iter_modules([str(folder)]) if not m.name.startswith("_"))
