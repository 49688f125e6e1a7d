"""Entries beside a clip's text in formats with free fields: which audio it is, the source's labels,
the turns of a clip that holds several, and what `package.publish` names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ..base import schema
from ..base.schema import AnyRow, ClipRow, LabelPairs, Published
from ..storage import tables
from . import _tracks

AUDIO_IS, LABELS, TURNS = "audio_is", "labels", "turns"


def audio_is(row: AnyRow) -> dict[str, object]:
    """Which audio is packaged, if some clips are enhanced; for formats without measures."""
    return {AUDIO_IS: row[AUDIO_IS]} if AUDIO_IS in row else {}


def labels(row: AnyRow) -> dict[str, object]:
    """The source's labels as an entry; empty without labels."""
    stated = row.get(LABELS)
    return {LABELS: dict(cast(LabelPairs, stated))} if stated else {}


def turns(row: ClipRow, tracks: _tracks.Tracks = "mix") -> dict[str, object]:
    """The turns of a clip that holds several, as an entry; see `_tracks.turns`."""
    if "turns" not in row:
        return {}
    stated = [{**turn, **labels({**turn})} for turn in _tracks.turns(row, tracks)]
    return {TURNS: None if row["turns"] is None else stated}


def published(row: AnyRow) -> dict[str, object]:
    """What `package.publish` names of the clip, as entries."""
    beside = row.get("annotations")
    return {**cast(Published, beside).values} if beside is not None else {}


def listed(home: Path) -> list[str]:
    """The columns of a version that `package.publish` names, for lists."""
    return schema.published(tables.schema(home / schema.UTTERANCES_FILE))
