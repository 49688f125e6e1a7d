"""Access to the explorer: which requests it accepts, how many connections, and how long each may
keep it waiting.

Only requests to the loopback that carry the token get in. It is the first part of every path
(`/<token>/api/rows`), so that relative addresses carry it and no cookie is needed; the page itself
also opens at `/?token=<token>`. A page of another site cannot know it, and other host names that
resolve to the loopback (DNS rebinding) are refused.

uvicorn waits for a client without limit, for the rest of a request and until a response is read.
Here both waits are limited, and so is the one when the explorer is interrupted. Any local user can
open connections: beyond MOST, the one that has waited longest for its request is closed, so that
half-open ones keep nobody out.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qs

import h11
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..server.door import is_loopback

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; media-src 'self' blob:; connect-src 'self'; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
REFUSED = "this address lacks the explorer's token: open the whole address that it printed"
OTHER_HOST = "the explorer answers only at 127.0.0.1 and localhost"
MOST = 256  # connections
REQUEST_SECONDS = 10.0  # from a request's first byte, or the connection, to its last byte
READ_SECONDS = 60.0  # in which a client reads nothing of a waiting response
END_SECONDS = 1.0  # for clients, once the explorer is interrupted


class Gate:
    """Lets a request through to `app` if host and token are right; 403 otherwise."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        hosts = Headers(scope=scope).getlist("host")
        first, _, rest = scope["path"].lstrip("/").partition("/")
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        in_path, in_query = (
            hmac.compare_digest(given.encode(), self.token.encode()) for given in (first, asked[0])
        )
        app = self.app
        if len(hosts) != 1 or not is_loopback(hosts[0]):
            app = PlainTextResponse(OTHER_HOST, 403 if len(hosts) == 1 else 400)
        elif in_path:
            scope = {**scope, "path": f"/{rest}", "raw_path": None, "root_path": ""}
        elif not in_query:
            app = PlainTextResponse(REFUSED, 403)
        await app(scope, receive, send_with_headers)


class Bounded(H11Protocol):
    """A connection that is closed if its client is late."""

    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            self._make_room()
        self._wait_for_request()

    def _make_room(self) -> None:
        asking = [
            (timer.when(), connection)
            for connection in self.connections
            if isinstance(connection, Bounded) and (timer := connection._asking) is not None
        ]
        _, longest = min(asking, key=itemgetter(0), default=(0.0, self))
        longest._stop_asking()  # it is closed in a moment: not to be chosen again
        longest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_request()

    def _wait_for_request(self) -> None:
        """Start the timer if a request is incomplete; it runs until the request is complete."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_asking()
        elif self._asking is None:
            self._asking = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._asking = None

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
    """Calls `ending` at shutdown, before it waits for running requests."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        self._ending()

        def abort() -> None:
            for connection in [*self.server_state.connections]:
                connection.transport.abort()

        late = asyncio.get_running_loop().call_later(END_SECONDS, abort)
        await super().shutdown(sockets)
        late.cancel()


def server(app: ASGIApp, ending: Callable[[], None]) -> Server:
    """A server of `app`; `ending` is called when it is interrupted."""
    quiet: Any = {"ws": "none", "log_level": "warning", "access_log": False, "lifespan": "off"}
    return Server(uvicorn.Config(app, http=Bounded, **quiet), ending)
