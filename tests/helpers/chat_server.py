"""A language model's server on 127.0.0.1 whose answers a test decides."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.helpers.post_server import Answer, PostServer


class ChatServer(PostServer):
    """`answer` gives the content of the message, or the whole body as bytes or JSON."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Answer] = lambda text: (200, text.capitalize() + ".")
        self.asked: list[str] = []  # texts
        self.heard: list[bytes] = []  # WAV files beside them
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        super().__init__()

    def take(self, headers: Any, body: bytes) -> dict[str, Any]:
        request: dict[str, Any] = json.loads(body)
        parts = request["messages"][-1]["content"]
        if not isinstance(parts, str):
            text, audio = parts
            assert (text["type"], audio["type"]) == ("text", "input_audio")
            assert audio["input_audio"]["format"] == "wav"
            self.heard.append(base64.b64decode(audio["input_audio"]["data"]))
            request["messages"][-1]["content"] = text["text"]
        self.asked.append(request["messages"][-1]["content"])
        self.bodies.append(request)
        self.headers.append(headers)
        return request

    def reply(self, request: dict[str, Any]) -> Answer:
        status, said, *headers = self.answer(request["messages"][-1]["content"])
        if status == 200 and isinstance(said, str):
            message = {"role": "assistant", "content": said}
            said = {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "model": request["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        return status, said, headers[0] if headers else {}


@contextmanager
def serving() -> Iterator[ChatServer]:
    """A server that is gone at the end."""
    server = ChatServer()
    try:
        yield server
    finally:
        server.close()
