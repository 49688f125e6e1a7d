"""Access to the explorer: only requests to the loopback that carry the token.

The token is the first part of every path (`/<token>/api/rows`), so that relative addresses carry
it and no cookie is needed; the page itself also opens at `/?token=<token>`. A page of another site
cannot know it, and a host name that is made to point here (DNS rebinding) is refused by its name.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flows.server.door import is_loopback

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

        if not is_loopback(Headers(scope=scope).get("host", "")):
            await PlainTextResponse(OTHER_HOST, 403)(scope, receive, send_with_headers)
            return
        first, _, rest = scope["path"].lstrip("/").partition("/")
        if self._right(first):
            inner = {**scope, "path": f"/{rest}", "raw_path": None, "root_path": ""}
            await self.app(inner, receive, send_with_headers)
            return
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        if self._right(asked[0]):
            await self.app(scope, receive, send_with_headers)
            return
        await PlainTextResponse(REFUSED, 403)(scope, receive, send_with_headers)

    def _right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())
