"""Many shards are judged by the workers, and what they found is put together."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import CorruptManifest
from uttermill.tasks.publish import foreseen
from uttermill.tasks.publish.corpus import limits
from uttermill.tasks.publish.outcomes import batch_outcomes, shard_batches
from uttermill.tasks.publish.outcomes.shard_batches import ShardBatch
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages.call import Call

COUNT = 20
ONE = {"settle_seconds": 0, "hours": 0.1 / 3600}  # a recording a shard


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty shards: kept, dropped by length, undecodable, and copies of one another."""
    tmp = tmp_path_factory.mktemp("judged")
    corpus.make(tmp / "in", COUNT - 2)
    (tmp / "in" / "copy.wav").write_bytes((tmp / "in" / "r01.wav").read_bytes())
    (tmp / "in" / "broken.wav").write_bytes(b"RIFF")
    return tmp


def chosen() -> dict[str, Any]:
    return {
        "shard": ONE, "filter": corpus.filters({"use": "duplicate"}, min=0.8),
        "package": {"max_failed_fraction": 1.0, "splits": {"test": 0.2}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def done(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT after a run."""
    job = corpus.job(home, out=tmp_path_factory.mktemp("done") / "out", **chosen())
    corpus.run(job)
    return job.out


@pytest.fixture
def job(home: Path, done: Path, tmp_path: Path) -> Job:
    """Of a copy of that OUT."""
    shutil.copytree(done, tmp_path / "out", symlinks=True)
    return corpus.job(home, out=tmp_path / "out", **chosen())


def retarred(job: Job) -> Job:
    """A job that makes another version of what was judged."""
    return replace(job, package=job.package.model_copy(update={"tar_hours": 0.5}))


@pytest.fixture(scope="module")
def undamaged(home: Path, done: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What that version is."""
    out = tmp_path_factory.mktemp("undamaged") / "out"
    shutil.copytree(done, out, symlinks=True)
    return corpus.content(corpus.run(retarred(corpus.job(home, out=out, **chosen())))[0].path)


class Counted(Executor):
    """Calls by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def call(self, call: Call[Any], *args: Any) -> Any:
        self.names.append(call.work.__name__)
        return super().call(call, *args)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.nightly
def test_what_is_foreseen_is_what_a_run_publishes(home: Path, tmp_path: Path, again: bool) -> None:
    """From the outcomes that a run left, and from those decided again; nothing is written."""
    job = corpus.job(home, out=tmp_path / "out", **chosen())
    published, _ = corpus.run(job)
    shards = sorted(manifest.shards(job.out))
    assert len(shards) > 2 * shard_batches.AT_ONCE
    columns = limits.outcomes_schema(job).names
    if again:
        shutil.rmtree(shard_batches.home(job.out))
    before = sorted(job.out.rglob("*"))
    names = ["id", "split", "speaker", "text", "sha256"]
    with foreseen.version(job, shards) as version:
        ledger, outcomes = (
            pa.concat_tables(parts) for parts in (version.ledger(), version.utterances(columns))
        )
        clips = version.clips(names)
    assert sorted(job.out.rglob("*")) == before
    order = [(name, "ascending") for name in ("recording", "start", "end", "utterance")]
    assert pq.read_table(published.path / "ledger.parquet").equals(ledger.sort_by(order))
    rows = pq.read_table(published.path / "utterances.parquet", columns=names)
    assert set(clips["split"].to_pylist()) == {"train", "test"}
    assert clips.sort_by("id").equals(rows.sort_by("id"))
    packaged = outcomes.filter(pc.equal(outcomes["outcome"], "packaged"))
    assert sorted(packaged["id"].to_pylist()) == sorted(rows["id"].to_pylist())


def complete(job: Job, batches: Sequence[ShardBatch]) -> dict[str, dict[str, int]]:
    return batch_outcomes.decide(job, batches, None, left_out=(CorruptManifest,))[1]


@pytest.mark.parametrize("together", [2, tiers.nightly(1)])
def test_a_query_for_many_batches_answers_as_one_for_each(
    job: Job, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a damaged batch takes no other with it."""
    shards = sorted(manifest.shards(job.out))
    with foreseen.version(job, shards) as version:
        batches = version.batches
        assert batch_outcomes.ASKED_TOGETHER >= len(batches) == 3
        whole = [batch.outcomes() for batch in batches]
        turned = batches[0].utterances(["reason", "id", "outcome"])
        assert turned.select(["outcome", "reason"]) == whole[0].select(["outcome", "reason"])
    stored = [replace(batch, decided=None) for batch in batches]
    items = complete(job, stored)
    assert {shards[0], shards[-1]} <= items.keys()
    monkeypatch.setattr(batch_outcomes, "ASKED_TOGETHER", together)
    with foreseen.version(job, shards) as version:
        batches = version.batches
        assert [batch.outcomes() for batch in batches] == whole
    assert complete(job, stored) == items
    corpus.flip(stored[0].home / "limits.arrow", 100)
    left = complete(job, stored)
    assert left == {name: items[name] for name in items if name not in stored[0].shards}


@pytest.mark.full
def test_only_shards_that_changed_are_judged_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(home / "in", tmp_path / "in")
    job = corpus.job(tmp_path, **chosen())
    corpus.run(job)
    counted = Counted()
    monkeypatch.setattr(pipeline, "Executor", lambda: counted)
    corpus.add(tmp_path / "in", COUNT)
    corpus.run(job)
    assert counted.names.count("collect") == 1
    other = replace(job, package=job.package.model_copy(update={"weights": {"c": 0.5}}))
    corpus.run(other)
    assert counted.names.count("collect") == 1, "weights are drawn after it"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *tiers.covering(
            ["rows.arrow", "limits.arrow", "spans.arrow", "facts.json"],
            ["flipped", "gone", "half"],
        ),
        ("facts.json", "[]"),
        ("facts.json", '{"files": {}}'),
    ],
)
@pytest.mark.nightly
def test_damaged_outcomes_are_made_again(
    job: Job, undamaged: dict[str, bytes], name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(shard_batches.home(job.out).rglob(name))
    if how == "gone":
        path.unlink()
    elif how == "flipped":
        corpus.flip(path, path.stat().st_size // 2)
    else:
        path.write_bytes(
            path.read_bytes()[: path.stat().st_size // 2] if how == "half" else how.encode()
        )
    counted = Counted()
    monkeypatch.setattr(pipeline, "Executor", lambda: counted)
    assert corpus.content(corpus.run(retarred(job))[0].path) == undamaged
    assert counted.names.count("collect") == 1, "those of one group, and no others"


def test_a_shard_of_nothing_has_its_place(job: Job, tmp_path: Path) -> None:
    """One of its recordings is broken, the other too short: no row, and a ledger of two."""
    shards = sorted(manifest.shards(job.out))
    groups = [shard_batches.ShardBatch(tmp_path / shard, (shard,)) for shard in shards]
    for group in groups:
        batch_outcomes.collect(job, group)
    groups, _ = batch_outcomes.decide(job, groups, tmp_path)
    counts = [(group.table("rows.arrow").num_rows, group.ledger().num_rows) for group in groups]
    assert (0, 2) in counts
    assert sum(rows for rows, _ in counts) > COUNT // 2
