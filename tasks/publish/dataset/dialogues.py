"""Statistics on a version's conversations from the column `turns`: turns, floor transfers,
backchannels.

Computed over columns, never row by row. Times are counted in steps of 10 ms, so that sums do not
depend on the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Bools, Float64s, Int64s
from ...base.json_types import Dialogues, TimeSpread

COLUMNS = ("turns", "num_samples", "sample_rate", "dialogue_overlap", "dialogue_silence")
STEP = 0.01  # s
#: First and last step of turns' lengths and of offsets between turns, s; values beyond count there.
LENGTHS, OFFSETS = (0.0, 600.0), (-30.0, 30.0)
MOST_SPEAKERS = 99


def of_utterances(parts: Iterable[pa.Table]) -> Dialogues:
    """The statistics of utterances (those of COLUMNS that they have)."""
    lengths, offsets = (_steps(bounds, np.zeros(0)) for bounds in (LENGTHS, OFFSETS))
    speakers = np.zeros(MOST_SPEAKERS + 1, np.int64)
    windows = turns = backchannels = overlapping = transfers = 0
    shares: dict[str, list[int]] = {}
    for part in parts:
        talk = _Talk(part)
        windows += int(np.sum(pc.is_valid(part["turns"]).to_numpy()))
        turns += len(talk.start)
        backchannels += int(talk.backchannel.sum())
        lengths += _steps(LENGTHS, talk.lengths)
        offsets += _steps(OFFSETS, talk.offsets)
        overlapping += int((talk.offsets < 0).sum())
        transfers += len(talk.offsets)
        speakers += np.bincount(talk.speakers, minlength=MOST_SPEAKERS + 1)[: MOST_SPEAKERS + 1]
        for name in ("dialogue_overlap", "dialogue_silence"):
            if name in part.column_names:
                sums = shares.setdefault(name.removeprefix("dialogue_"), [0, 0])
                for number, count in enumerate(_milliseconds(part, name)):
                    sums[number] += count
    return {
        "windows": windows,
        "turns": turns - backchannels,
        "backchannels": backchannels,
        "turn_seconds": _spread(lengths, LENGTHS[0]),
        "floor_transfers": transfers,
        "offset_seconds": _spread(offsets, OFFSETS[0]),
        "transfers_in_overlap": overlapping,
        "shares": {name: part / whole if whole else None for name, (part, whole) in shares.items()},
        "speakers": [
            {"speakers": number, "windows": int(count)}
            for number, count in enumerate(speakers)
            if number and count
        ],
    }


def silent_backchannels(parts: Iterable[pa.Table]) -> int:
    """The number of backchannels without a recognised word, in tables with `turns`."""
    count = 0
    for part in parts:
        flat = part["turns"].combine_chunks().flatten()
        silent = pc.and_(flat.field("backchannel"), pc.equal(flat.field("text"), ""))
        count += pc.sum(silent).as_py() or 0
    return count


class _Talk:
    """The turns of some rows as flat arrays. `lengths`: of the turns that are not backchannels, s;
    `offsets`: from such a turn's end to the start of another person's next one, s, negative in
    overlap; `speakers`: people in each row."""

    def __init__(self, part: pa.Table) -> None:
        column = part["turns"].combine_chunks()
        row = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
        flat = column.flatten()
        names = "start", "end", "number", "backchannel"
        self.start, self.end, number, backchannel = (
            flat.field(name).to_numpy(zero_copy_only=False) for name in names
        )
        self.backchannel: Bools = np.asarray(backchannel, bool)
        self.speakers = _distinct(row, number)
        floor = ~self.backchannel
        start, end, row, number = (v[floor] for v in (self.start, self.end, row, number))
        self.lengths: Float64s = end - start
        another = (row[1:] == row[:-1]) & (number[1:] != number[:-1])
        self.offsets: Float64s = (start[1:] - end[:-1])[another]


def _distinct(row: Int64s, number: Int64s) -> Int64s:
    """The number of people in each row that has turns. `row`, `number`: of each turn."""
    pairs = np.unique(np.stack([row, number]), axis=1)
    return np.unique(pairs[0], return_counts=True)[1].astype(np.int64)


def _steps(bounds: tuple[float, float], seconds: Float64s) -> Int64s:
    """The number of these times in each step of STEP within `bounds`, s."""
    low, high = bounds
    count = round((high - low) / STEP)
    steps = np.clip(np.rint((seconds - low) / STEP).astype(np.int64), 0, count)
    return np.bincount(steps, minlength=count + 1)


def _spread(steps: Int64s, low: float) -> TimeSpread | None:
    """5 %, 50 % and 95 % quantiles, s; None without any time. `low`: the time of the first step."""
    whole = np.cumsum(steps)
    if not whole[-1]:
        return None
    places = np.searchsorted(whole, np.array([0.05, 0.5, 0.95]) * whole[-1])
    least, median, most = (round(low + int(place) * STEP, 2) for place in places)
    return {"5 %": least, "median": median, "95 %": most}


def _milliseconds(part: pa.Table, name: str) -> tuple[int, int]:
    """(ms that the share in the column `name` is of the clips' time, ms of the clips); clips
    without a share do not count."""
    share = part[name].to_numpy()
    length = part["num_samples"].to_numpy() / part["sample_rate"].to_numpy() * 1000
    valued = ~np.isnan(share)
    sums = np.rint((share * length)[valued]), np.rint(length[valued])
    return int(sums[0].sum()), int(sums[1].sum())
