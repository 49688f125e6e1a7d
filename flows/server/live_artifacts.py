"""Artifacts of a flow run in Prefect, made and updated while it goes on; `artifact_text.py` writes
their text.

A thread posts them: one with the progress of the run and then its result, and in a run whose shards
are grouped one more for each group. Requests are few, because they would dominate short runs: one
in a run of some seconds, six per minute for each artifact of a long run, and at most MOST in
EVERY_SECONDS: a server that records a thousand workers can handle no more. Only the last ones are
awaited, briefly.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol, Self
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.objects import State as PrefectState
from prefect.flows import Flow
from prefect.logging import get_run_logger
from prefect.states import Cancelled
from prefect.utilities.urls import url_for

from ...tasks.base.logs import log
from . import history
from .artifact_text import DONE, failure
from .history import current_run, one_try

KEY = "uttermill-progress"  # Prefect's key of the artifact of the whole run
ABOUT = "Progress of the run, and its result."
FIRST_SECONDS = 4.0  # a run with nothing to do is over by then
EVERY_SECONDS = 10.0
MOST = 20  # requests in EVERY_SECONDS
RUN_CLOSE_SECONDS = 5.0  # that the end of a run waits for the last update of its own artifact
CLOSE_SECONDS = 10.0  # the same, for the last changes of all groups


def post(
    client: SyncPrefectClient,
    run: UUID,
    artifact_id: UUID | None,
    text: str,
    key: str | None = KEY,
    about: str = ABOUT,
) -> UUID:
    # Not the client's own methods, which also send an event with the whole text.
    if artifact_id is not None:
        reply = client.request(
            "PATCH", "/artifacts/{id}", path_params={"id": artifact_id}, json={"data": text}
        )
        reply.raise_for_status()
        return artifact_id
    artifact = {"key": key, "type": "markdown", "description": about, "data": text}
    reply = client.request("POST", "/artifacts/", json={**artifact, "flow_run_id": str(run)})
    reply.raise_for_status()
    return UUID(reply.json()["id"])


def artifact_of(client: SyncPrefectClient, run: UUID) -> tuple[UUID | None, str]:
    which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run]}, "key": {"any_": [KEY]}})
    for artifact in client.read_artifacts(artifact_filter=which, limit=1):
        return artifact.id, str(artifact.data)
    return None, ""


def remark(sentence: str, level: int = logging.WARNING) -> None:
    get_run_logger().log(level, "%s", sentence)


def summarise(flow: Flow[..., object], flow_run: FlowRun, state: PrefectState[object]) -> None:
    """Prefect's hook for a flow run that failed, crashed or was cancelled; then called in the
    process of its worker or of `serve`, because that of the run is gone."""
    what = (
        "was cancelled"
        if state.is_cancelled() or state.is_cancelling()
        else ("crashed" if state.is_crashed() else "failed")
    )
    try:
        with one_try() as client:
            artifact_id, before = artifact_of(client, flow_run.id)
            if what == "was cancelled" and before.startswith(DONE):
                return  # it had already finished
            if what == "was cancelled":
                ended: PrefectState[Any] = Cancelled(message="The flow run was cancelled.")
                history.end_task_runs(client, [str(flow_run.id)], ended)
            error = getattr(state.data, "result", state.data)  # usually a record of the result
            error = error if isinstance(error, Exception) else state.message
            link = url_for("flow-run", obj_id=flow_run.id)
            post(client, flow_run.id, artifact_id, failure(what, error, before, link))
    except Exception as error:  # the server may be why the run ended
        log.warning("no summary was left in Prefect: %s", error)


#: Arguments of Prefect's `flow` for those whose end `summarise` explains.
SUMMARISED: Any = {f"on_{end}": [summarise] for end in ("failure", "crashed", "cancellation")}


class Board(Protocol):
    @property
    def title(self) -> str:
        """The artifact's description in Prefect."""

    @property
    def over(self) -> bool:
        """Whether nothing more will change."""

    def news(self) -> str | None:
        """The text, if it has changed since the last call."""


class Poster:
    """Context manager within a flow run: posts its boards, in a thread. The first request that
    fails is logged; the run continues. `key`: Prefect's name of the artifact; `patience`: s that
    the end waits for the last changes."""

    def __init__(
        self, boards: Sequence[Board], key: str | None = None, patience: float = CLOSE_SECONDS
    ) -> None:
        self._left = deque(boards)  # those that may still change, the next ones to ask first
        self._key, self._patience = key, patience
        self._run = current_run()
        self._known: dict[str, UUID] = {}
        self._over = threading.Event()
        self._failed = False
        # In an empty context the thread would have no API, and Prefect would start a server.
        context_of_run = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context_of_run.run, args=(self._keep,), name="artifacts", daemon=True
        )

    def __enter__(self) -> Self:
        if self._run is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._patience)

    def _keep(self) -> None:
        client: SyncPrefectClient | None = None
        wait, over = FIRST_SECONDS, False
        with ExitStack() as stack:
            while not over:
                over = self._over.wait(wait)
                wait = EVERY_SECONDS
                try:
                    client = client or stack.enter_context(one_try())
                    self._round(client, len(self._left) if over else MOST)
                except Exception as error:  # whatever it is, the run continues
                    self._warn(error)

    def _round(self, client: SyncPrefectClient, most: int) -> None:
        until = time.monotonic() + CLOSE_SECONDS
        posted = 0
        for _ in range(len(self._left)):
            if posted == most or time.monotonic() > until:
                break
            board = self._left.popleft()
            over = board.over  # before the text: what changes in between is posted next time
            if (text := board.news()) is not None:
                posted += 1
                self._post(client, board.title, text)
            if not over:
                self._left.append(board)

    def _post(self, client: SyncPrefectClient, title: str, text: str) -> None:
        assert self._run is not None
        try:
            artifact_id = self._known.get(title)
            if artifact_id is None and self._key and self._run.run_count > 1:
                artifact_id, _ = artifact_of(client, self._run.id)  # of an earlier attempt
            self._known[title] = post(client, self._run.id, artifact_id, text, self._key, title)
        except Exception as error:  # whatever it is, the run continues
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if isinstance(error, httpx.TransportError):  # the end of the run says so
            return
        if not self._failed:
            log.warning("an artifact of the run in Prefect was not updated: %s", error)
        self._failed = True
