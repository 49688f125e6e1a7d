"""A clip's measures: columns that a trainer filters or weighs by; and, where some clips are
enhanced, which audio is packaged, and so which of the two clips' measures are those of it. And its
labels and turns, and what `package.publish` names."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pyarrow as pa

from tasks import plugins
from tasks.base import schema, shelves
from tasks.base.schema import UTTERANCES, AnyRow, LabelPairs, Published
from tasks.shard_store import enhanced
from tasks.storage import tables

AUDIO_IS, LABELS, TURNS = "audio_is", "labels", "turns"
_TRANSCRIPT = (
    *("language_probability", "avg_logprob", "no_speech_probability", "compression_ratio"),
    *("words", "word_errors", "chars", "char_errors"),
    *("speech_seconds", "speech_after_text", "words_per_speech_second", "language_vote"),
)
_OF_SHELVES = {
    column
    for shelf in plugins.MEASURING
    for name in shelves.names(shelf)
    for column in plugins.columns(shelf, name)
}
_OF_SHELVES |= {enhanced.after(column) for column in plugins.columns("filters", "dnsmos")}
#: All measures of the plug-ins on the shelves, except the duration at the native rate: readers take
#: a column of that name for the clip's own. Measures of plug-ins from elsewhere are not included.
NAMES = (*_TRANSCRIPT, *sorted(_OF_SHELVES - {"duration"}), AUDIO_IS)


def of(row: AnyRow) -> dict[str, object]:
    """The measures that the row has."""
    return {name: row[name] for name in NAMES if name in row}


def audio_is(row: AnyRow) -> dict[str, object]:
    """Which audio is packaged, where some clips are enhanced; an entry of formats without
    measures."""
    return {AUDIO_IS: row[AUDIO_IS]} if AUDIO_IS in row else {}


def labels(row: AnyRow) -> dict[str, object]:
    """The source's labels, as an entry of formats that have free fields; nothing without any."""
    stated = row.get(LABELS)
    return {LABELS: dict(cast(LabelPairs, stated))} if stated else {}


def turns(row: AnyRow) -> dict[str, object]:
    """The turns of a clip that holds several, as such an entry."""
    return {TURNS: row[TURNS]} if TURNS in row else {}


def published(row: AnyRow) -> dict[str, object]:
    """What `package.publish` names of the clip, as entries of formats that have free fields."""
    beside = row.get("annotations")
    return {**cast(Published, beside).values} if beside is not None else {}


def listed(home: Path) -> list[str]:
    """The columns of a version that `package.publish` names, for lists."""
    return schema.published(tables.schema(home / schema.UTTERANCES_FILE))


def type_of(name: str) -> pa.DataType:
    if name == AUDIO_IS:
        return pa.string()
    index = UTTERANCES.get_field_index(name)
    return UTTERANCES.field(index).type if index >= 0 else pa.float64()
