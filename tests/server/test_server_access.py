"""Who may speak to a local Prefect server: programs and pages that know its password, at a loopback
name, from its own origin; and the file that keeps the password of `serve`."""

import base64
import json
import os
import socket
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    temporary_settings,
)
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.faults.command import Site, soon
from tests.helpers import corpus, prefect_database, tiers
from tests.helpers.shared_server import Server
from tests.server.test_proxy import NOWHERE
from uttermill.flows.server import door, login
from uttermill.flows.server.server import LocalServer, using
from uttermill.tasks.base.errors import ConfigError

FOREIGN = "http://evil.example"


@dataclass(frozen=True)
class Own:
    """A server of a run, and what proves that a request knows its password."""

    base: str
    auth: str

    @property
    def known(self) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(self.auth.encode()).decode()}


@pytest.fixture(scope="module")
def own(prefect_server: Server) -> Own:
    return Own(prefect_server.url.removesuffix("/api"), os.environ["PREFECT_API_AUTH_STRING"])


#: A busy machine takes longer than the 5 s of httpx.
get = partial(httpx.get, timeout=60)


def asked(own: Own, **headers: str) -> httpx.Response:
    """What a page gets that reads the deployments by a request that needs no leave."""
    plain = {"Content-Type": "text/plain", **headers}
    return httpx.post(f"{own.base}/api/deployments/filter", headers=plain, content="{}", timeout=60)


pytestmark = pytest.mark.server


@pytest.mark.quick
def test_the_password_is_asked_for(own: Own) -> None:
    assert asked(own).status_code == 403  # no CSRF token
    for path in ("admin/settings", "csrf-token?client=x", "deployments/name/prepare/x"):
        assert get(f"{own.base}/api/{path}").status_code == 401
        wrong = base64.b64encode(b"uttermill:guess").decode()
        refused = get(f"{own.base}/api/{path}", headers={"Authorization": f"Basic {wrong}"})
        assert refused.status_code == 401
    assert get(f"{own.base}/api/admin/version", headers=own.known).status_code == 200
    assert get(f"{own.base}/api/health").status_code == 200  # says only that it lives


@pytest.mark.quick
def test_a_request_that_changes_needs_a_token_beside_the_password(own: Own) -> None:
    refused = asked(own, **own.known)
    assert (refused.status_code, refused.json()["detail"]) == (403, "Missing CSRF token.")
    token = get(f"{own.base}/api/csrf-token?client=me", headers=own.known).json()["token"]
    tokens = {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": "me"}
    assert asked(own, **tokens).status_code == 401
    assert asked(own, **tokens, **own.known).status_code == 200


def test_prefects_client_knows_both_whatever_the_environment_says(own: Own) -> None:
    other = {PREFECT_API_AUTH_STRING: "of:another", PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False}
    with (
        temporary_settings(other),
        using(f"{own.base}/api", own.auth),
        get_client(sync_client=True) as client,
    ):
        assert isinstance(client.read_deployments(), list)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 401), ("127.0.0.1:4200", 401), ("localhost:8080", 401), ("[::1]:4200", 401),
        ("LOCALHOST", 401),
        ("evil.example", 400), ("evil.example:4200", 400), ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example:4200", 400), ("127.0.0.1@evil.example", 400), ("", 400),
        ("127.0.0.1:4200:4200", 400), ("0.0.0.0:4200", 400), ("localhost:", 400),
    ],
)  # fmt: skip
def test_only_loopback_names_are_answered(own: Own, host: str, status: int) -> None:
    assert get(f"{own.base}/api/admin/version", headers={"Host": host}).status_code == status
    for path in ("/", door.LOGIN, "/ui-settings", "/api/health"):
        answer = get(f"{own.base}{path}", headers={**own.known, "Host": host})
        assert (answer.status_code == 400) == (status == 400), path


