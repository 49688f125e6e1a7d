"""The sweep over odd and damaged files (`tests.helpers.oddities`), every third of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.helpers import oddities

#: Formats without a length, or whose decoder in libsndfile goes on over impossible blocks.
KNOWN = ("avr/", "paf/", "pvf/", "svx/", "wav/ima_adpcm", "wav/ms_adpcm")


@pytest.mark.nightly
def test_a_third_of_the_sweep() -> None:
    found = oddities.swept(every=3)
    assert len(found) > 300
    assert [row for row in found if row["verdict"] == "WRONG"] == []
    missed = [row for row in found if row["verdict"] in ("missed", "stricter")]
    assert [row for row in missed if not row["kind"].startswith(KNOWN)] == []
    counts = Counter(row["verdict"] for row in found)
    assert counts["same"] > 80
    assert counts["damage seen"] > 40
    assert counts["refused alike"] > 30


def test_the_odd_ones_are_all_right(tmp_path: Path) -> None:
    odd = [oddities.judged(case, tmp_path) for case in oddities.oddities()]
    assert len(odd) > 100
    wrong = [row for row in odd if row["verdict"] not in ("same", "ours right")]
    assert {row["what"] for row in wrong} == {"no samples"}  # both refuse them
    assert {row["verdict"] for row in wrong} == {"refused alike"}
