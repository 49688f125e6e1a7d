"""The flow `prepare`: shard; then filter, resample and transcribe for each shard; then package."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from prefect import flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from ..tasks import plugins
from ..tasks.base.json_types import JsonObject
from ..tasks.settings.job import Job
from .flow_parameters import among, takes
from .run import execute, run_folder
from .run.task_run_groups import TaskRunObserver
from .server import artifacts, history, server
from .settings import PrepareSettings


@flow(name="prepare", persist_result=False, **artifacts.SUMMARISED)
@takes(
    PrepareSettings,
    history="Where `uttermill run` records itself; a flow run that Prefect started is recorded "
    "where Prefect is.",
)
def prepare(**parameters: Any) -> JsonObject:
    """Raw recordings in, a verified dataset version out.

    Safe to run again at any time: finished work is reused, missing work is done.
    """
    if execute.current.get() is None:
        server.in_sentences()
    settings = among(PrepareSettings, parameters)
    scheduled = (current := history.current_run()) is not None and current.auto_scheduled
    waits = partial(artifacts.remark, level=logging.INFO) if scheduled else None
    with execute.opened(settings, waits) as run:
        record(run.job, "prepare", run.run.place)
        try:
            return run.work(TaskRunObserver)
        finally:  # while it holds OUT, whose next run takes runs without a noted end for dead
            if execute.current.get() is None:  # else the command waits for Prefect's records first
                run_folder.close_prefect_note(run.run.place)


def record(job: Job, kind: str, place: Path) -> None:
    """Name this flow run, unless a person did, note it in the run's folder `place`, and close the
    records of dead runs of the same OUT. `kind`: prepare or estimate."""
    if (run := history.current_run()) is not None:
        datasets = [dataset.name for dataset in plugins.datasets(job.sources)]
        name = history.flow_run_name(run.name, kind, datasets, datetime.now().astimezone())
        run_folder.write_prefect_note(place, str(run.id))
        # Without these, the run still does its work; of a server that is gone, its end says so.
        few = temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1})
        with few, suppress(httpx.HTTPError):
            if name != run.name:
                history.rename(run.id, name)
            history.close_dead_runs(job.out, run.id)
