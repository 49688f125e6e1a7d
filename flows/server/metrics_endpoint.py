"""`serve --metrics PORT`: the metrics of the last run, for a Prometheus on this machine.

On loopback, without a token, as Prometheus expects; web pages cannot read the response, as other
host names that resolve to this machine are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from ...tasks.base.errors import ConfigError, MillError
from ..run import prometheus

HOST = "127.0.0.1"
PATIENCE_S = 2.0  # for a connection without a request: they are answered one by one
NAMES = (HOST, "localhost")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def serving(runs: Path, port: int | None) -> Iterator[str | None]:
    """Serve the current file in `runs` (OUT/runs) as `/metrics` at `port`; yields the address.
    Without a port, does nothing. ConfigError if the port is taken."""
    if port is None:
        yield None
        return
    try:
        server = HTTPServer((HOST, port), _handler(runs))
    except OSError as error:
        raise ConfigError(f"--metrics {port}: {error.strerror}; choose another port") from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(runs: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_S

        def do_GET(self) -> None:
            hosts = self.headers.get_all("Host", [])
            if len(hosts) != 1 or hosts[0].partition(":")[0] not in NAMES:
                return self._answer(403, b"")
            if self.path != "/metrics":
                return self._answer(404, b"")
            try:
                return self._answer(200, prometheus.read(runs).encode())
            except (MillError, OSError):
                return self._answer(503, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scrape every 15 s would fill the log."""

    return Handler
