"""Drops clips that meet an item of a test set (`held_out`): by near-equal text, or by sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import plugins
from ..plugins.contracts.corpuswide import Rows
from ..plugins.rules import Rejection
from ..scoring.text_sketches import BANDS, LEAST, ROWS, Known
from ..settings.job import Job
from .held_out import ITEMS, HeldOut, fingerprinting, texts_of

REASON = "in_test_set"
LEAST_SHARE = round((LEAST / BANDS) ** (1 / ROWS), 3)  # of the pairs of words in both texts


class Meeting(NamedTuple):
    """A clip that meets an item."""

    row: int
    number: int  # of the set
    rejection: Rejection


def meetings(job: Job, rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    """The kept rows that meet an item, each once: by text first."""
    by_text = [*_by_text(rows, sets)]
    yield from by_text
    if any(one.items["print"].null_count < len(one.items) for one in sets):
        done = {meeting.row for meeting in by_text}
        yield from (m for m in _by_sound(job, rows, sets) if m.row not in done)


def _by_text(rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    owners, sketches = texts_of(sets)
    if not owners:
        return
    lookup, first = Known(sketches), 0
    for table in rows.tables("normalised", "kept"):
        text = pc.if_else(pc.equal(table["normalised"], ""), None, table["normalised"])
        kept = pc.if_else(table["kept"], text, pa.scalar(None, pa.string()))
        met = lookup.meet(kept.combine_chunks())
        for place in np.flatnonzero(met.item >= 0).tolist():
            number, item = owners[int(met.item[place])]
            share = round(float(met.share[place]), 3)
            how = "the text" if share == 1 else "nearly the text"
            detail = f"{how} of {item} in the test set {sets[number].name}"
            yield Meeting(first + place, number, Rejection(REASON, share, LEAST_SHARE, detail))
        first += len(table)


def _by_sound(job: Job, rows: Rows, sets: Sequence[HeldOut]) -> Iterator[Meeting]:
    from ..filters import duplicate

    _, settings = plugins.FILTERS.resolve(fingerprinting(job))
    assert isinstance(settings, duplicate.Settings)
    owners, prints = list[tuple[int, str]](), [ITEMS.empty_table()["print"]]
    for number, one in enumerate(sets):
        sounds = one.items.filter(one.items["print"].is_valid())
        owners += [(number, item) for item in sounds["item"].to_pylist()]
        prints.append(sounds["print"])
    chunks = [chunk for column in prints for chunk in column.chunks]
    for copy in duplicate.met(pa.chunked_array(chunks, pa.large_binary()), rows, settings):
        number, item = owners[copy.item]
        detail = f"the {'samples' if copy.exact else 'sound'} of {item} in the test set "
        rejection = Rejection(REASON, copy.error, settings.max_error, detail + sets[number].name)
        yield Meeting(copy.row, number, rejection)
