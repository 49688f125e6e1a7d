"""`serve --alert URL`: what a local receiver hears of runs that do not end well."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State, StateType

from tests.e2e import service
from tests.faults.command import Site, soon
from tests.helpers import corpus
from tests.helpers.post_server import Answer, PostServer
from tests.helpers.shared_server import Server
from uttermill.flows.server import deployment as deployment_of
from uttermill.tasks.base.errors import ConfigError

pytestmark = pytest.mark.server


class Receiver(PostServer):
    """Notes what is posted to it."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        super().__init__()

    def take(self, headers: Any, body: bytes) -> None:
        self.heard.append(json.loads(body))

    def reply(self, request: None) -> Answer:
        return 204, b""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.close()


@flow
def nothing() -> None:
    """Is never run."""


async def deployed(name: str) -> UUID:
    async with get_client() as client:
        of_flow = await client.create_flow(nothing)
        return await client.create_deployment(of_flow, name)


async def ended(deployment: UUID, state: State[Any]) -> str:
    async with get_client() as client:
        run = await client.create_flow_run_from_deployment(deployment)
        await client.set_flow_run_state(run.id, state, force=True)
        return run.name


@pytest.mark.usefixtures("prefect_api")
def test_a_run_that_fails_is_told_once(receiver: Receiver) -> None:
    name = f"nightly-{uuid4().hex[:8]}"
    deployment, other = (asyncio.run(deployed(each)) for each in (name, f"{name}-other"))
    message = 'nothing is left "to package": {{ 1 }}\nsee the ledger'
    failed = State[Any](type=StateType.FAILED, name="Failed", message=message)
    url, heard = f"{receiver.url}/hook", receiver.heard
    asyncio.run(deployment_of.set_alert(deployment, name, "http://127.0.0.1:9/gone"))
    asyncio.run(deployment_of.set_alert(deployment, name, url))  # a later start replaces it
    asyncio.run(ended(other, failed))
    asyncio.run(ended(deployment, State[Any](type=StateType.COMPLETED, name="Completed")))
    run = asyncio.run(ended(deployment, failed))
    assert soon(lambda: heard, every=0.5), "nothing was posted"
    crashed = State[Any](type=StateType.CRASHED, name="Crashed", message="killed")
    again = asyncio.run(ended(deployment, crashed))
    assert soon(lambda: len(heard) > 1, every=0.5)
    asyncio.run(deployment_of.set_alert(deployment, name, None))
    assert receiver.paths == {"/v1/hook"}
    first, second = heard
    assert first["text"] == f"uttermill: {name}, run {run}: Failed. {message}"
    assert (first["deployment"], first["run"], first["state"]) == (name, run, "Failed")
    assert first["message"] == message
    assert (second["run"], second["state"]) == (again, "Crashed")

    async def left() -> int:
        async with get_client() as client:
            return len(await client.read_automations_by_name(f"uttermill alert {name}"))

    assert asyncio.run(left()) == 0


@pytest.mark.nightly
@pytest.mark.cluster
def test_serve_tells_of_a_run_that_failed_by_itself(
    tmp_path: Path, prefect_server: Server, shared_cluster: dict[str, Any], receiver: Receiver
) -> None:
    """By the command, from a night's real failure to what the receiver hears; the night before,
    which ended well, is not told."""
    site = Site(tmp_path, prefect_server.url, service.EAGER)
    corpus.make(site.source, 2)
    name = f"alerting-{uuid4().hex[:8]}"
    source = {"kind": "folder", "path": str(site.source), "name": "c"}
    chosen = site.settings("out", sources=[source], cluster=shared_cluster)
    with (
        site.start("serve", chosen, "--name", name, "--alert", receiver.url, "--json") as started,
        service.asked(prefect_server.url),
    ):
        assert soon(started.stdout, every=0.1), started.stderr()
        deployment = service.deployed(name)
        well = service.start(deployment, chosen)
        assert service.end_of(well).is_completed(), service.state(well)
        (site.source / "broken.wav").write_bytes(b"this is no audio")
        failing = service.start(deployment, chosen)
        assert service.end_of(failing).is_failed(), service.state(failing)
        assert soon(lambda: receiver.heard, every=0.2), "nothing was posted"
        run = service.flow_run(failing)
        started.process.terminate()
        assert started.process.wait(60) == 0, started.stderr()
    [body] = receiver.heard
    assert (body["deployment"], body["run"], body["state"]) == (name, run.name, "Failed")
    assert body["flow_run"] == str(failing)
    assert "1 of 3 recordings failed" in body["message"]
    assert body["text"].startswith(f"uttermill: {name}, run {run.name}: Failed. ")


@pytest.mark.parametrize(
    "url", ["mailto:me@example.com", "hooks.example.com", "http://", "file:///x"]
)
def test_addresses_that_nothing_is_posted_to(url: str) -> None:
    with pytest.raises(ConfigError, match=r"--alert takes an address such as https://"):
        deployment_of.check_alert(url)
    deployment_of.check_alert(None)
    deployment_of.check_alert("https://hooks.example.com/T0/B0")
