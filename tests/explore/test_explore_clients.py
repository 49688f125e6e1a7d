"""Clients of the explorer that are slow, many, or gone: none takes its threads, its memory or its
time from the others, and Ctrl-C ends it while they hang."""

import io
import json
import os
import resource
import shutil
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.explore.test_explore import TOKEN, client_of
from tests.helpers import tiers
from uttermill.flows.explore import access, app, clip, responses, sandbox
from uttermill.flows.explore.corpus import Corpus, Ended

SECONDS = 0.5  # that these tests give a client
Serve = Callable[[Any], int]
Hanging = list[socket.socket]


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """Clients that are closed when the test has ended."""
    found: Hanging = []
    yield found
    for client in found:
        client.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an application on a port of its own, until the test ends."""
    with ExitStack() as stack:

        def start(asgi: Any) -> int:
            server = access.server(asgi, lambda: None)
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=server.run, args=([listener],))

            def stop() -> None:
                server.should_exit = True
                thread.join(30)
                assert not thread.is_alive()

            port: int = listener.getsockname()[1]
            thread.start()
            stack.callback(stop)
            return port

        yield start


@pytest.fixture
def explorer(whole: Path, tmp_path: Path) -> Iterator[app.Explorer]:
    corpus = Corpus(whole, tmp_path)
    found = app.Explorer(corpus, None, TOKEN, tmp_path)
    yield found
    corpus.end()
    found.close()
    corpus.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "REQUEST_SECONDS", SECONDS)
    monkeypatch.setattr(access, "READ_SECONDS", SECONDS)


def connected(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=30)
    client.sendall(sent)
    return client


def ended(client: socket.socket) -> bytes:
    """All that the server sends until it closes the connection; fails if it never does."""
    found = bytearray()
    with client, suppress(ConnectionResetError):
        while data := client.recv(1 << 16):
            found += data
    return bytes(found)


HEAD = f"GET /{TOKEN}/api/about HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = (
    f"POST /{TOKEN}/api/reviews HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.mark.full
@pytest.mark.parametrize(
    "sent", tiers.few(["", "GET", HEAD, POST], "", POST), ids=["none", "line", "headers", "body"]
)
@pytest.mark.usefixtures("impatient")
def test_a_request_that_never_ends(explorer: app.Explorer, serve: Serve, sent: str) -> None:
    """Also one of which a byte comes now and then."""
    port = serve(app.make(explorer))
    silent, dripping = connected(port, sent.encode()), connected(port, sent.encode())

    def drip() -> None:
        try:
            for _ in range(100):
                dripping.sendall(b"x" if sent else b"G")
                time.sleep(SECONDS / 5)
        except OSError:
            return
        pytest.fail("the connection was never closed")

    with ThreadPoolExecutor(1) as pool:
        dripped = pool.submit(drip)
        assert b"200 OK" not in ended(silent)
        dripped.result()
    dripping.close()
    assert httpx.get(f"http://127.0.0.1:{port}/{TOKEN}/api/about", timeout=60).status_code == 200


@pytest.mark.usefixtures("impatient")
def test_a_client_that_asks_again_has_time_again(explorer: app.Explorer, serve: Serve) -> None:
    port = serve(app.make(explorer))
    with httpx.Client(base_url=f"http://127.0.0.1:{port}/{TOKEN}/", timeout=60) as client:
        for _ in range(4):
            assert client.get("api/reviews").status_code == 200
            time.sleep(SECONDS / 2)


def large(home: Path, sent: list[Any], size: int) -> Starlette:
    """An application that sends a large file; `sent` gets the paths of the files."""

    def answer(request: Request) -> Response:
        file = responses.Sent(home, lambda file: file.truncate(size), "text/plain")
        sent.append(Path(file.path))
        return file

    def small(request: Request) -> Response:
        return Response("fine")

    return Starlette(routes=[Route("/large", answer), Route("/small", small)])


@pytest.mark.usefixtures("impatient")
def test_a_client_that_reads_nothing(serve: Serve, tmp_path: Path) -> None:
    """More of them than there are threads: none of them takes one, nor lasts."""
    files: list[Any] = []
    port = serve(large(tmp_path, files, 8 << 20))
    ask = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    clients = [connected(port, ask) for _ in range(45)]
    assert httpx.get(f"http://127.0.0.1:{port}/small", timeout=20).text == "fine"
    until = time.monotonic() + 30
    while not (len(files) == 45 and not any(file.exists() for file in files)):
        assert time.monotonic() < until
        time.sleep(0.05)
    for client in clients:
        client.close()


def test_a_client_that_reads_slowly_gets_all(serve: Serve, tmp_path: Path) -> None:
    port = serve(large(tmp_path, [], 8 << 20))
    client = connected(port, b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    time.sleep(0.5)
    assert len(ended(client).partition(b"\r\n\r\n")[2]) == 8 << 20


@pytest.mark.parametrize("sent", ["", HEAD, POST], ids=["none", "headers", "body"])
def test_half_open_connections_keep_nobody_out(
    serve: Serve, explorer: app.Explorer, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    """Another local user opened as many as there may be, and the owner waited."""
    monkeypatch.setattr(access, "MOST", 5)
    monkeypatch.setattr(access, "REQUEST_SECONDS", 600)
    port = serve(app.make(explorer))
    clients = [connected(port, sent.encode()) for _ in range(12)]
    time.sleep(0.3)
    about = f"http://127.0.0.1:{port}/{TOKEN}/api/about"
    assert httpx.get(about, timeout=120).status_code == 200
    with httpx.Client(timeout=120) as owner:  # one connection, beside new ones of others
        for _ in range(3):
            clients += [connected(port, sent.encode()) for _ in range(3)]
            assert owner.get(about).status_code == 200
    for client in clients[:7]:  # the longest-waiting ones were closed
        assert ended(client) == b""
    clients[-1].settimeout(0.2)
    with pytest.raises(TimeoutError):  # and not the newest
        clients[-1].recv(1)
    for client in clients[7:]:
        client.close()


def test_a_request_that_can_be_read_in_two_ways_is_refused(
    explorer: app.Explorer, serve: Serve
) -> None:
    port = serve(app.make(explorer))
    first = f"GET /{TOKEN}/api/about HTTP/1.1"
    good = connected(port, f"{first}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert ended(good).startswith(b"HTTP/1.1 200 ")  # a control
    for lines in (
        ["Host: 127.0.0.1", "Host: 127.0.0.1"],
        ["Host: 127.0.0.1", "Host: evil.example"],
        ["Host: evil.example", "Host: 127.0.0.1"],
        [],
        ["Host: 127.0.0.1", "Content-Length: 4", "Content-Length: 30"],
        ["Host: 127.0.0.1", "Content-Length: 4, 30"],
        ["Host: 127.0.0.1", "Content-Length: 4", "Transfer-Encoding: chunked, x"],
        ["Host : 127.0.0.1"],
    ):
        odd = "\r\n".join([first, *lines, "Connection: close", "", ""])
        assert ended(connected(port, odd.encode())).split()[1] in (b"400", b"501"), lines


@pytest.mark.nightly
def test_two_hundred_requests_at_once(explorer: app.Explorer, serve: Serve) -> None:
    port = serve(app.make(explorer))
    paths = ["rows", "audio/2", "export/jsonl", "export/parquet", "recordings", "clip/2", "about",
             "table?what=words", "export/zip", "audio/3?around=1"] * 20  # fmt: skip
    ask = "GET /{}/api/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    assert httpx.get(f"http://127.0.0.1:{port}/{TOKEN}/api/rows", timeout=60).status_code == 200
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients = [connected(port, ask.format(TOKEN, path).encode()) for path in paths]
    answers = [ended(client).partition(b"\r\n")[0] for client in clients]
    assert answers == [b"HTTP/1.1 200 OK"] * 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10, "KiB"


# What goes wrong on the way


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_breaks_off_is_seen_as_broken(serve: Serve, tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        file = responses.Sent(tmp_path, lambda file: file.write(bytes(1 << 20)), "text/plain")
        file.stat_result = os.stat(file.path)
        file.set_stat_headers(file.stat_result)
        os.truncate(file.path, 1 << 19)
        return file

    port = serve(Starlette(routes=[Route("/", answer)]))
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"http://127.0.0.1:{port}/", timeout=30)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.full
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "zip"])
def test_an_export_that_fails_in_the_middle(
    explorer: app.Explorer, serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    """No 200, a sentence, and nothing is left in the folder."""
    port = serve(app.make(explorer))
    url = f"http://127.0.0.1:{port}/{TOKEN}/api"
    assert httpx.get(f"{url}/export/{kind}", timeout=60).status_code == 200
    media, write = responses.KINDS[kind]

    def failing(*given: Any) -> None:
        write(*given)
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(responses.KINDS, kind, (media, failing))
    answer = httpx.get(f"{url}/export/{kind}", timeout=60)
    assert answer.status_code == 500
    assert f"no space left on {tempfile.gettempdir()} (No space left" in answer.json()["error"]
    assert [each for each in tmp_path.iterdir() if each.name.startswith("tmp")] == []


def test_a_tar_that_goes_while_it_is_exported(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clips come from elsewhere in OUT; where they lie nowhere, the list says so."""
    out, home = tmp_path / "out", tmp_path / "home"
    shutil.copytree(whole, out, symlinks=True)
    client = client_of(out, home)
    audio_of = clip.audio_of

    def removing(*given: Any) -> Any:
        found = audio_of(*given)
        for name in ("audio", "manifests", "datasets/v0001/wenet"):
            shutil.rmtree(out / name, ignore_errors=True)
        return found

    monkeypatch.setattr(clip, "audio_of", removing)
    answer = client.get("/api/export/zip")
    assert answer.status_code == 200
    files = zipfile.ZipFile(io.BytesIO(answer.content))
    assert files.testzip() is None
    rows = [json.loads(line) for line in files.read("items.jsonl").splitlines()]
    assert len(rows) == 8
    assert [row["audio"] for row in rows if "audio" in row] == files.namelist()[:-1]
    assert all(row["audio_missing"] for row in rows if "audio" not in row)
    assert sum("audio" in row for row in rows) == 1


