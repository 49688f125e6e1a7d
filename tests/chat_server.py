"""A language model's server on 127.0.0.1 whose answers a test decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: (status, content of the message or the whole body as bytes or JSON, headers)
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class ChatServer:
    def __init__(self) -> None:
        self.answer: Callable[[str], Answer] = lambda text: (200, text.capitalize() + ".")
        self.asked: list[str] = []  # texts
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.paths: set[str] = set()
        self.busy = self.most = 0
        lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = body["messages"][-1]["content"]
                with lock:
                    model.asked.append(text)
                    model.bodies.append(body)
                    model.headers.append(self.headers)
                    model.paths.add(self.path)
                    model.busy += 1
                    model.most = max(model.most, model.busy)
                try:
                    status, said, *headers = model.answer(text)
                finally:
                    with lock:
                        model.busy -= 1
                if not status:
                    self.close_connection = True  # hangs up without an answer
                    return
                if status == 200 and isinstance(said, str):
                    message = {"role": "assistant", "content": said}
                    said = {
                        "id": "chatcmpl-1", "object": "chat.completion", "model": body["model"],
                        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    }  # fmt: skip
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

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@contextmanager
def serving() -> Iterator[ChatServer]:
    """A server that is gone at the end."""
    server = ChatServer()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()