def status(own: Own, *lines: str) -> int:
    """The status of a request that is sent as it stands, which HTTP libraries would not send."""
    port = int(own.base.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(link.recv(100).split()[1])


def test_two_hosts_are_none(own: Own) -> None:
    name = own.base.removeprefix("http://")
    get = "GET /api/health HTTP/1.1"
    assert status(own, get, f"Host: {name}") == 200  # a control
    for hosts in ((name, "evil.example"), ("evil.example", name)):
        assert status(own, get, *(f"Host: {host}" for host in hosts)) == 400
    assert status(own, "GET /api/health HTTP/1.0") == 400


@pytest.mark.quick
@pytest.mark.parametrize("origin", [FOREIGN, "null", "http://localhost:1", "https://127.0.0.1"])
def test_no_other_origin_is_answered(own: Own, origin: str) -> None:
    for answer in (
        asked(own, **own.known, Origin=origin),
        get(f"{own.base}/api/admin/version", headers={**own.known, "Origin": origin}),
        httpx.options(
            f"{own.base}/api/deployments/filter",
            headers={"Origin": origin, "Access-Control-Request-Method": "POST"},
        ),
    ):
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_its_own_origin_is_answered(own: Own) -> None:
    answer = get(f"{own.base}/api/admin/version", headers={**own.known, "Origin": own.base})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == own.base
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path",
    ["/docs", "/docs/", "/docs%0a", "/%64ocs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"],
)
def test_the_api_is_described_to_nobody(own: Own, path: str) -> None:
    for headers in ({}, own.known):
        answer = get(f"{own.base}{path}", headers=headers)
        assert answer.status_code == 404
        assert "<" not in answer.text


@pytest.mark.parametrize("path", ["/", "/v2/", "/ui-settings", "/api/health"])
def test_pages_reach_their_own_server_alone(own: Own, path: str) -> None:
    name = own.base.removeprefix("http://").replace("127.0.0.1", "localhost")
    answer = get(f"{own.base}{path}", headers={"Host": name})
    rules = answer.headers["content-security-policy"].split("; ")
    assert "default-src 'self'" in rules
    assert f"connect-src 'self' ws://{name} data: blob:" in rules
    names = {word for rule in rules for word in rule.split()[1:] if not word.startswith("'")}
    assert names == {f"ws://{name}", "data:", "blob:"}


SOCKETS = ("events/out", "logs/out", "events/in", "task_runs/subscriptions/scheduled",
           "work_pools/default/workers/connect")  # fmt: skip


def spoken(own: Own, path: str, token: str | None, **options: Any) -> str:
    """What a websocket answers to a password: its message, or how it was refused."""
    url = f"{own.base.replace('http', 'ws')}/api/{path}"
    try:
        with connect(url, subprotocols=["prefect"], open_timeout=10, **options) as link:  # type: ignore[list-item]
            link.send(json.dumps({"type": "auth", "token": token}))
            return str(json.loads(link.recv(timeout=10))["type"])
    except InvalidStatus as error:
        return str(error.response.status_code)
    except ConnectionClosed:
        return "closed"


@pytest.mark.parametrize("path", SOCKETS)
def test_websockets_ask_as_well(own: Own, path: str) -> None:
    assert spoken(own, path, own.auth) == "auth_success"
    assert spoken(own, path, None) == "closed"
    assert spoken(own, path, "uttermill:guess") == "closed"
    assert spoken(own, path, own.auth, origin=FOREIGN) == "403"
    assert spoken(own, path, own.auth, origin=own.base) == "auth_success"
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
               "Sec-WebSocket-Protocol: prefect")  # fmt: skip
    for host, expected in (("127.0.0.1:4200", 101), ("evil.example:4200", 403)):
        assert status(own, f"GET /api/{path} HTTP/1.1", f"Host: {host}", *upgrade) == expected


def test_no_command_line_shows_the_password_of_its_own() -> None:
    nobody = {PREFECT_SERVER_API_AUTH_STRING: None, PREFECT_API_AUTH_STRING: None}
    with temporary_settings(nobody), LocalServer() as server:
        secret = server.auth.partition(":")[2]
        assert len(secret) >= 32
        process = psutil.Process(server.pid)
        # A control: where it is. Until the program has begun, a process shows neither.
        assert soon(lambda: server.auth in process.environ().values())
        assert secret not in " ".join(process.cmdline())
    assert not psutil.pid_exists(server.pid)


