"""Tables of a corpus on a real disk that is too small for them, and on the same disk with room:
`unshare -rm python -m tests.helpers.full_tables DISK` (test_long_columns.py)."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.helpers.own_mounts import mount, resize
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.storage import queries

ROWS, MEMORY = 300_000, "24MB"


def order(disk: Path) -> list[int]:
    codes = np.random.default_rng(0).permutation(ROWS)
    parts = (codes[low : low + 50_000].tolist() for low in range(0, ROWS, 50_000))
    texts = (pa.array([f"{code:064d}" for code in part]) for part in parts)
    rows = queries.order(texts, MEMORY, disk)
    assert (codes[rows] == np.arange(ROWS)).all()
    return [*rows[:9].tolist()]


def main(disk: Path) -> None:
    mount(disk)
    told = []
    for pages in (100, 400, 1000):
        resize(disk, pages)
        try:
            order(disk)
        except RunError as error:
            told.append(str(error))
        assert [*disk.iterdir()] == []
    resize(disk, 100_000)
    print(json.dumps({"told": told, "order": order(disk)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
