"""The program of a local Prefect server: Prefect's own application, behind a door that admits
requests only to a loopback name, and not from pages of another origin. Its pages reach this server
alone. `server.py` starts it.

Prefect's own login and CSRF protection come after the door. They check neither the Host header, so
that another host name that resolves to the loopback (DNS rebinding) would share its pages' origin;
nor the origin of a websocket, which browsers open without a CORS check. Its pages ask an analytics
host each time they load, and its documentation of the API, which asks for no password, runs scripts
of a CDN.

The program ends with its parent, even when that is killed: its standard input is a pipe that only
the parent holds open. (PR_SET_PDEATHSIG would fire when the parent's *thread* ends, and exists on
Linux only.) The parent passes the listening socket, so no other process can take the port.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from ...tasks.base.process_memory import importing

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
LOGIN = "/uttermill"  # the page that signs a browser in, beside those of Prefect's UI
KEY = "prefect-password"  # under which the UI stores the password in the form its requests send
#: FastAPI's pages about the API, and what they are made from.
DOCUMENTATION = re.compile(r"/(?:docs|redoc|openapi\.json)(?:[/\n].*)?", re.DOTALL)
#: For Prefect's pages: their scripts, sockets, pictures and workers are this server's. Styles are
#: set by scripts, workers made in the page, and what draws a run's graph compiles functions.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' ws://{host} data: blob:",
        "worker-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
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
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower() in HOSTS


class Door:
    """Refuses a request with 400 for another host, 403 for another origin, 404 for the
    documentation of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if refusal := _refusal(headers, scope["path"]):
            http = scope["type"] == "http"
            answer = PlainTextResponse(*refusal) if http else WebSocketClose(1008, refusal[0])
            await answer(scope, receive, send)
            return

        policy = POLICY.format(host=headers["host"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered = MutableHeaders(scope=message)
                answered.update(HEADERS)
                answered.setdefault("Content-Security-Policy", policy)
            await send(message)

        page = scope["type"] == "http" and scope["path"] == LOGIN
        app = HTMLResponse(PAGE, headers=PAGE_HEADERS) if page else self.app
        await app(scope, receive, send_with_headers)


def _refusal(headers: Headers, path: str) -> tuple[str, int] | None:
    """What is wrong with a request's host, origin or path, and the status of the response."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_loopback(hosts[0]):
        return "this server answers only at 127.0.0.1 and localhost", 400
    # Programs send no Origin header; a page sends its own with all requests that need permission.
    if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in headers.getlist("origin")):
        return "this server answers no page of another origin", 403
    if DOCUMENTATION.fullmatch(path):
        return "this server does not describe its API: see Prefect's documentation", 404
    return None


GRACE_SECONDS = 10.0


def watch_parent() -> None:
    """End this process when standard input ends: by SIGTERM first, then at once."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main(socket_fd: int) -> None:
    threading.Thread(target=watch_parent, name="watch-parent", daemon=True).start()

    with importing():
        import uvicorn
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

    home = Path(get_current_settings().home)
    home.mkdir(parents=True, exist_ok=True)
    # Two servers that migrate one new database at the same time would break it. The kernel drops
    # the lock when the process ends, however it ends.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    gate = os.open(home / ".uttermill-server.lock", flags, 0o600)
    fcntl.flock(gate, fcntl.LOCK_EX)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await super().startup(sockets)
            finally:
                os.close(gate)

    config = uvicorn.Config(Door(create_app()), log_level="warning")
    Server(config).run(sockets=[socket.socket(fileno=socket_fd)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
