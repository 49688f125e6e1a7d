"""This process as a client of Prefect: the API that it uses, and what Prefect prints here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
from prefect.client.orchestration import get_client

from flows.progress import handlers
from tasks.base.errors import MillError, RunError

REFUSALS = (401, 403)


def check_api(url: str) -> None:
    """RunError with the remedy when the API at `url` cannot be reached or refuses this client.

    Prefect itself would fail with a traceback in the middle of the run.
    """
    try:
        with get_client(sync_client=True) as client:
            client.request("GET", "/admin/version").raise_for_status()
    except httpx.HTTPStatusError as error:
        raise RunError(_refused(url, error.response.status_code)) from None
    except (httpx.HTTPError, RuntimeError) as error:
        raise RunError(
            f"the Prefect API at {url} cannot be reached ({error}); start it, or unset "
            "PREFECT_API_URL so that the run starts its own server"
        ) from None


def _refused(url: str, status: int) -> str:
    if status not in REFUSALS:
        return f"the Prefect API at {url} answers with status {status}; is it a Prefect server?"
    return (
        f"the Prefect API at {url} refuses this client (status {status}); set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to what the server asks for"
    )


OURS = ("uttermill", "prefect.flow_runs", "prefect.task_runs")


class _NotTwice(logging.Filter):
    """Drops records that the terminal already shows: ours, and errors that end in a sentence.

    Prefect would print them again for each flow and task run. Tracebacks of bugs pass.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith(OURS):
            return False
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, MillError | KeyboardInterrupt)


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Prefect's console handlers print only warnings; its history keeps every record."""
    from prefect.logging.handlers import PrefectConsoleHandler

    twice = _NotTwice()
    with ExitStack() as restore:
        for handler in handlers():
            if isinstance(handler, PrefectConsoleHandler):
                restore.callback(handler.setLevel, handler.level)
                restore.callback(handler.removeFilter, twice)
                handler.setLevel(logging.WARNING)
                handler.addFilter(twice)
        yield
