"""What listens, and for whom: loopback only, Dask's pages where they are asked for; a server with
basic auth."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings

from tests.faults.command import Site
from tests.helpers import by_hand, corpus, listeners, prefect_database
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings

AUTH = "admin:open sesame"


@pytest.mark.cluster
def test_dask_shows_its_pages_where_they_are_asked_for(tmp_path: Path) -> None:
    settings = ClusterSettings(workers=1, dashboard=True)
    with Cluster(settings, tmp_path / "s", engines={}) as cluster:
        port = cluster.client.scheduler_info()["services"]["dashboard"]
        with urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as page:
            assert b"Dask" in page.read()
        assert listeners.hosts(listeners.tree(os.getpid())) <= listeners.LOOPBACK


@pytest.mark.cluster
def test_a_scheduler_by_address_gets_no_dashboard_of_ours(
    tmp_path: Path, shared_cluster: dict[str, Any]
) -> None:
    before = listeners.of([os.getpid()])
    with Cluster(ClusterSettings.model_validate(shared_cluster), tmp_path) as cluster:
        assert cluster.submit(abs, -1).result() == 1
        assert listeners.of([os.getpid()]) == before


def test_control_an_open_socket_is_seen() -> None:
    with socket.create_server(("0.0.0.0", 0)):
        assert "0.0.0.0" in listeners.hosts([os.getpid()])


# Basic authentication, as the README tells it


@pytest.mark.server
@pytest.mark.nightly
def test_a_server_with_basic_auth_takes_who_knows_it(tmp_path: Path, empty_database: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    prefect_database.give(empty_database, tmp_path / "prefect")
    port = by_hand.free_port()
    bare = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    bare |= {"PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1"}
    api = f"http://127.0.0.1:{port}/api"
    asks = {"PREFECT_SERVER_API_AUTH_STRING": AUTH, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    command = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [sys.executable, *command], env={**bare, **asks},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        wait(f"{api}/health", server)
        # In this process, whose Prefect has read its environment already.
        with temporary_settings({PREFECT_API_AUTH_STRING: AUTH}):
            known = Site(tmp_path, api).command(*words(tmp_path, "known"))
        assert known.code == 0, known.stderr[-2000:]
        with temporary_settings({PREFECT_API_AUTH_STRING: "admin:guess"}):
            wrong = Site(tmp_path, api).command(*words(tmp_path, "wrong"))
        silent = Site(tmp_path, api).command(*words(tmp_path, "none"))
        for name, ended in (("wrong", wrong), ("none", silent)):
            assert ended.code == 1
            assert "PREFECT_API_AUTH_STRING" in ended.error
            assert "\n" not in ended.error
            assert "Traceback" not in ended.stderr
            assert AUTH not in ended.stderr + ended.error
            assert not (tmp_path / name / "datasets").exists()
    finally:
        for child in psutil.Process(server.pid).children(recursive=True):
            child.kill()
        server.kill()
        server.wait()
    assert AUTH.encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "known").rglob("*") if path.is_file()
    )


def wait(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end and server.poll() is None:
        try:
            with urlopen(url, timeout=30):
                return
        except (URLError, OSError) as error:
            if getattr(error, "code", None) in (401, 403):
                return  # it answers, and asks who we are
        time.sleep(0.2)
    raise AssertionError("the server did not start")


def words(home: Path, name: str) -> list[str]:
    return [
        "run", "--source", str(home / "in"), "--out", str(home / name), "--set",
        "transcribe.backend.use=fake", "--set", "filter.segmenter.use=whole", "--set",
        "cluster.workers=1",
    ]  # fmt: skip
