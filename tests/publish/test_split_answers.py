"""Splits are as they were when one process held all rows as texts, however these come."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers import tiers
from uttermill.tasks.base.schema import SPLITS
from uttermill.tasks.publish.choosing import split_input, splits
from uttermill.tasks.settings import PackageSettings

#: Splits of three corpora, one after another, when rows were one table; by seed.
WHOLE = {
    0: "4185c6d2ddfbdbaf",
    1: "0b7393a45fa21a16",
    2: "155b47a7346beed0",
    3: "d9265aaea913e7f8",
    4: "0ae5a3a964b4fc0f",
    5: "a68b338559a47c6f",
}


def rows(chance: np.random.Generator, count: int, first: int = 0) -> pa.Table:
    """Clips whose recordings, speakers and samples overlap; some speakers are known over all
    recordings, some are nobody."""
    recording = chance.integers(0, count // 3 + 1, count) + first // 3
    who = chance.zipf(1.3, count) % 40
    names = [f"x-{chance.integers(10**6)}-{n + first}" for n in range(count)]
    digests = chance.integers(0, count * 4, count)
    length = chance.integers(8000, 480000, count)
    return pa.table(
        {
            "id": names,
            "dataset": np.where(recording % 3 == 0, "a", "b").tolist(),
            "recording": [f"{'a' if k % 3 == 0 else 'b'}/r{k}.wav" for k in recording],
            "source_id": pa.array([f"k{n}" if n % 2 else None for n in range(count)], pa.string()),
            "speaker": pa.array(
                [called(w, k) for w, k in zip(who, recording, strict=True)], pa.string()
            ),
            "sha256": [f"{d:064x}" for d in digests],
            "num_samples": pa.array(length),
            "sample_rate": pa.array(np.full(count, 16000, np.int32)),
        }
    )


def called(who: int, recording: int) -> str | None:
    if who % 4 == 0:
        return None
    if who == 1:
        return ""
    return f"spk_{who:016x}" if who % 5 == 0 else f"s{who}-{recording % 50}"


@pytest.mark.full
@pytest.mark.parametrize("seed", tiers.few(WHOLE, 0))
def test_answers_are_those_of_one_table(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(seed)
    first = rows(chance, 700)
    second = pa.concat_tables([first.slice(50), rows(chance, 300, 600)])
    first, second = (each.take(chance.permutation(len(each))) for each in (first, second))
    path = tmp_path / "list.txt"
    path.write_text("k5\nb/s3-7\na/r9.wav\nnone\n")
    asked: list[tuple[pa.Table, dict[str, Any]]] = [
        (first, {"splits": {"dev": 0.05, "test": {"hours": 0.3}}, "seed": seed}),
        (second, {"splits": {"dev": 0.05, "test": {"hours": 0.3}}, "seed": seed}),
        (second, {"splits": {"dev": 0.1, "fix": {"list": str(path)}}, "seed": seed}),
        (second, {"splits": {"dev": 0.3}}),
    ]
    state = hashlib.sha256()
    before = SPLITS.empty_table()
    for table, package in asked:
        before, _ = assigned(table, PackageSettings.model_validate(package), before)
        state.update(repr(before.to_pylist()).encode())
    assert state.hexdigest()[:16] == WHOLE[seed]


def assigned(table: pa.Table, settings: PackageSettings, before: pa.Table) -> tuple[pa.Table, str]:
    """The next `splits.parquet`, and all else that is said."""
    with split_input.Candidates(settings) as clips:
        for at in range(0, len(table), 97):
            some = table.slice(at, 97)
            numbers = np.arange(at, at + len(some), dtype=np.int32)
            clips.add(some, numbers, np.zeros(len(some), bool))
        clips.finish()

        def parts(columns: list[str]) -> list[pa.Table]:
            return [before.slice(n, 211).select(columns) for n in range(0, len(before) or 1, 211)]

        found = splits.assign(settings, clips, clips.order, parts)
        whole = pa.concat_tables(found.table()).combine_chunks()
    joins = zip(found.joining.tolist(), found.joins.to_pylist(), strict=True)
    what = (found.names, found.split.tolist(), sorted(joins), found.lists, found.notes)
    return whole, repr(what)
