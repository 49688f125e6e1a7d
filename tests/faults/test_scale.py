"""More shards than one flow run shows: they share task runs, and its history stays small."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.faults.command import Site, flow_runs, still_open, task_runs
from tests.helpers import corpus
from uttermill.flows.run import task_run_groups
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages.listing import shard_choice
from uttermill.tasks.stages.stage import PER_SHARD

pytestmark = [pytest.mark.server, pytest.mark.cluster]

SECONDS = 0.3


@pytest.mark.parametrize(
    ("most", "count"),
    [(12, 15), pytest.param(task_run_groups.MOST_GROUPS, 110, marks=pytest.mark.nightly)],
)
@pytest.mark.nightly
def test_more_shards_than_a_flow_run_shows_share_task_runs(
    site: Site,
    shared_cluster: dict[str, Any],
    most: int,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task run costs its server 50 ms of CPU, so that by day a flow run shows fewer shards."""
    monkeypatch.setattr(task_run_groups, "MOST_GROUPS", most)
    assert count > most
    for number in range(count):
        path = site.source / f"r{number:03d}.wav"
        sf.write(path, corpus.speech(number, SECONDS, 8000), 8000, "PCM_16")
    settings = site.settings(
        "out",
        shard={"settle_seconds": 0, "hours": SECONDS / 3600},
        package={"tar_hours": 0.01},
        cluster=shared_cluster,
    )
    out = site.home / "out"
    first = site.done(settings)
    assert first.result["utterances"]["packaged"] == count
    # A size that was asked for has no lower bound; one minute is the least of the default only.
    assert all(first.result["stages"][stage]["shards_run"] == count for stage in PER_SHARD)

    assert [run["state_type"] for run in flow_runs(site.api, out)] == ["COMPLETED"]
    runs = task_runs(site.api, out)
    groups = -(-count // 2)  # of two shards each
    assert groups <= most < count
    assert len(runs) == len(PER_SHARD) * groups + 2
    assert any(" · 2 shards, 000000 to 000001 · " in run["name"] for run in runs)
    assert Counter(run["state_name"] for run in runs) == {"Completed": len(runs)}
    assert still_open(site.api, out) == []

    again = site.done(settings)
    assert not again.result["new_version"]
    assert len(task_runs(site.api, out)) == len(runs), "none: it was decided before Prefect began"
    assert f"{count} of {count} shards are unchanged; they are skipped" in again.stderr
    for stage in PER_SHARD:
        counts = again.result["stages"][stage]
        assert counts == {**counts, "shards_reused": count, "items_reused": count, "shards_run": 0}

    sf.write(site.source / "new.wav", corpus.speech(count, SECONDS, 8000), 8000, "PCM_16")
    grown = site.done(settings)
    assert len(task_runs(site.api, out)) == len(runs) + 2 + len(PER_SHARD), (
        "none for a shard that lacks nothing"
    )
    assert grown.result["stages"]["filter"]["shards_run"] == 1

    rows = [
        r
        for name in manifest.shards(out)
        for r in manifest.read(out, "shard", name)[-1].table.to_pylist()
    ]
    assert len(rows) == count + 1
    seconds = np.array([row["header_seconds"] for row in rows])
    names = pa.array([row["recording"] for row in rows])
    assert shard_choice.assigned(seconds, names, SECONDS / 3600)[1] == count + 1
    assert shard_choice.assigned(seconds, names, None)[1] == 1  # half a minute in all
