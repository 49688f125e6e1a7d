"""A clip's measures: columns that a trainer filters or weighs by; and, where some clips are
enhanced, which audio is packaged, and so which measures are its own. This module imports every
plug-in that measures."""

from __future__ import annotations

import pyarrow as pa

from .. import plugins
from ..base import shelves
from ..base.schema import UTTERANCES, AnyRow
from ..shard_store import enhanced
from ._free import AUDIO_IS

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
#: All measures of the built-in plug-ins, except the duration at the native rate: readers take a
#: column of that name for the clip's own. Measures of other plug-ins are not included.
NAMES = (*_TRANSCRIPT, *sorted(_OF_SHELVES - {"duration"}), AUDIO_IS)


def of_row(row: AnyRow) -> dict[str, object]:
    """The measures that the row has."""
    return {name: row[name] for name in NAMES if name in row}


def type_of(name: str) -> pa.DataType:
    if name == AUDIO_IS:
        return pa.string()
    index = UTTERANCES.get_field_index(name)
    return UTTERANCES.field(index).type if index >= 0 else pa.float64()
