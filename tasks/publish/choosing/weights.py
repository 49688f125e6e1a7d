"""Seeded draws that package a share of a dataset's clips, or limit the hours of each speaker.

`package.weights: {podcasts: 0.3}` packages 0.3 of the dataset's clips that passed all rules and
drops the others as `package.weight`, with the clip's draw as value and the weight as threshold. A
clip's draw depends only on the seed and its id: it is the same in every version, and a higher
weight only adds clips. Data-Juicer also mixes datasets by weights, but repeats clips for weights
above 1; here a version never holds a clip twice, so that ids are unique.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from ...settings import PackageSettings
from ...storage import long_columns
from ...storage.sorted_keys import first_of_runs
from .. import seeded_hash
from .split_allocation import HOUR


def draws(settings: PackageSettings, rows: pa.Table) -> tuple[Float64s, ...]:
    """(draw, weight) of each row (columns dataset, id), both from 0 to 1; float64 [rows]. A clip is
    packaged if draw < weight. For a dataset without a weight, the draw is NaN and the weight 1."""
    weight = np.ones(rows.num_rows)
    dataset = long_columns.coded(rows["dataset"])
    codes = dataset.indices.to_numpy(zero_copy_only=False)
    for code, name in enumerate(dataset.dictionary.to_pylist()):
        weight[codes == code] = settings.weights.get(name, 1.0)
    some = np.flatnonzero(weight < 1)
    draw = np.full(rows.num_rows, np.nan)
    if len(some):
        ids = rows["id"].take(some).to_pylist()
        draw[some] = seeded_hash.draws(f"{settings.seed}:weight", ids) / 2**64  # from 0 to 1
    return draw, weight


# Caps the hours of each speaker at `package.max_hours_per_speaker`.
#
# A speaker's published clips come first, then the others, each in the order of a seeded draw. The
# first clip that exceeds the cap and all after it are dropped as `package.speaker_hours`, with the
# speaker's hours up to the end of the clip as value. A clip's draw depends only on the seed and its
# id, so a higher cap only adds clips, and published clips stay while their speaker has the same
# name and cap. Clips without a speaker are not capped.


def over_hours(
    speaker: Int32s, turn: UInt64s, length: Int64s, published: Bools, most: float
) -> tuple[Bools, Float64s]:
    """Which clips exceed `most` hours of their speaker, and the speaker's hours up to the end of
    each clip. `speaker`: number of each clip's speaker, -1: none; `turn`: its draw; `length`:
    µs."""
    order = np.lexsort((turn, ~published, speaker))
    summed = np.cumsum(length[order])
    first = first_of_runs(speaker[order])
    before = np.maximum.accumulate(np.where(first, summed - length[order], 0))
    hours = np.empty(len(order))
    hours[order] = (summed - before) / HOUR
    return (speaker >= 0) & (hours > most), hours
