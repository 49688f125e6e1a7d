"""A local run: a Prefect server for it where none is configured, the flow, its whole history."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from flows.run import disk
from flows.settings import PrepareSettings, check
from tasks.errors import MillError, RunError

if TYPE_CHECKING:
    from flows.server.server import LocalServer


CLIENT_RETRIES = 3  # 14 s in all; requests to a server that starts again wait without any
MENDED_SECONDS = 10.0  # a killed server may have lost events: wait no minute for them


def run(settings: PrepareSettings, name: str = "prepare", **more: Any) -> dict[str, Any]:
    """Check settings, run the flow of this name, `prepare` or `estimate`, with `more` parameters,
    and leave only when its history is recorded."""
    job = check(settings)  # before anything starts
    if name == "prepare":
        disk.check(job, settings.cluster)
    from flows.server.server import LocalServer, configured_url  # imports Prefect: a second

    if (configured := configured_url()) is not None:
        from flows.server import api

        api.check(configured)  # a refusal in a sentence, before anything starts
        return _flow(settings, None, name, more)
    with LocalServer.start() as server:
        import_module(f"flows.{name}")  # while the server starts

        with _using(server.wait_ready()):
            try:
                return _flow(settings, server, name, more)
            except Exception as error:
                if not server.lost:
                    raise
                raise RunError(
                    "the run's Prefect server ended and did not start again "
                    f"({server.lost}); what was made is kept: run it again to go on from there"
                ) from error


@contextmanager
def _using(url: str) -> Iterator[None]:
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    values = {PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: CLIENT_RETRIES}
    with temporary_settings(values):
        yield


def _flow(
    settings: PrepareSettings, server: LocalServer | None, name: str, more: dict[str, Any]
) -> dict[str, Any]:
    from flows.server import history

    flow = getattr(import_module(f"flows.{name}"), name)

    hush()
    try:
        state: Any = flow(
            **{field: getattr(settings, field) for field in type(settings).model_fields},
            **more, return_state=True,
        )  # fmt: skip
    except BaseException:  # an interrupt, or a server that is gone
        if server is None or not server.lost:
            history.drain(timeout=10)
        raise
    timeout = MENDED_SECONDS if server is not None and server.restarts else 60.0
    run_id = state.state_details.flow_run_id
    if state.is_completed():
        result: dict[str, Any] = state.result()
        history.settle(run_id, expected=result.pop("task_runs"), timeout=timeout)
        return result
    history.settle(run_id, timeout=timeout)
    state.result(raise_on_failure=True)
    raise AssertionError("a flow that is not completed raises its error")


class _NotTwice(logging.Filter):
    """The terminal has our own records already, the sentence of an error for a person, and a
    traceback where the error is a bug: Prefect would print all of it again, run by run."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith(("uttermill", "prefect.flow_runs", "prefect.task_runs")):
            return False
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, MillError | KeyboardInterrupt)


def hush() -> None:
    """Prefect's own lines stay in its history; the terminal shows warnings and our bars."""
    from prefect.logging.handlers import PrefectConsoleHandler

    for logger in [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]:
        for handler in logger.handlers:
            if isinstance(handler, PrefectConsoleHandler):
                handler.setLevel(logging.WARNING)
                handler.addFilter(_NotTwice())
