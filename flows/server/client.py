"""This process as a client of Prefect: the API that it uses, and what Prefect prints here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import httpx
from prefect.client.orchestration import get_client

from flows.progress import handlers
from tasks.base.errors import MillError, RunError
from tasks.base.logs import log

REFUSALS = (401, 403)
BUSY = (408, 429, 502, 503, 504)
#: s before each further try. Prefect's client has tried each request for some seconds by then.
WAITS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)

Result = TypeVar("Result")


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


def with_retries(
    call: Callable[[], Result], what: str, sleep: Callable[[float], object] = time.sleep
) -> Result:
    """Return `call()`; while the server is too busy to answer it, call it again after WAITS.

    `call` must be safe to repeat. RunError when the server is still busy after the last try;
    other errors are raised at once. `what` (for example `a child flow run`) is for messages.
    """
    for wait in (*WAITS, None):
        try:
            return call()
        except (httpx.HTTPStatusError, httpx.TimeoutException) as error:
            fault = _busy(error)
            if fault is None:
                raise
            if wait is None:
                raise RunError(
                    f"the Prefect server is too busy for {what}: {fault}, {len(WAITS) + 1} times "
                    f"in {sum(WAITS):.0f} s or more; give the server more CPU or a PostgreSQL "
                    "database, then run again to continue from here"
                ) from error
            log.warning("the Prefect server is busy (%s); %s is tried again", fault, what)
            sleep(wait)
    raise AssertionError("unreachable")


def _busy(error: httpx.HTTPStatusError | httpx.TimeoutException) -> str | None:
    """How a busy server failed a request; None when the error means something else."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return f"status {status}" if status in BUSY else None
    return "no answer in time"


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
