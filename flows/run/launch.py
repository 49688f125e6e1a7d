"""Launches `run` and `estimate`: starts a Prefect server if wanted, calls the flow, and waits until
Prefect has recorded all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...tasks.base import logs
from ...tasks.base.errors import ConfigError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.process_memory import importing
from ...tasks.plugins import trusted
from ...tasks.settings import StageSettings
from ...tasks.stages.listing import once
from ..checks import check
from ..cluster import spawning
from ..flow_parameters import values
from ..progress import ProgressObserver, waiting
from ..server import few_words
from ..settings import History, PrepareSettings, SampleSettings
from . import execute, run_folder

if TYPE_CHECKING:
    from prefect.flows import Flow

    from ..server.server import LocalServer


CLIENT_RETRIES = 3  # 14 s in all; requests to a server that is restarting wait in its socket
HISTORY_SECONDS = 60.0  # without progress, after which an incomplete history is abandoned
RESTARTED_SECONDS = 10.0  # the same after a restart of the server, which may have lost events


def run(settings: PrepareSettings) -> JsonObject:
    """Check the settings and prepare a dataset; returns what `run --json` prints.

    A run that has nothing to compute ends without a server, workers or a flow run.
    """
    with execute.opened(settings) as opened:
        # The first run into an OUT has something to compute, and a flow run closes the records of
        # one that was killed.
        shown = opened.after_kill and settings.history != "none"
        result = None if opened.new or shown else opened.alone()
        if result is None:
            result = _with_workers(settings, opened, early=not shown)
    del result["task_runs"]
    return result


def estimate(settings: PrepareSettings, wanted: SampleSettings) -> JsonObject:
    """Check the settings, run the flow `estimate` and return its forecast."""
    trusted.trust(settings.model_dump(mode="json"))
    with once.listing():
        with logs.silent():  # the flow warns
            check(settings)
        with _recorded(settings.history) as server:
            from ..estimate import estimate as flow

            result = _run_flow(flow, server, settings, wanted)
    del result["task_runs"]
    return result


def _with_workers(settings: PrepareSettings, opened: execute.Body, early: bool) -> JsonObject:
    """Run on workers, which start in parallel with the server if `early`, else on first use."""
    if settings.history == "none":
        with importing():  # Dask with it
            from . import cluster_executor  # noqa: F401

        opened.start_workers()
        return opened.work(lambda job, progress, folder: ProgressObserver(progress, folder))
    with _recorded(settings.history, opened if early else None) as server:
        from ..prepare import prepare as flow

        token = execute.current.set(opened)
        try:
            result = _run_flow(flow, server, settings)
            run_folder.close_prefect_note(opened.run.place)
            return result
        finally:
            execute.current.reset(token)


@contextmanager
def _recorded(wanted: History, opened: execute.Body | None = None) -> Iterator[LocalServer | None]:
    """Give Prefect its API: the configured server (yields None), or a server of this run;
    meanwhile, the workers of `opened` start."""
    # Here because they import Prefect, which takes a second.
    with importing(), spawning.environment(few_words.ENVIRONMENT):
        from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

        from ..server import kept
        from ..server.server import LocalServer, check_api, configured_url, using

    configured = None if wanted == "own" else configured_url()
    if wanted == "server" and configured is None:
        raise ConfigError(
            "history: server needs a Prefect server; set PREFECT_API_URL, or history: own or none"
        )
    if configured is not None:
        check_api(configured)  # a clear refusal before anything starts
        if opened is not None:
            opened.start_workers()
        yield None
        return
    with LocalServer(kept_minutes=kept.minutes()) as server:
        if opened is not None:
            opened.start_workers()
        with waiting("Prefect's server starts"):
            with importing():
                from .. import prepare  # noqa: F401 - meanwhile
            url = server.wait_ready()
        patience = temporary_settings({PREFECT_CLIENT_MAX_RETRIES: CLIENT_RETRIES})
        try:
            with using(url, server.auth), patience:
                yield server
        except Exception as error:
            if not server.lost:
                raise
            raise RunError(
                "the run's Prefect server ended and did not start again "
                f"({server.lost}); finished work is kept: run again to continue from there"
            ) from error


def _run_flow(
    flow: Flow[..., JsonObject], server: LocalServer | None, *settings: StageSettings
) -> JsonObject:
    """Run a flow with these settings; returns its result once Prefect has recorded it."""
    from ..server import history
    from ..server.server import quiet

    with quiet():
        try:
            state: Any = flow(**values(*settings), return_state=True)
        except BaseException:  # an interrupt, or a server that is gone
            if server is None or not server.lost:
                history.drain(timeout=10)
            raise
        timeout = RESTARTED_SECONDS if server is not None and server.restarts else HISTORY_SECONDS
        run_id = state.state_details.flow_run_id
        if state.is_completed():
            result: JsonObject = state.result()
            expected: int = result["task_runs"]
            whole = history.wait_until_recorded(run_id, expected=expected, timeout=timeout)
            if not whole and server is not None and server.restarts:
                history.complete(run_id)
            return result
        history.wait_until_recorded(run_id, timeout=timeout)
        state.result(raise_on_failure=True)
        raise AssertionError("a flow run that is not completed raises its error")
