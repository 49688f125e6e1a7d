"""More shards than one flow run takes: child flow runs, and a history that holds all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from flows.prepare import SHARDS_PER_FLOW
from tasks.checkpoints import manifest
from tasks.listing import balance
from tasks.stages.stage import PER_SHARD
from tests import corpus
from tests.faults.command import Site, flow_runs, still_open, task_runs

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = SHARDS_PER_FLOW + 10
SECONDS = 0.3


def test_shards_beyond_one_flow_run_go_through_children(
    site: Site, shared_cluster: dict[str, Any]
) -> None:
    for number in range(COUNT):
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
    assert first.result["utterances"]["packaged"] == COUNT
    # A size that was asked for has no lower bound; one minute is the least of the default only.
    assert all(first.result["stages"][stage]["shards_run"] == COUNT for stage in PER_SHARD)

    roots, children = flow_runs(site.api, out)
    assert [run["state_type"] for run in roots] == ["COMPLETED"]
    assert len(children) == -(-COUNT // SHARDS_PER_FLOW)
    assert {run["state_type"] for run in children} == {"COMPLETED"}
    runs = task_runs(site.api, out)
    assert len(runs) == len(PER_SHARD) * COUNT + 2
    assert Counter(run["state_name"] for run in runs) == {"Completed": len(runs)}
    assert still_open(site.api, out) == []
    print(f"\n{first.seconds:.1f} s for {len(runs)} task runs")

    again = site.done(settings)
    assert not again.result["new"]
    assert len(task_runs(site.api, out)) == len(runs), "none: it was decided before Prefect began"
    assert f"{COUNT} of {COUNT} shards are as the last run left them" in again.stderr
    for stage in PER_SHARD:
        counts = again.result["stages"][stage]
        assert counts == {**counts, "shards_reused": COUNT, "items_reused": COUNT, "shards_run": 0}
    print(f"{again.seconds:.1f} s for a run with nothing to do")

    sf.write(site.source / "new.wav", corpus.speech(COUNT, SECONDS, 8000), 8000, "PCM_16")
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
    assert len(rows) == COUNT + 1
    seconds = np.array([row["header_seconds"] for row in rows])
    names = pa.array([row["recording"] for row in rows])
    assert balance.assigned(seconds, names, SECONDS / 3600)[1] == COUNT + 1
    assert balance.assigned(seconds, names, None)[1] == 1  # half a minute in all
