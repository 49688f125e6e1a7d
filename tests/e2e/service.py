"""Prefect as a service runs it: a worker or `serve` in a process of its own, and what the UI's
buttons send to the API and its pages show. Use it within `asked(url)`."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State, StateType, TaskRun

from tests.faults.command import LONGEST, PATIENCE, ROOT, TOKEN, Site, alive, soon
from tests.helpers import signals
from uttermill.flows.server.server import using

#: How often a worker and `serve` ask for work, in seconds; 10 and more by default. Each question
#: costs them and the server 50 ms of CPU.
EAGER = {"PREFECT_WORKER_QUERY_SECONDS": "3", "PREFECT_RUNNER_POLL_FREQUENCY": "3"}


def command(site: Site, *arguments: str) -> None:
    """`python ...` at the repository's root, to an end without an error."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=site.surroundings() | EAGER,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Service:
    """A process that starts flow runs; all processes below it have its token."""

    def __init__(self, site: Site, *arguments: str) -> None:
        self._token = uuid4().hex
        self._log = site.home / f"{self._token}.log"
        # Prefect's worker turns SIGTERM into SIGINT, which a process in the background may ignore.
        with signals.interruptible(), self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=site.home, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                env={**site.surroundings(), **EAGER, TOKEN: self._token},
            )  # fmt: skip

    def words(self) -> str:
        """What it and its flow runs printed last."""
        return self._log.read_text(errors="replace")[-6000:]

    def runs(self) -> list[psutil.Process]:
        """Living processes of its flow runs, Dask's workers among them."""
        # `serve` has a tracker of its own, which lasts as long as it does.
        return [p for p in alive(self._token, tracker=False) if p.pid != self._process.pid]

    def end(self) -> None:
        """SIGTERM, as a service manager sends it; then -9 to whatever is left."""
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(40)
        for process in self.runs():
            with suppress(psutil.Error):
                process.kill()
        self._process.kill()
        self._process.wait()


@contextmanager
def service(site: Site, *arguments: str) -> Iterator[Service]:
    started = Service(site, *arguments)
    try:
        yield started
    finally:
        started.end()


_client: ContextVar[SyncPrefectClient] = ContextVar("client")


@contextmanager
def asked(url: str, auth: str | None = None) -> Iterator[None]:
    """Within, flows use the API at `url`, and so do the questions of here, with one client: to make
    one takes 30 ms of CPU, an answer 8, and most questions here are asked again and again. `auth`:
    the server's password, if it is not that of the tests."""
    with using(url, auth), get_client(sync_client=True) as client:
        token = _client.set(client)
        try:
            yield
        finally:
            _client.reset(token)


# The buttons


def deployed(name: str) -> UUID:
    return _client.get().read_deployment_by_name(f"prepare/{name}").id


def start(deployment: UUID, settings: Path) -> UUID:
    """Quick run, with parameters."""
    parameters = yaml.safe_load(settings.read_text())
    return _client.get().create_flow_run_from_deployment(deployment, parameters=parameters).id


@contextmanager
def schedule(deployment: UUID, settings: Path) -> Iterator[UUID]:
    """A schedule with parameters of its own; the run that it asks for now."""
    now = datetime.now(UTC)
    minute = timedelta(minutes=1)
    about = {"start_time": str(now - minute), "end_time": str(now + minute)}
    made = {
        "schedule": {"interval": 3600, "anchor_date": str(now), "timezone": "UTC"},
        "parameters": yaml.safe_load(settings.read_text()), "active": True,
    }  # fmt: skip
    (one,) = _post(f"/deployments/{deployment}/schedules", [made])
    try:
        # What the scheduler's loop does; the tests' server leaves that to the user's own.
        _post(f"/deployments/{deployment}/schedule", about)
        which = {"id": {"any_": [str(deployment)]}}
        soon_due = {"before_": str(now + minute)}
        waits = {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": soon_due}
        (run,) = _post("/flow_runs/filter", {"deployments": which, "flow_runs": waits})
        assert run["auto_scheduled"]
        yield UUID(run["id"])
    finally:
        _client.get().delete_deployment_schedule(deployment, UUID(one["id"]))


def _post(path: Any, body: Any) -> Any:
    reply = _client.get().request("POST", path, json=body)
    return reply.json() if reply.content else None


def retry(run: UUID) -> None:
    _set(run, State(type=StateType.SCHEDULED, name="AwaitingRetry", message="Retry from the UI"))


def cancel(run: UUID) -> None:
    _set(run, State(type=StateType.CANCELLING, name="Cancelling"))


def _set(run: UUID, state: State[Any]) -> None:
    _client.get().set_flow_run_state(run, state, force=True)


# The pages


def flow_run(run: UUID) -> FlowRun:
    return _client.get().read_flow_run(run)


def state(run: UUID) -> State[Any]:
    found = flow_run(run).state
    assert found is not None
    return found


def end_of(run: UUID, seconds: float = PATIENCE) -> State[Any]:
    """The terminal state of a flow run."""
    assert soon(lambda: state(run).is_final(), seconds, every=0.5), state(run)
    return state(run)


def owner(run: UUID) -> psutil.Process:
    """The process of a flow run that has begun, as it noted itself where it holds OUT."""
    held = Path(flow_run(run).parameters["out"]) / ".lock"
    return psutil.Process(json.loads(held.read_text())["pid"])


def task_runs(*runs: UUID) -> dict[UUID, TaskRun]:
    which = FlowRunFilter.model_validate({"id": {"any_": runs}})
    return {task.id: task for task in _client.get().read_task_runs(flow_run_filter=which)}


def still_open(*runs: UUID) -> list[str]:
    """Task runs that Prefect believes to be going on."""
    return [
        f"{task.name}: {task.state_name}"
        for task in task_runs(*runs).values() if task.state is None or not task.state.is_final()
    ]  # fmt: skip


def artifact(run: UUID) -> str:
    """The text of the run's one artifact; empty while it has none."""
    which = ArtifactFilter.model_validate(
        {"flow_run_id": {"any_": [run]}, "key": {"any_": ["uttermill-progress"]}}
    )
    found = _client.get().read_artifacts(artifact_filter=which)
    assert len(found) <= 1, found
    return str(found[0].data) if found else ""


def reused(tasks: dict[UUID, TaskRun]) -> set[str]:
    """Names of the task runs in which nothing had to be done."""
    return {task.name for task in tasks.values() if task.state_name == "Reused"}


def submitted(page: Any) -> Any:
    """The run that Prefect's page creates from its form, as the server answers."""
    for _ in range(3):
        with page.expect_response("**/create_flow_run") as answered:
            page.get_by_role("button", name="Submit").click()
        if answered.value.status != 503:  # Prefect's answer while others write to its SQLite
            break
    assert answered.value.ok, answered.value.text()
    return answered.value.json()
