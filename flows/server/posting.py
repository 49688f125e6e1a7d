"""Requests that make and update the artifacts of a flow run in Prefect; `artifact_text.py` writes
their text, `live_artifacts.py` updates them while a run goes on.

`summarise` replaces the progress by a summary when a run fails, crashes or is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.objects import State as PrefectState
from prefect.context import FlowRunContext
from prefect.flows import Flow
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.utilities.urls import url_for

from flows.server.artifact_text import DONE, failure
from tasks.base.json_types import JsonObject
from tasks.base.logs import log

KEY = "uttermill-progress"  # Prefect's name of the one artifact that stands for the whole run
ABOUT = "Progress of the run, and its result."
CLIENT: JsonObject = {"timeout": 20.0}


def current_run() -> FlowRun | None:
    """The flow run that this code is part of."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


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
    about: str = ABOUT,
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


def found(client: SyncPrefectClient, run: UUID) -> tuple[UUID | None, str]:
    """Id and text of the artifact with KEY that the flow run already has; None and "" without."""
    which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}, "key": {"any_": [KEY]}})
    for artifact in client.read_artifacts(artifact_filter=which, limit=1):
        return artifact.id, str(artifact.data)
    return None, ""


def note(text: str) -> None:
    """Make the artifact of a flow run that has one result, at its end; otherwise do nothing."""
    run = current_run()
    if run is None:
        return
    try:
        with one_try() as client:
            known, _ = found(client, run.id)
            post(client, run.id, known, text)
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
            known, before = found(client, flow_run.id)
            if what == "was cancelled" and before.startswith(DONE):
                return  # it had already finished
            error = getattr(state.data, "result", state.data)  # most often a record of the result
            error = error if isinstance(error, Exception) else state.message
            link = url_for("flow-run", obj_id=flow_run.id)
            post(client, flow_run.id, known, failure(what, error, before, link))
    except Exception as error:  # the server may be why the run ended
        log.warning("no summary was left in Prefect: %s", error)
