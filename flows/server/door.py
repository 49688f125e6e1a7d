"""Admits requests to a local Prefect server: only to a loopback name, and not from pages of another
origin.

Prefect's own login and CSRF protection come after this. They check neither the Host header, so that
another host name that resolves to the loopback (DNS rebinding) would share its pages' origin; nor
the origin of a websocket, which browsers open without a CORS check.
"""

from __future__ import annotations

import base64
import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOGIN = "/uttermill"  # the page that signs a browser in, beside those of Prefect's UI
KEY = "prefect-password"  # under which the UI stores the password in the form its requests send
HEADERS = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: The password follows `#`, so that it reaches no log; a wrong one does not replace a stored one.
SCRIPT = f"""
const key = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("/api/admin/version", {{headers: {{Authorization: "Basic " + key}}}}).then((reply) => {{
  if (reply.ok) {{
    localStorage.setItem("{KEY}", key);
    location.replace("/");
  }} else {{
    document.body.textContent = "Open the address that serve printed last.";
  }}
}});
"""
PAGE = (
    f'<!doctype html><meta charset="utf-8"><title>uttermill</title><body><script>{SCRIPT}</script>'
)
_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": f"default-src 'none'; connect-src 'self'; "
    f"script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}


def is_loopback(host: str) -> bool:
    """Whether a Host header names the loopback. Its port may differ, if forwarded."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower() in HOSTS


class Door:
    """Lets a request through to `app`, or refuses it: 400 for another host, 403 for another
    origin."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if refusal := _refusal(Headers(scope=scope)):
            http = scope["type"] == "http"
            answer = PlainTextResponse(*refusal) if http else WebSocketClose(1008, refusal[0])
            await answer(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        page = scope["type"] == "http" and scope["path"] == LOGIN
        app = HTMLResponse(PAGE, headers=PAGE_HEADERS) if page else self.app
        await app(scope, receive, send_with_headers)


def _refusal(headers: Headers) -> tuple[str, int] | None:
    """What is wrong with a request's host or origin, and the status of the response."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(hosts[0]):
        return "this server answers only at 127.0.0.1 and localhost", 400
    # Programs send no Origin header; a page sends its own with all requests that need permission.
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in headers.getlist("origin")):
        return "this server answers no page of another origin", 403
    return None
