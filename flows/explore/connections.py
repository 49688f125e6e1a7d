"""The explorer's connections: how many there are, and how long each may keep it waiting.

uvicorn waits for a client as long as the client likes: for the rest of a request, and until an
answer is read. Here both have an end, and so has the wait when the explorer is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256  # connections; further ones are closed at once
REQUEST_SECONDS = 10.0  # from a request's first byte, or the connection, to its last byte
READ_SECONDS = 60.0  # in which a client reads nothing of what waits for it
END_SECONDS = 1.0  # for clients, once the explorer is interrupted


class Bounded(H11Protocol):
    """A connection that is closed if its client is late."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Start the clock if a request is not whole yet, and leave it running until it is."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            if self._asking is not None:
                self._asking.cancel()
            self._asking = None
        elif self._asking is None:
            self._asking = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._asking, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """Tells the application that it ends, before it waits for what runs."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        self._ending()
        late = asyncio.get_running_loop().call_later(END_SECONDS, self._abort)
        await super().shutdown(sockets)
        late.cancel()

    def _abort(self) -> None:
        for connection in [*self.server_state.connections]:
            connection.transport.abort()


def server(app: ASGIApp, ending: Callable[[], None]) -> Server:
    """A server of `app`; `ending` is called when it is interrupted."""
    config = uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="off",
    )
    return Server(config, ending)
