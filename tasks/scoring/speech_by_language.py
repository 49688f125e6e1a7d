"""How much speech of each source is in each language, by what a recogniser detects in its clips."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

KEYS = ["dataset", "language"]
#: Sums of clips by KEYS. Of integers, so that they do not depend on their order: milliseconds, the
#: same times the probability of the language, and those of clips that are sure of it.
SUMS = {"all": "sum", "certain": "sum", "sure": "sum", "clips": "sum", "least": "min"}
SURE = 0.9  # probability from which a clip is certainly in its language
#: Of sums: the likeliest language of a source first.
ORDER = [("dataset", "ascending"), ("certain", "descending"), ("language", "ascending")]


def sums(tables: Iterable[pa.Table]) -> pa.Table:
    """SUMS, and the least probability, of clips with KEYS, `probability` and `seconds`."""
    names = [pa.field(name, pa.string()) for name in KEYS]
    numbers = [pa.field(name, pa.int64()) for name in [*SUMS][:-1]]
    parts = [pa.schema([*names, *numbers, pa.field("least", pa.float64())]).empty_table()]
    for heard in tables:
        probability = heard["probability"].cast(pa.float64())
        ms = pc.round(pc.multiply(heard["seconds"], 1000.0))
        sure = pc.if_else(pc.greater_equal(probability, SURE), ms, 0.0)
        lengths = [ms, pc.round(pc.multiply(ms, probability)), sure, pa.repeat(1, len(heard))]
        counts = [length.cast(pa.int64()) for length in lengths]
        columns = [*(heard[name] for name in KEYS), *counts, probability]
        parts.append(_summed(pa.table(columns, [*KEYS, *SUMS])))
    return _summed(pa.concat_tables(parts))


def _summed(table: pa.Table) -> pa.Table:
    summed = table.group_by(KEYS).aggregate([*SUMS.items()])
    names = [f"{name}_{how}" for name, how in SUMS.items()]
    return summed.select([*KEYS, *names]).rename_columns([*KEYS, *SUMS])
