"""infra/prefect.yaml: accepted by a real server, and it deploys what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule

from flows.server.server import LocalServer

ROOT = Path(__file__).parents[1]


def prefect(server: LocalServer, folder: Path, *arguments: str) -> str:
    command = "from prefect.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-prompt", *arguments],
        cwd=folder,
        env={**os.environ, "PREFECT_API_URL": server.url},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.server
def test_all_deployments_are_accepted(prefect_api: LocalServer) -> None:
    # Other tests of the session may have made the pool.
    pool = ("work-pool", "create", "default", "--type", "process", "--overwrite")
    prefect(prefect_api, ROOT, *pool)
    prefect(prefect_api, ROOT, "deploy", "--all", "--prefect-file", "infra/prefect.yaml")
    with get_client(sync_client=True) as client:
        nightly = client.read_deployment_by_name("prepare/prepare-nightly")
        manual = client.read_deployment_by_name("prepare/prepare-manual")
        sample = client.read_deployment_by_name("estimate/prepare-sample")
    (schedule,) = nightly.schedules
    assert isinstance(schedule.schedule, CronSchedule)
    assert schedule.schedule.cron == "0 2 * * *"
    assert schedule.schedule.timezone
    assert manual.schedules == []
    assert nightly.entrypoint == manual.entrypoint == "flows.prepare:prepare"
    assert sample.entrypoint == "flows.estimate:estimate"
    assert sample.schedules == []
    for deployment in (nightly, manual, sample):
        assert deployment.work_pool_name == "default"
        assert deployment.description
        assert deployment.global_concurrency_limit is not None
        assert deployment.global_concurrency_limit.limit == 1
        assert deployment.concurrency_options is not None
        assert deployment.concurrency_options.collision_strategy == "ENQUEUE"
        assert {"sources", "out", "cluster"} <= set(deployment.parameters)
    assert nightly.parameters == manual.parameters
    sampled = {"fraction": 0.005, "least": 50}
    assert sample.parameters == {**manual.parameters, **sampled}
    # The form of each has every field that its parameters fill.
    for deployment in (nightly, manual, sample):
        assert deployment.parameter_openapi_schema is not None
        assert set(deployment.parameters) <= set(deployment.parameter_openapi_schema["properties"])
