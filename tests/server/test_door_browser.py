"""What a page of a local Prefect server can reach, in a real browser: its own server, and no other.

Needs Chromium, as `e2e/test_report_browser.py` does.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.e2e.test_report_browser import browser
from uttermill.flows.server.door import Door

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.needs("chromium"), pytest.mark.full]

#: What Prefect's pages do, and what a picture in an artifact or a script of a CDN would: each says
#: whether it went out.
LEAVING = """
async (url) => {
  const outcome = (work) => work().then(() => "sent", () => "blocked");
  const loaded = (name, attribute) => new Promise((done, failed) => {
    const element = document.createElement(name);
    element.onload = done; element.onerror = failed;
    element.rel = "stylesheet";
    element[attribute] = url + name;
    document.body.append(element);
  });
  return [
    await outcome(() => fetch(url + "fetch", {mode: "no-cors"})),
    await outcome(() => loaded("img", "src")),
    await outcome(() => loaded("script", "src")),
    await outcome(() => loaded("link", "href")),
    navigator.sendBeacon(url + "beacon", "x") ? "sent" : "blocked",
  ];
}
"""
CONTENT = {
    "img": ("<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
    "script": ("", "text/javascript"), "link": ("", "text/css"),
}  # fmt: skip


class Pages:
    """Answers everything, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        name = scope["path"].lstrip("/")
        self.asked.append(name)
        answer: Response = HTMLResponse("<!doctype html><title>page</title><body>hello")
        if name:
            content, kind = CONTENT.get(name, ("", "text/plain"))
            answer = PlainTextResponse(content, media_type=kind)
        await answer(scope, receive, send)


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(30)


@pytest.mark.parametrize("guarded", [True, False])
def test_nothing_leaves_for_another_host(browser: Any, guarded: bool) -> None:
    own, other = Pages(), Pages()
    with serving(Door(own) if guarded else own) as page_url, serving(other) as elsewhere:
        page = browser.new_page()
        page.goto(page_url)
        said = page.evaluate(LEAVING, elsewhere)
        page.wait_for_timeout(200)
        if guarded:
            assert other.asked == []
            assert said[:4] == ["blocked"] * 4
            assert page.evaluate(LEAVING, page_url)[:4] == ["sent"] * 4
        asked = own.asked if guarded else other.asked  # the latter is a control
        for _ in range(100):  # the browser sends a beacon when it likes
            if "beacon" in asked:
                break
            page.wait_for_timeout(100)
        assert {"fetch", "img", "script", "link", "beacon"} <= {*asked}
        page.close()
