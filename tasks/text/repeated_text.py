"""Drops clips of a text that many others have, too: adverts, jingles, prompts that all read.

A rule over the whole corpus. Texts are equal as they are compared (lower case, no punctuation), and
near-equal ones, of which one word in eleven differs, count as one (`tasks.scoring.near_texts`).
Published clips stay first, then the first ids.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from ..base.arrays import Int64s
from ..base.json_types import JsonObject
from ..scoring import near_texts
from . import Rejection, Rows, StageSettings, Threshold

COMPARES = True
US = 1_000_000  # µs in a second


class Settings(StageSettings):
    max_times: int | None = Threshold(100, "Most clips with one text; null: any.", ge=1)
    max_seconds: float | None = Threshold(
        None, "Most audio with one text, s; the first clip always stays.", ge=0
    )
    near: bool = Threshold(True, "Whether near-equal texts count as one.")


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], None]:
    """Rejects kept rows beyond the limits of their text."""
    texts = (table["normalised"] for table in rows.tables("normalised"))
    group = near_texts.groups(texts, rows.memory, rows.scratch, settings.near)
    length, kept, published = np.zeros(len(rows), np.int64), group < 0, group < 0
    start = 0
    for table in rows.tables("seconds", "kept", "published"):
        some = slice(start, start + len(table))
        start = some.stop
        length[some] = np.rint(table["seconds"].to_numpy() * US)
        kept[some], published[some] = (table[n].to_numpy() for n in ("kept", "published"))
    order = rows.by_id()
    order = order[(group[order] >= 0) & kept[order]]
    order = order[np.lexsort((~published[order], group[order]))]
    return _rejections(order, group[order], length[order], settings), None


def _rejections(
    rows: Int64s, group: Int64s, length: Int64s, settings: Settings
) -> Iterator[tuple[int, Rejection]]:
    """`rows`: by group, those that stay first; `length`: in µs."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    sizes = np.diff(starts, append=len(rows))
    times = np.arange(len(rows)) - np.repeat(starts, sizes) + 1
    total = np.cumsum(length)
    seconds = (total - np.repeat(total[starts] - length[starts], sizes)) / US
    stays = (times > 1) & (times <= (np.inf if settings.max_times is None else settings.max_times))
    for values, most, among, unit in (
        (times, settings.max_times, times > 0, "clips"),
        (seconds, settings.max_seconds, stays, "seconds"),
    ):
        if most is not None:
            over = among & (values > most)
            for row, value in zip(rows[over].tolist(), values[over].tolist(), strict=True):
                detail = f"{unit} with its text"
                yield row, Rejection("repeated_text", float(value), float(most), detail)
