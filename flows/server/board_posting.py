"""Artifacts of a large run: one for each group of shards, a table of their outcomes.

Requests are bounded whatever the size of the run: a server that records a thousand workers has no
time for more.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Sequence
from typing import Protocol, Self
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.context import FlowRunContext

from flows.server.posting import EVERY_SECONDS, FIRST_SECONDS, one_try, post
from tasks.logs import log

MOST = 20  # requests in EVERY_SECONDS
CLOSE_SECONDS = 10.0  # spent at the end of a run on the last changes


class Board(Protocol):
    """A text that changes during the run."""

    @property
    def title(self) -> str: ...

    @property
    def over(self) -> bool:
        """Whether nothing more will change."""

    def news(self) -> str | None:
        """The text, if it has changed since it was last asked for."""


class Boards:
    """Context manager within a flow run: posts its boards, in a thread. Without a flow run it does
    nothing. The first request that fails is logged; the run continues."""

    def __init__(self, boards: Sequence[Board]) -> None:
        self._left = list(boards)  # those that may still change
        self._known: dict[str, UUID] = {}
        self._over = threading.Event()
        self._failed = False
        context = FlowRunContext.get()
        self._run = context.flow_run.id if context and context.flow_run else None
        # In an empty context the thread would know no API, and Prefect would start a server.
        context_of_run = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context_of_run.run, args=(self._keep,), name="boards", daemon=True
        )

    def __enter__(self) -> Self:
        if self._run is not None and self._left:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def _keep(self) -> None:
        wait = FIRST_SECONDS
        try:
            with one_try() as client:
                while not (last := self._over.wait(wait)):
                    wait = EVERY_SECONDS
                    self._round(client, MOST)
                assert last
                self._round(client, len(self._left))
        except Exception as error:  # whatever it is, the run continues
            self._warn(error)

    def _round(self, client: SyncPrefectClient, most: int) -> None:
        until = time.monotonic() + CLOSE_SECONDS
        posted = 0
        still: list[Board] = []
        for at, board in enumerate(self._left):
            if posted == most or time.monotonic() > until:  # the others come first next time
                still = self._left[at:] + still
                break
            over = board.over  # before the text: what changes in between is posted next time
            text = board.news()
            if text is not None:
                posted += 1
                self._post(client, board.title, text)
            if not over:
                still.append(board)
        self._left = still

    def _post(self, client: SyncPrefectClient, title: str, text: str) -> None:
        assert self._run is not None
        try:
            known = self._known.get(title)
            self._known[title] = post(client, self._run, known, text, None, title)
        except Exception as error:  # whatever it is, the run continues
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            log.warning("an artifact of a group of shards was not written: %s", error)
        self._failed = True
