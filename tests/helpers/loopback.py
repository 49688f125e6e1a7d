"""Small HTTP servers on the loopback: files of a folder, and redirects to where a test says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Web:
    """A server: its address, what it was asked, and where it sends whom (`GET /x` or `/x`)."""

    url: str
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)


class _Files(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, web: Web, **more: Any) -> None:
        self._web = web
        super().__init__(*args, **more)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _redirected(self) -> bool:
        self._web.asked.append(f"{self.command} {self.path}")
        self._web.headers.append(dict(self.headers))
        path = self.path.partition("?")[0]
        to = self._web.redirects.get(f"{self.command} {path}", self._web.redirects.get(path))
        if to is not None:
            self.send_response(307)
            self.send_header("Location", to)
            self.send_header("Content-Length", "0")
            self.end_headers()
        return to is not None

    def do_GET(self) -> None:
        if not self._redirected():
            super().do_GET()

    def do_HEAD(self) -> None:
        if not self._redirected():
            super().do_HEAD()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._redirected():
            self.send_error(404)


@contextmanager
def web(folder: Path, host: str = "127.0.0.1") -> Iterator[Web]:
    made = Web("")
    server = ThreadingHTTPServer((host, 0), partial(_Files, web=made, directory=str(folder)))
    made.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
