"""The five Prefect tasks: thin guards in the flow's process; the work is done on Dask workers.

The only file of `tasks/` that knows Prefect. Its result cache is off: the Parquet manifests are the
only truth, so that a UI rerun, a schedule and a local run resume alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext
from prefect.states import Completed

from tasks import pipeline
from tasks.job import Done, Job
from tasks.pipeline import Caller
from tasks.settled import Settled
from tasks.stages import stage

OPTIONS: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
LABEL = "{label}"


def _tag(name: str) -> None:
    """The stage as the tag of this task run; it shows when the task run ends.

    Not an option of the task: Prefect looks for a limit of the tag before each task run begins
    (182 of them: 16 requests and 0.4 s of CPU more). One that a task run gets while it runs is
    sent with its last state, and costs no request.
    """
    context = TaskRunContext.get()
    if context is not None:
        context.task_run.tags.append(name)


def _state(done: Done, result: Any) -> Any:
    """`Reused` when nothing had to be computed, so that the UI shows what a rerun cost."""
    message = f"{done.computed} items computed, {done.reused} reused"
    return Completed(name="Completed" if done.ran else "Reused", message=message, data=result)


def value(state: Any) -> Any:
    """What a task returned: Prefect hands out the state as it was returned."""
    return state.result()


@task(name="shard", task_run_name="shard", **OPTIONS)
def shard(job: Job, caller: Caller, scratch: Path) -> Any:
    _tag("shard")
    found = pipeline.run_shard_stage(job, caller, scratch)
    return _state(found.done, found)


def _per_shard(name: str) -> Any:
    @task(name=name, task_run_name=LABEL, **OPTIONS)
    def run(
        job: Job, shard_id: str, seconds: float, caller: Caller, label: str, sure: bool,
        there: int | None = None,
    ) -> Any:  # fmt: skip
        _tag(name)
        done = pipeline.run_stage(job, shard_id, seconds, caller, name, sure, there)
        return _state(done, done)

    return run


PER_SHARD = {name: _per_shard(name) for name in stage.PER_SHARD}


@task(name="package", task_run_name="package", **OPTIONS)
def package(job: Job, shards: list[str], caller: Caller, scratch: Path, state: Settled) -> Any:
    _tag("package")
    published = pipeline.run_package_stage(job, shards, caller, scratch, state)
    return _state(published.done, published)
