"""Nothing that OUT loses is silent, or published otherwise without a word: the essential kinds of
`python -m tests.bench.lost`, by the real command. By day `test_laws.py` damages each checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.bench import lost

pytestmark = [pytest.mark.nightly, pytest.mark.cluster]


@pytest.fixture(scope="module")
def bench(
    tmp_path_factory: pytest.TempPathFactory, shared_cluster: dict[str, Any]
) -> Iterator[lost.Bench]:
    with lost.opened(tmp_path_factory.mktemp("lost"), shared_cluster) as bench:
        yield bench


@pytest.mark.parametrize(
    ("kind", "damage", "verdict"),
    [
        ("audio/shard-*/*.pcm", "removed", "told"),
        ("manifests/filter/shard-*/*-*.parquet", "removed", "told"),
        ("manifests/package/facts/*/rows.arrow", "cut", "told"),
        ("datasets/v0002/wenet/*.tar", "removed", "told"),
        ("datasets/v0002/wenet/*.list", "flipped", "verify"),
        ("runs/", "removed", "not read"),
    ],
)
def test_what_is_lost_changes_nothing_that_is_published(
    bench: lost.Bench, kind: str, damage: str, verdict: str
) -> None:
    cell = bench.cell(kind, damage)
    assert cell is not None
    assert (cell.verdict, cell.published) == (verdict, True), cell
    assert (cell.idle, cell.growth) == (0, 0)


def test_what_cannot_be_made_again_is_refused(bench: lost.Bench) -> None:
    cell = bench.cell("datasets/v0002/dataset.json", "flipped")
    assert cell is not None
    assert (cell.idle, cell.growth, cell.verify) == (1, 1, 3)
    assert any("dataset.json of v0002 is not the file" in sentence for sentence in cell.said)
