"""The one artifact of a run in Prefect: created after some seconds, updated during the run, and
turned into a summary when the run fails, crashes or is cancelled.

Requests are few, because they would dominate short runs: one in a run of some seconds, six per
minute in a long run. Only the last is awaited, briefly.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import Artifact, FlowRun
from prefect.client.schemas.objects import State as PrefectState
from prefect.context import FlowRunContext
from prefect.flows import Flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities.urls import url_for

from flows.progress import Progress
from flows.server.artifacts import DONE, State, failure, markdown
from tasks.json_types import JsonObject
from tasks.logs import log

KEY = "uttermill-progress"
FIRST_SECONDS = 4.0  # a run with nothing to do is over by then
EVERY_SECONDS = 10.0
CLOSE_SECONDS = 5.0  # that the end of a run waits for its last update
CLIENT: JsonObject = {"timeout": 20.0}


class LiveArtifact:
    """Context manager within a flow run: posts its progress, in a thread.

    The first update that fails is logged; the run continues. Outside of a flow run it does
    nothing.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._began = time.monotonic()
        context = FlowRunContext.get()
        self._run = context.flow_run if context else None
        self._progress: Progress | None = None
        self._last: tuple[JsonObject, Path | None] | None = None
        self._over = threading.Event()
        self._failed = False
        # In an empty context the thread would know no API, and Prefect would start a server.
        context_of_run = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context_of_run.run, args=(self._keep,), name="artifact", daemon=True
        )

    def watch(self, progress: Progress) -> None:
        """Post the numbers of this progress."""
        self._progress = progress

    def finish(self, result: JsonObject, report: Path | None) -> None:
        """The run is done: its last update shows the result."""
        self._last = (result, report)

    def __enter__(self) -> Self:
        if self._run is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._run is not None:
            self._thread.join(CLOSE_SECONDS)

    def _text(self) -> str:
        result, report = self._last or (None, None)
        stages = self._progress.standing() if self._progress else ()
        link = url_for("flow-run", obj_id=self._run.id) if self._run else None
        seconds = time.monotonic() - self._began
        return markdown(State(self._out, seconds, stages, result, report, link))

    def _keep(self) -> None:
        assert self._run is not None
        known: UUID | None = None
        wait = FIRST_SECONDS
        with ExitStack() as stack:
            client: SyncPrefectClient | None = None
            while not (over := self._over.wait(wait)) or self._progress is not None:
                wait = EVERY_SECONDS
                try:
                    if client is None:
                        client = stack.enter_context(one_try())
                    if known is None and self._run.run_count > 1:  # an earlier attempt made one
                        known = _id(_found(client, self._run.id))
                    known = post(client, self._run.id, known, self._text())
                except Exception as error:  # whatever it is, the run continues
                    if not self._failed:
                        log.warning("the run's artifact in Prefect was not updated: %s", error)
                    self._failed = True
                if over:
                    return


@contextmanager
def one_try() -> Iterator[SyncPrefectClient]:
    """A client whose requests are not tried again."""
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(httpx_settings=CLIENT, sync_client=True) as client,
    ):
        yield client


def post(
    client: SyncPrefectClient,
    run: UUID,
    known: UUID | None,
    text: str,
    key: str | None = KEY,
    about: str = "Progress of the run, and its result.",
) -> UUID:
    """Create an artifact of a flow run, or update the text of a known one; returns its id."""
    # Not the client's own methods, which also send an event with the whole text.
    if known is not None:
        reply = client.request(
            "PATCH", "/artifacts/{id}", path_params={"id": known}, json={"data": text}
        )
        reply.raise_for_status()
        return known
    made = {"key": key, "type": "markdown", "description": about, "data": text}
    reply = client.request("POST", "/artifacts/", json={**made, "flow_run_id": str(run)})
    reply.raise_for_status()
    return UUID(reply.json()["id"])


def _found(client: SyncPrefectClient, run: UUID) -> Artifact | None:
    """The artifact that the flow run already has."""
    which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}, "key": {"any_": [KEY]}})
    found = client.read_artifacts(artifact_filter=which, limit=1)
    return found[0] if found else None


def _id(artifact: Artifact | None) -> UUID | None:
    return artifact.id if artifact else None


def note(text: str) -> None:
    """Make the artifact of a flow run that has one result, at its end; otherwise do nothing."""
    context = FlowRunContext.get()
    if not context or not context.flow_run:
        return
    try:
        with one_try() as client:
            run = context.flow_run.id
            post(client, run, _id(_found(client, run)), text)
    except Exception as error:  # whatever it is, the run did its work
        log.warning("the run's artifact in Prefect was not made: %s", error)


def summarise(flow: Flow[..., object], flow_run: FlowRun, state: PrefectState[object]) -> None:
    """Prefect's hook for a flow run that failed, crashed or was cancelled.

    After a crash or a cancel Prefect calls it in the process of its worker or of `serve`, because
    the process of the run is gone.
    """
    what = (
        "was cancelled"
        if state.is_cancelled() or state.is_cancelling()
        else ("crashed" if state.is_crashed() else "failed")
    )
    try:
        with one_try() as client:
            found = _found(client, flow_run.id)
            before = str(found.data) if found else ""
            if what == "was cancelled" and before.startswith(DONE):
                return  # it had already finished
            error = getattr(state.data, "result", state.data)  # most often a record of the result
            error = error if isinstance(error, Exception) else state.message
            link = url_for("flow-run", obj_id=flow_run.id)
            post(client, flow_run.id, _id(found), failure(what, error, before, link))
    except Exception as error:  # the server may be why the run ended
        log.warning("no summary was left in Prefect: %s", error)
