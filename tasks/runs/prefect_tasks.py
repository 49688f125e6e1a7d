"""The five Prefect tasks: each stands for one step of a run in Prefect's history.

The only file of `tasks/` that imports Prefect. Prefect's result cache is off: only the Parquet
manifests count, so that a rerun from the UI, a schedule and a local run resume alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext
from prefect.states import Cancelled, Completed

from ..base.counting import counted
from ..settings.job import Done
from ..stages.contract import STAGES
from .executor import Step


def _task(name: str) -> Any:
    @task(name=name, task_run_name="{label}", cache_policy=NO_CACHE, persist_result=False)
    def run(label: str, work: Callable[[], Any]) -> Any:
        # Not an option of the task: Prefect checks for a limit of the tag before each task run (for
        # 182 of them: 16 requests and 0.4 s of CPU more). A tag added while a task run runs is sent
        # with its last state, and costs no request.
        if (context := TaskRunContext.get()) is not None:
            context.task_run.tags.append(name)
        if (result := work()) is None:
            return Cancelled(message="The run was stopped before this had ended.")
        done = result if isinstance(result, Done) else result.done
        return Completed(
            # So that the UI shows what a rerun cost.
            name="Completed" if done.ran else "Reused",
            message=f"{counted(done.computed, 'item')} computed, {done.reused} reused",
            data=result,
        )

    return run


TASKS = {name: _task(name) for name in STAGES}


def run(name: str, label: str, work: Callable[[], Step]) -> Step:
    """Run a step as a task run, within a flow run; returns its result."""
    stops: list[BaseException] = []

    def stoppable() -> Step | None:
        try:
            return work()
        except Exception:
            raise
        except BaseException as stop:  # Cancel, SIGTERM, Ctrl-C: Prefect would show a crash
            stops.append(stop)
            return None

    state = TASKS[name](label, stoppable)  # a task returns the state
    if stops:
        raise stops[0]
    result: Step = state.result()
    return result
