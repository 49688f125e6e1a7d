"""A local run: a Prefect server for it where none is configured, the flow, its whole history."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

from flows.settings import PrepareSettings, check
from tasks.errors import MillError


def run(settings: PrepareSettings) -> dict[str, Any]:
    """Check settings, run the flow `prepare`, and leave only when its history is recorded."""
    check(settings)  # before anything starts
    from flows.server import LocalServer, configured_url, using  # imports Prefect: a second

    with ExitStack() as stack:
        if configured_url() is None:
            server = stack.enter_context(LocalServer.start())
            from flows.prepare import prepare

            stack.enter_context(using(server.wait_ready()))
        else:
            from flows.prepare import prepare
        _hush()
        from flows import history

        try:
            state: Any = prepare(
                **{name: getattr(settings, name) for name in type(settings).model_fields},
                return_state=True,
            )
        except BaseException:  # an interrupt
            history.drain(timeout=10)
            raise
        run_id = state.state_details.flow_run_id
        if state.is_completed():
            result: dict[str, Any] = state.result()
            history.settle(run_id, expected=result.pop("task_runs"))
            return result
        history.settle(run_id)
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


def _hush() -> None:
    """Prefect's own lines stay in its history; the terminal shows warnings and our bars."""
    from prefect.logging.handlers import PrefectConsoleHandler

    for logger in [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]:
        for handler in logger.handlers:
            if isinstance(handler, PrefectConsoleHandler):
                handler.setLevel(logging.WARNING)
                handler.addFilter(_NotTwice())
