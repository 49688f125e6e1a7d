"""Launches a local run: a Prefect server where none is configured, the flow, its whole history."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flows.run import disk
from flows.settings import PrepareSettings, check
from tasks.errors import RunError

if TYPE_CHECKING:
    from flows.server.server import LocalServer


CLIENT_RETRIES = 3  # 14 s in all; requests to a server that is restarting wait in its socket
HISTORY_SECONDS = 60.0  # without progress, after which an incomplete history is given up
RESTARTED_SECONDS = 10.0  # the same after the server was restarted, which may have lost events


def run(settings: PrepareSettings, name: str = "prepare", **more: Any) -> dict[str, Any]:
    """Check the settings, run the flow `prepare` or `estimate`, and return its result once its
    history is recorded. `more` are further parameters of the flow."""
    job = check(settings)  # before anything starts
    if name == "prepare":
        disk.check(job, settings.cluster)
    # Imported here because they import Prefect, which takes a second.
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from flows.server import api
    from flows.server.server import LocalServer, configured_url

    if (configured := configured_url()) is not None:
        api.check(configured)  # a clear refusal before anything starts
        return _flow(settings, None, name, more)
    with LocalServer.start() as server:
        import_module(f"flows.{name}")  # while the server starts
        url = server.wait_ready()
        values = {PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: CLIENT_RETRIES}
        with temporary_settings(values):
            try:
                return _flow(settings, server, name, more)
            except Exception as error:
                if not server.lost:
                    raise
                raise RunError(
                    "the run's Prefect server ended and did not start again "
                    f"({server.lost}); finished work is kept: run again to continue from there"
                ) from error


def _flow(
    settings: PrepareSettings, server: LocalServer | None, name: str, more: dict[str, Any]
) -> dict[str, Any]:
    from flows.server import history
    from flows.server.console import quiet

    flow = getattr(import_module(f"flows.{name}"), name)
    parameters = {field: getattr(settings, field) for field in type(settings).model_fields}
    with quiet():
        try:
            state: Any = flow(**parameters, **more, return_state=True)
        except BaseException:  # an interrupt, or a server that is gone
            if server is None or not server.lost:
                history.drain(timeout=10)
            raise
        timeout = RESTARTED_SECONDS if server is not None and server.restarts else HISTORY_SECONDS
        run_id = state.state_details.flow_run_id
        if state.is_completed():
            result: dict[str, Any] = state.result()
            history.settle(run_id, expected=result.pop("task_runs"), timeout=timeout)
            return result
        history.settle(run_id, timeout=timeout)
        state.result(raise_on_failure=True)
        raise AssertionError("a flow run that is not completed raises its error")
