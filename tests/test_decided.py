"""Many shards are decided by the workers, and what they found is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks import pipeline
from tasks.callers import Here
from tasks.checkpoints import manifest
from tasks.corpuswide import decisions
from tasks.packaging import contents, shard_decisions
from tests import corpus

COUNT = 40
ONE = {"settle_seconds": 0, "hours": 0.1 / 3600}  # a recording a shard


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty shards: kept, dropped by length, undecodable, and copies of one another."""
    tmp = tmp_path_factory.mktemp("decided")
    corpus.make(tmp / "in", COUNT - 2)
    (tmp / "in" / "copy.wav").write_bytes((tmp / "in" / "r01.wav").read_bytes())
    (tmp / "in" / "broken.wav").write_bytes(b"RIFF")
    return tmp


def chosen() -> dict[str, Any]:
    return {
        "shard": ONE, "filter": corpus.filters({"use": "duplicate"}, min=0.8),
        "package": {"max_failed_fraction": 1.0, "splits": {"test": 0.2}},
    }  # fmt: skip


class Counted(Here):
    """Calls by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        self.names.append(work.__name__)
        return super().call(work, *args)

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.names += [work.__name__] * len(args)
        return super().map(work, args)


def test_workers_decide_what_one_process_would(home: Path, tmp_path: Path) -> None:
    job = corpus.job(home, out=tmp_path / "out", **chosen())
    corpus.run(job)
    shards = sorted(manifest.shards(job.out))
    assert len(shards) > 2 * shard_decisions.AT_ONCE
    alone = contents.decide(job, shards)
    for where, some in shard_decisions.batches(shards, tmp_path / "scratch"):
        assert len(some) <= shard_decisions.AT_ONCE
        shard_decisions.save(job, some, where)
    together = contents.decide(job, shards, tmp_path / "scratch")
    for one, other in zip(alone[:3], together[:3], strict=True):
        assert one.equals(other)
    assert one.num_rows == 0 or one.schema == decisions.schema_of(job)
    assert alone[3:] == together[3:]


def test_versions_do_not_tell_how_they_were_decided(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted()
    monkeypatch.setattr(pipeline, "Here", lambda: counted)
    many = corpus.run(corpus.job(home, out=tmp_path / "many", **chosen()))[0]
    assert counted.names.count("save") == -(-COUNT // shard_decisions.AT_ONCE)
    assert counted.names.count("gather") == 1
    assert not list((tmp_path / "many/manifests/.listing").rglob("*.arrow"))
    monkeypatch.setattr(shard_decisions, "AT_ONCE", COUNT)
    few = corpus.run(corpus.job(home, out=tmp_path / "few", **chosen()))[0]
    assert corpus.content(many.path) == corpus.content(few.path)
    assert counted.names.count("save") == -(-COUNT // 16)


def test_a_shard_of_nothing_has_its_place(home: Path, tmp_path: Path) -> None:
    """Its recording is broken: no row, no utterance, and a ledger of one."""
    job = corpus.job(home, out=tmp_path / "out", **chosen())
    corpus.run(job)
    shards = sorted(manifest.shards(job.out))
    shard_decisions.save(job, shards, tmp_path / "all")
    parts = shard_decisions.load(shards, tmp_path / "all")
    assert list(parts) == shards
    counts = [(part.rows.num_rows, part.ledger.num_rows) for part in parts.values()]
    assert (0, 1) in counts
    assert sum(rows for rows, _ in counts) > COUNT // 2
