"""Artifacts that change while a run goes on, posted from a thread: one with the progress of the run
and then its result, and in a run whose shards are grouped one more for each group.

Requests are few, because they would dominate short runs: one in a run of some seconds, six per
minute for each artifact of a long run, and at most MOST in EVERY_SECONDS: a server that records a
thousand workers has no time for more. Only the last ones are awaited, briefly.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol, Self
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.utilities.urls import url_for

from flows.progress import Progress
from flows.server.artifact_text import markdown
from flows.server.posting import ABOUT, KEY, current_run, found, one_try, post
from tasks.base.json_types import JsonObject
from tasks.base.logs import log

FIRST_SECONDS = 4.0  # a run with nothing to do is over by then
EVERY_SECONDS = 10.0
MOST = 20  # requests in EVERY_SECONDS
RUN_CLOSE_SECONDS = 5.0  # that the end of a run waits for the last update of its own artifact
CLOSE_SECONDS = 10.0  # the same, for the last changes of all groups


class Board(Protocol):
    """The text of one artifact, which changes during the run."""

    @property
    def title(self) -> str:
        """The artifact's description in Prefect."""

    @property
    def over(self) -> bool:
        """Whether nothing more will change."""

    def news(self) -> str | None:
        """The text, if it has changed since it was last asked for."""


class Poster:
    """Context manager within a flow run: posts its boards, in a thread. Outside of a flow run it
    does nothing. The first request that fails is logged; the run continues.

    `key` is Prefect's name of the artifact; `patience`: seconds that the end waits for the last
    changes.
    """

    def __init__(
        self, boards: Sequence[Board], key: str | None = None, patience: float = CLOSE_SECONDS
    ) -> None:
        self._left = list(boards)  # those that may still change
        self._key, self._patience = key, patience
        self._run = current_run()
        self._known: dict[str, UUID] = {}
        self._over = threading.Event()
        self._failed = False
        # In an empty context the thread would know no API, and Prefect would start a server.
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
            if known is None and self._key and self._run.run_count > 1:
                known, _ = found(client, self._run.id)  # of an earlier attempt
            self._known[title] = post(client, self._run.id, known, text, self._key, title)
        except Exception as error:  # whatever it is, the run continues
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            log.warning("an artifact of the run in Prefect was not updated: %s", error)
        self._failed = True


class RunBoard:
    """The artifact of the whole run: how far each stage is, in the end the result."""

    title = ABOUT

    def __init__(self, out: Path, link: str | None) -> None:
        self._out, self._link = out, link
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._last: tuple[JsonObject, Path | None] | None = None

    def watch(self, progress: Progress) -> None:
        """Show the numbers of this progress."""
        self._progress = progress

    def finish(self, result: JsonObject, report: Path | None) -> None:
        """The run is done: show its result."""
        self._last = (result, report)

    @property
    def over(self) -> bool:
        return self._last is not None

    def news(self) -> str | None:
        """The text, which changes with the clock; None before there is any progress."""
        if self._progress is None:
            return None
        result, report = self._last or (None, None)
        seconds = time.monotonic() - self._began
        stages = self._progress.standing()
        return markdown(self._out, seconds, stages, result, report, self._link)


@contextmanager
def live(out: Path) -> Iterator[RunBoard]:
    """Inside, post the progress of the current flow run."""
    run = current_run()
    board = RunBoard(out, url_for("flow-run", obj_id=run.id) if run else None)
    with Poster([board], KEY, RUN_CLOSE_SECONDS):
        yield board