def test_each_server_has_a_password_of_its_own_unless_the_user_chose_one() -> None:
    assert login.fresh() != login.fresh()
    with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: "me:mine"}):
        assert login.chosen() == "me:mine"
    with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: None}):
        assert login.chosen() is None


# The file of `serve`


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "prefect"
    with temporary_settings({PREFECT_HOME: folder}):
        yield folder


def test_the_password_of_serve_stays_and_is_the_users_alone(home: Path) -> None:
    before = os.umask(0)
    try:
        first = login.kept()
    finally:
        os.umask(before)
    assert login.kept() == first
    assert login.file() == home / "uttermill-login"
    assert stat.S_IMODE(login.file().stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["uttermill-login"]
    login.file().unlink()
    assert login.kept() != first


def test_all_who_make_the_file_at_once_get_the_same(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda _: login.kept(), range(32))}) == 1


@pytest.mark.parametrize("fault", ["link", "dangling", "open", "folder", "pipe", "empty", "text"])
def test_another_file_in_its_place_is_refused(home: Path, tmp_path: Path, fault: str) -> None:
    kept = login.kept()
    login.file().unlink()
    other = tmp_path / "other"
    if fault == "link":
        other.write_text(kept)
        other.chmod(0o600)
        login.file().symlink_to(other)
    elif fault == "dangling":
        login.file().symlink_to(other)
    elif fault == "folder":
        login.file().mkdir()
    elif fault == "pipe":
        os.mkfifo(login.file(), 0o600)
    else:
        login.file().write_text({"open": kept, "empty": "", "text": "admin:short"}[fault])
        login.file().chmod(0o644 if fault == "open" else 0o600)
    with pytest.raises(ConfigError, match="remove it, and serve makes a new one"):
        login.kept()
    assert fault == "link" or not other.exists()


# A run's own server, beside what the user's environment says of others

UNGUARDED = {
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "*",
    "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "false",
}
#: All of them, where nobody listens; what is excepted does not name the loopback.
PROXIES = {
    **{name: f"http://{NOWHERE}" for http in ("http_proxy", "https_proxy")
       for name in (http, http.upper())},
    "ALL_PROXY": f"socks5h://{NOWHERE}", "no_proxy": "", "NO_PROXY": ".lab",
}  # fmt: skip


@pytest.mark.cluster
@pytest.mark.parametrize(
    "environment",
    [
        {"PREFECT_API_AUTH_STRING": "of:another", "PREFECT_SERVER_API_AUTH_STRING": "me:mine",
         **UNGUARDED, **PROXIES},
        tiers.nightly(
            {"PREFECT_API_AUTH_STRING": "of:another", "PREFECT_SERVER_API_AUTH_STRING": ""}
        ),
        tiers.nightly({"PREFECT_API_AUTH_STRING": "", "PREFECT_SERVER_API_AUTH_STRING": "me:mine",
                       **UNGUARDED}),
    ],
    ids=["both, and proxies", "the password of another server", "one for all own servers"],
)  # fmt: skip
@pytest.mark.nightly
def test_a_run_records_itself_whatever_the_environment_says(
    tmp_path: Path, empty_database: Path, environment: dict[str, str]
) -> None:
    home = tmp_path / "prefect"
    prefect_database.give(empty_database, home)
    site = Site(tmp_path, "", {"PREFECT_HOME": str(home), **environment}, history="own")
    corpus.make(site.source, 1)
    ended = site.apart("run", site.settings("out"))
    assert ended.code == 0, ended.stderr
    assert ended.result["utterances"]["packaged"] == 1
    assert "Traceback" not in ended.stderr
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        assert database.execute("select state_name from flow_run").fetchall() == [("Completed",)]
        (recorded,) = database.execute("select count(*) from task_run").fetchone()
    assert recorded >= 5
    assert not (home / "uttermill-login").exists(), "a run's password ends with it"
