"""Launches `run` and `estimate`: starts a Prefect server if wanted, calls the flow, and waits until
Prefect has recorded all of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ...tasks.base import logs
from ...tasks.base.errors import ConfigError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.base.process_memory import importing
from ...tasks.plugins import trusted
from ...tasks.settings import StageSettings
from ...tasks.stages.listing import entries
from ..checks import check
from ..flow_parameters import values
from ..progress import Progress, waiting
from ..server import import_prefect
from ..settings import History, PrepareSettings, SampleSettings
from . import execute, run_folder

if TYPE_CHECKING:
    from prefect.flows import Flow

    from ..server.server import LocalServer


HISTORY_SECONDS = 60.0  # without progress, after which an incomplete history is abandoned
#: Set when a run outlived its Prefect server, and when a server did not record all of it in time:
#: threads of Prefect's would try for minutes to send what they have, and a process that is about to
#: end must not wait for them.
server_gone, unsent = threading.Event(), threading.Event()
RESTART_SECONDS = 2.0  # that a server of this run may be away at its end, and still record it
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
    trusted.trust(settings.model_dump(mode="json"))
    with entries.listed_once():
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
        return opened.work(lambda job, folder: Progress(folder=folder))
    with _recorded(settings.history, opened if early else None) as server:
        from ..prepare import prepare as flow

        token = execute.current.set(opened)
        try:
            result = _run_flow(flow, server, settings)
            if not server_gone.is_set():  # else the next run of this OUT closes its record
                run_folder.close_prefect_note(opened.run.place)
            return result
        finally:
            execute.current.reset(token)


@contextmanager
def _recorded(wanted: History, opened: execute.Body | None = None) -> Iterator[LocalServer | None]:
    """Give Prefect its API: the configured server (yields None), or one of this run; meanwhile, the
    workers of `opened` start."""
    # Here because they import Prefect, which takes a second.
    import_prefect()
    with importing():
        from ..server.server import LocalServer, check_api, configured_url, quiet, using

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
    with ExitStack() as silent, LocalServer() as server:
        if opened is not None:
            opened.start_workers()
        with waiting("Prefect's server starts"):
            with importing():
                from .. import prepare  # noqa: F401 - meanwhile
            url = server.wait_ready()
        silent.enter_context(quiet())  # until it has stopped; only now has Prefect its handlers
        with using(url, server.auth):
            yield server


def _run_flow(
    flow: Flow[..., JsonObject], server: LocalServer | None, *settings: StageSettings
) -> JsonObject:
    """The flow's result, once Prefect has recorded it, or if its server is gone."""
    from httpx import HTTPError
    from prefect.exceptions import PrefectException, TerminationSignal

    from ..server import history
    from ..server.server import quiet

    server_gone.clear()  # a program may run several times
    unsent.clear()
    # A server of this run starts again.
    with quiet(), history.Outcome(RESTART_SECONDS if server is not None else 0.0) as outcome:
        try:
            state: Any = outcome.noting(flow)(**values(*settings), return_state=True)
            restarted = server is not None and server.restarts > 0
            timeout = RESTARTED_SECONDS if restarted else HISTORY_SECONDS
            # Until Prefect has recorded all of it.
            run_id = state.state_details.flow_run_id
            result = outcome.result
            expected = None if result is None else result["task_runs"]
            whole = history.wait_until_recorded(run_id, expected=expected, timeout=timeout)
            if not whole:
                unsent.set()
                if result is not None:
                    history.complete(run_id)
        except (HTTPError, PrefectException) as error:
            if outcome.result is None and outcome.error is None:
                server_gone.set()
                raise RunError(
                    f"Prefect's server ended before the run began ({error}); start it and run "
                    "again, or do without it: --set history=none"
                ) from error
        except BaseException:  # an interrupt
            if outcome.server_gone or not history.answers():
                server_gone.set()
            else:
                history.drain(timeout=10)
            raise
        else:
            if outcome.result is not None:
                return outcome.result
            state.result(raise_on_failure=True)
            raise AssertionError("a flow run that is not completed raises its error")
        server_gone.set()
        if server is None or not server.lost:  # of a lost one that was said
            log.warning("Prefect's server does not answer: it does not show how this run ended")
        if outcome.result is not None:
            return outcome.result
        assert outcome.error is not None
        if isinstance(outcome.error, TerminationSignal):  # else Prefect repeats it at its end
            signal.raise_signal(outcome.error.signal)
        raise outcome.error
