"""What a request to a local Prefect server must be before the server sees it: made to a loopback
name, and by no page of another origin.

Prefect's own login and CSRF protection come after this. They do not look at the Host header, so a
host name that is made to point here (DNS rebinding) would have their pages for its own; nor at the
origin of a websocket, for which browsers ask no leave.
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
KEY = "prefect-password"  # under which the UI keeps the password, as its requests send it
HEADERS = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

#: The password comes behind `#`, so that it reaches no log; a wrong one replaces none that is kept.
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
    """Whether a Host header names the loopback. Its port may be another than ours: a forwarded
    one."""
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
    """What is wrong with a request's host or origin, and the status that says so."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(hosts[0]):
        return "this server answers only at 127.0.0.1 and localhost", 400
    # Programs send no origin; a page sends its own with all that it may not ask without leave.
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in headers.getlist("origin")):
        return "this server answers no page of another origin", 403
    return None
