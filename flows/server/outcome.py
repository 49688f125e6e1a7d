"""How a flow's function ended, for a command that outlives Prefect's server.

Without a server, Prefect's engine raises its own error in place of the function's result or error,
and only after a minute of tries.
"""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from functools import wraps
from typing import Any

import httpx
from prefect.context import FlowRunContext
from prefect.flows import Flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from ...tasks.base.json_types import JsonObject
from . import live_artifacts

RECORD_SECONDS = 10.0  # that an API may take to write something
LAST_SECONDS = 2.0  # of each last request to an API that does not


class Outcome(ExitStack):
    """A context manager around one call of `noting(flow)`. `patience`: s that the server may be
    away when the flow ends, and still record its end."""

    def __init__(self, patience: float) -> None:
        super().__init__()
        self._patience = patience
        self.result: JsonObject | None = None
        self.error: BaseException | None = None
        self.server_gone = False

    def noting(self, flow: Flow[..., JsonObject]) -> Flow[..., JsonObject]:
        """The flow, which notes here how its function ends. If Prefect's server does not answer
        then, or records nothing, the engine tries each of its last requests only once."""

        @wraps(flow.fn)
        def run(**parameters: Any) -> JsonObject:
            try:
                self.result = flow.fn(**parameters)
                return self.result
            except BaseException as error:
                self.error = error
                raise
            finally:
                if not answers(0.0 if self.error else self._patience) or not _records():
                    self.server_gone = True
                    self.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))
                    if (context := FlowRunContext.get()) is not None:
                        context.client._client.timeout = LAST_SECONDS

        noting: Any = copy.copy(flow)
        noting.fn = run
        noted: Flow[..., JsonObject] = noting
        return noted


def answers(seconds: float = 0.0) -> bool:
    """Whether the API answers now, or within `seconds`."""
    until = time.monotonic() + seconds
    while not _answers_now():
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)
    return True


def _records() -> bool:
    """Whether the API still writes to its database, which may be locked, or away: it changes
    nothing of the flow run."""
    run = live_artifacts.current_run()
    if run is None:
        return True
    try:
        with live_artifacts.one_try(RECORD_SECONDS) as client:
            client.request("PATCH", "/flow_runs/{id}", path_params={"id": run.id}, json={})
    except httpx.TimeoutException:
        return False
    except (httpx.HTTPError, OSError):  # its last requests will say more
        return True
    return True


def _answers_now() -> bool:
    try:
        with live_artifacts.one_try(seconds=2.0) as client:
            client.request("GET", "/health")
    except httpx.HTTPStatusError:
        return True
    except (httpx.HTTPError, OSError):
        return False
    return True
