"""Keeps Prefect's record of runs: names them, waits until it is complete, and closes what dead runs
left "Running".

A run notes its flow run and its process in OUT/runs/<id>/prefect.json. The next run of the same
OUT, which then holds OUT's lock, closes the records of runs whose process died.

A name that a person typed for a flow run is kept; one that Prefect made up is replaced by the names
of the datasets and the time. The form in Prefect's UI proposes names of stars (`tau4-octantis`).
Those are kept as well: they come from too many words to be told apart from typed names, and no two
are alike.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.states import Completed, Crashed

from flows.run import run_folder
from tasks.base.json_types import JsonObject

OPEN_STATES = [state.value for state in StateType if state not in TERMINAL_STATES]
#: A flow run in these states has a process; scheduled, pending and paused ones wait for theirs.
RUNNING_STATES = [StateType.RUNNING.value, StateType.CANCELLING.value]
#: Whether a process on another host lives is unknown: its run is closed at this age. (Containers
#: get a new host name each time, so it must be closed some day.)
FOREIGN_AGE = timedelta(hours=24)
PAGE = 200
QUIET_SECONDS = 3.0  # three flushes of the server's task-run recorder
POLL_SECONDS = 0.25  # between two counts: the server writes once a second
MOST_LETTERS = 60  # characters of the datasets' names


def owner() -> str:
    """This process: pid, host and start time, which tells a reused pid apart."""
    process = psutil.Process()
    return f"{process.pid}@{socket.gethostname()}@{process.create_time():.2f}"


def is_alive(owner: str) -> bool | None:
    """Whether the process lives; None when that cannot be known on this host."""
    pid, host, start = owner.split("@")
    if host != socket.gethostname():
        return None
    try:
        created = psutil.Process(int(pid)).create_time()
    except psutil.NoSuchProcess:
        return False
    return abs(created - float(start)) < 1.0


def rename(flow_run_id: UUID, name: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run_id, name=name)


def close_dead_runs(out: Path, me: UUID | None = None) -> tuple[int, int]:
    """Set open records of dead runs of OUT to Crashed; returns (flow runs, task runs) closed.

    Call it while holding OUT's lock, before the run's first task. `me` is the calling flow run:
    it stays open, but task runs that its dead former attempt left open are closed.
    """
    # Only the last runs, and only their open children: a history grows for ever.
    owners = run_folder.last_flow_runs(out)
    if not owners:
        return 0, 0
    with get_client(sync_client=True) as client:
        roots = _flow_runs(client, {"id": {"any_": [*owners]}})
        dead = [run for run in roots if run.id == me or _is_dead(run, owners[str(run.id)])]
        tasks = _open_task_runs(client, _ids(dead)) if dead else []
        why = "The process of this run died; the next run of the same folder closed its record."
        for task in tasks:
            client.set_task_run_state(UUID(task["id"]), Crashed(message=why), force=True)
        running = [
            run
            for run in dead
            if run.id != me and run.state_type and run.state_type.value in RUNNING_STATES
        ]
        for run in running:
            client.set_flow_run_state(run.id, Crashed(message=why), force=True)
    return len(running), len(tasks)


def _is_dead(run: FlowRun, owner: str) -> bool:
    alive = is_alive(owner)
    if alive is not None:
        return not alive
    began = run.start_time or run.expected_start_time
    return began is not None and datetime.now(UTC) - began > FOREIGN_AGE


def drain(timeout: float) -> None:
    """Flush Prefect's threads: at exit they would try a stopped server for a minute.

    `timeout` in seconds.
    """
    EventsWorker.drain_all(timeout=timeout)
    APILogWorker.drain_all(timeout=timeout)


@contextmanager
def discarded() -> Iterator[None]:
    """Inside, Prefect's threads drop events and log records, for a server that is gone for good.

    They would try to send each one for 8 s.
    """

    async def drop(service: object, items: object) -> None:
        pass

    with replaced(EventsWorker, "_handle", drop), replaced(APILogWorker, "_handle_batch", drop):
        yield


def wait_until_recorded(
    flow_run_id: UUID, expected: int | None = None, timeout: float = 60
) -> bool:
    """Wait until every task run of the flow run is recorded as terminal.

    `expected` is their number; without it, a count that stays the same for some seconds counts as
    complete. `timeout` bounds the seconds *without progress*. Returns whether everything is
    recorded.
    """
    # The server cannot count what this process has not sent yet.
    drain(timeout)
    with get_client(sync_client=True) as client:
        seen = (-1, -1)
        since = time.monotonic()
        while True:
            count = _count(client, flow_run_id)
            if count != seen:
                seen, since = count, time.monotonic()
            total, still_open = count
            quiet = time.monotonic() - since
            enough = total >= expected if expected is not None else quiet >= QUIET_SECONDS
            if enough and still_open == 0:
                return True
            if quiet > timeout:
                return False
            time.sleep(POLL_SECONDS)


def complete(flow_run_id: UUID) -> int:
    """Set the open task runs of a completed flow run to Completed; returns how many. A killed
    server loses the task runs' states of the last second, accepted but not yet written."""
    why = "The end of this task run was lost when Prefect's server ended; its flow run completed."
    with get_client(sync_client=True) as client:
        tasks = _open_task_runs(client, [str(flow_run_id)])
        for task in tasks:
            client.set_task_run_state(UUID(task["id"]), Completed(message=why), force=True)
    return len(tasks)