# The end


def test_ctrl_c_while_clients_hang(explorer: app.Explorer, hanging: Hanging) -> None:
    """The server's thread ends with these connections open."""
    server = access.server(app.make(explorer), explorer.corpus.end)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        responses = f"GET /{TOKEN}/api/export/zip HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        port = listener.getsockname()[1]
        for sent in ("", "GET", HEAD, POST, responses) * 10:
            hanging.append(connected(port, sent.encode()))
        time.sleep(0.2)
        began = time.monotonic()
        server.should_exit = True
        thread.join(120)
    assert not thread.is_alive()
    assert time.monotonic() - began < access.END_SECONDS + 60


def test_what_takes_long_ends_with_the_explorer(explorer: app.Explorer) -> None:
    """A query that runs, a query that begins, and a detector that hears an hour."""
    corpus = explorer.corpus
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(corpus.rows, "SELECT sum(a.range * b.range) FROM range(1000000) a, "
                                        "range(1000000) b")  # fmt: skip
        time.sleep(0.3)
        began = time.monotonic()
        corpus.end()
        with pytest.raises(Exception, match="INTERRUPT"):
            slow.result(60)
        assert time.monotonic() - began < 60
    with pytest.raises(Ended):
        corpus.rows("SELECT 1")
    with pytest.raises(Ended):
        corpus.going_on()


def test_sql_ends_with_the_explorer(explorer: app.Explorer, tmp_path: Path) -> None:
    """Its process, too, which a signal to the explorer alone does not reach."""
    place = explorer.corpus.copied(explorer.corpus.items())
    slow = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(sandbox.answer, place, slow, explorer.corpus.going_on)
        time.sleep(0.3)
        explorer.corpus.end()
        with pytest.raises(Ended):
            asked.result(sandbox.SECONDS / 2)
