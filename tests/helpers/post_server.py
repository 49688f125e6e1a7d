"""An HTTP server on 127.0.0.1 that takes POST requests, and whose answers a test decides."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Status (0: hang up without an answer), JSON or bytes, headers.
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class PostServer:
    """Started at once; `close` ends it. `busy` requests are in it now, `most` were at once."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.paths: set[str] = set()
        self.busy = self.most = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    request = server.take(self.headers, body)
                    server.paths.add(self.path)
                    server.busy += 1
                    server.most = max(server.most, server.busy)
                try:
                    status, said, *headers = server.reply(request)
                finally:
                    with lock:
                        server.busy -= 1
                if not status:
                    self.close_connection = True
                    return
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                try:
                    self.send_response(status)
                    for name, value in (headers[0] if headers else {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # the client went away

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self.thread.start()

    def take(self, headers: Any, body: bytes) -> Any:
        """Note what came in; one request at a time."""
        raise NotImplementedError

    def reply(self, request: Any) -> Answer:
        """The answer to what `take` returned."""
        raise NotImplementedError

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()