def _count(client: SyncPrefectClient, flow_run_id: UUID) -> tuple[int, int]:
    """(all task runs, open task runs) of a flow run."""
    runs = {"id": {"any_": [str(flow_run_id)]}}
    still_open = {"state": {"type": {"any_": OPEN_STATES}}}
    return (
        int(_post(client, "/task_runs/count", flow_runs=runs)),
        int(_post(client, "/task_runs/count", flow_runs=runs, task_runs=still_open)),
    )


def _ids(runs: Iterable[FlowRun]) -> list[str]:
    return [str(run.id) for run in runs]


def _flow_runs(client: SyncPrefectClient, which: JsonObject) -> list[FlowRun]:
    """All flow runs that match a filter."""
    rows = _all(client, "/flow_runs/filter", flow_runs=which)
    return [FlowRun.model_validate(row) for row in rows]


def _open_task_runs(client: SyncPrefectClient, flow_runs: list[str]) -> list[JsonObject]:
    return _all(
        client,
        "/task_runs/filter",
        flow_runs={"id": {"any_": flow_runs}},
        task_runs={"state": {"type": {"any_": OPEN_STATES}}},
    )


def _all(client: SyncPrefectClient, path: Any, **which: Any) -> list[JsonObject]:
    """All rows of an answer that comes in pages."""
    collected: list[JsonObject] = []
    while True:
        rows = _post(client, path, **which, sort="ID_DESC", limit=PAGE, offset=len(collected))
        collected += rows
        if len(rows) < PAGE:
            return collected


def _post(client: SyncPrefectClient, path: Any, **body: Any) -> Any:
    # The client has no method that counts.
    reply = client.request("POST", path, json=body)
    reply.raise_for_status()
    return reply.json()


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Inside, `owner.name` is `value`; AttributeError when the library has no such name: it is
    private and may go with an upgrade (`tests/laws/test_private_names.py` lists them all)."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def flow_run_name(typed: str, kind: str, datasets: Sequence[str], now: datetime) -> str:
    """`typed`, unless Prefect made it up: then `podcasts 2026-01-31 02:00:05`, which no two runs of
    a deployment share. `kind` is `prepare` or `estimate`."""
    if not is_made_up(typed):
        return typed
    names = ", ".join(datasets)
    if len(names) > MOST_LETTERS:
        names = f"{names[: MOST_LETTERS - 1]}…"
    head = "" if kind == "prepare" else f"{kind} "
    return f"{head}{names} {now:%Y-%m-%d %H:%M:%S}"


def task_run_name(stage: str, what: str, seconds: float) -> str:
    """`filter · shard 000007 · 1.02 h`; `what`: a shard or a group of them."""
    return f"{stage} · {what.replace('shard-', 'shard ')} · {seconds / 3600:.2f} h"


def group_name(shards: Sequence[str]) -> str:
    """`20 shards, 000100 to 000119`; the numbers between them may belong to others."""
    numbers = sorted(shard.removeprefix("shard-") for shard in shards)
    if len(numbers) == 1:
        return f"shard {numbers[0]}"
    return f"{len(numbers)} shards, {numbers[0]} to {numbers[-1]}"


def is_made_up(name: str) -> bool:
    """Whether a name is of Prefect's kind, `adjective-animal`, in its own words."""
    words = name.split("-")
    return len(words) >= 2 and all(word in _vocabulary() for word in words)


@cache
def _vocabulary() -> frozenset[str]:
    from coolname.data import config  # what Prefect draws its names from

    vocabulary: Any = config
    lists = (entry["words"] for entry in vocabulary.values() if entry["type"] == "words")
    return frozenset(word for words in lists for word in words)
