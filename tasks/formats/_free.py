"""Entries beside a clip's text in formats with free fields: which audio it is, the source's labels,
the turns of a clip that holds several, and what `package.publish` names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from ..base import schema
from ..base.schema import AnyRow, LabelPairs, Published
from ..storage import tables

AUDIO_IS, LABELS, TURNS = "audio_is", "labels", "turns"


def audio_is(row: AnyRow) -> dict[str, object]:
    """Which audio is packaged, if some clips are enhanced; for formats without measures."""
    return {AUDIO_IS: row[AUDIO_IS]} if AUDIO_IS in row else {}


def labels(row: AnyRow) -> dict[str, object]:
    """The source's labels as an entry; empty without labels."""
    stated = row.get(LABELS)
    return {LABELS: dict(cast(LabelPairs, stated))} if stated else {}


def turns(row: AnyRow) -> dict[str, object]:
    """The turns of a clip that holds several, as an entry."""
    if TURNS not in row:
        return {}
    stated = cast(list[dict[str, object]] | None, row[TURNS])
    return {TURNS: stated and [{**turn, **labels(turn)} for turn in stated]}


def published(row: AnyRow) -> dict[str, object]:
    """What `package.publish` names of the clip, as entries."""
    beside = row.get("annotations")
    return {**cast(Published, beside).values} if beside is not None else {}


def listed(home: Path) -> list[str]:
    """The columns of a version that `package.publish` names, for lists."""
    return schema.published(tables.schema(home / schema.UTTERANCES_FILE))
