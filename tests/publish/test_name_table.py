"""Names of many clips, within little memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from uttermill.tasks.publish.choosing.components import Names, Nodes

KINDS = ("speaker", "recording", "pcm", "text")
COUNT = 100_000


@pytest.mark.full
def test_names_of_several_kinds_need_not_fit_in_memory_together(tmp_path: Path) -> None:
    """40 MB of names, of which each kind has as many as there are clips."""
    rows = np.arange(COUNT, dtype=np.int32)
    with Names(KINDS, "48MB", tmp_path) as names:
        for low in range(0, COUNT, 10_000):
            some = range(low, low + 10_000)
            names.add({k: pa.array([f"{k} {n:0>80}" for n in some]) for k in KINDS})
        nodes = Nodes(names, KINDS, rows)
        last = nodes.called(np.array([COUNT - 1, 4 * COUNT - 1]))
    assert (nodes.of_row == np.arange(len(KINDS))[:, None] * COUNT + rows).all()
    assert last.to_pylist() == [f"{kind} {COUNT - 1:0>80}" for kind in ("speaker", "text")]
