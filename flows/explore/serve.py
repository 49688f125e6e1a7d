"""`uttermill explore`: serves the page on loopback until it is interrupted."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...tasks.base.errors import ConfigError, MillError
from ..run import run_folder
from . import access, app
from .corpus import Corpus
from .looking import Looking, alone

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Served:
    """Where the page is."""

    url: str
    port: int
    tunnel: str  # the command that forwards the port to another machine
    version: int


def explore(
    out: Path, version: int | None, against: int | None, port: int, ready: Callable[[Served], None]
) -> None:
    """Serve until SIGINT or SIGTERM; calls `ready` once the port is open. ConfigError if OUT holds
    no such version, or the port is taken."""
    with run_folder.scratch() as folder:
        corpus = Looking(out, folder) if alone(out) else Corpus(out, folder)
        try:
            chosen = _checked(corpus, version)
            if against is not None:
                _checked(corpus, against)
            with _listening(port) as listener:
                token = secrets.token_urlsafe(24)
                used = listener.getsockname()[1]
                explorer = app.Explorer(corpus, against, token, folder)
                view = f"#version={chosen}" if version is not None else ""
                ready(
                    Served(
                        f"http://{HOST}:{used}/?token={token}{view}",
                        used,
                        f"ssh -N -L {used}:{HOST}:{used} {socket.gethostname()}",
                        chosen,
                    )
                )
                try:
                    access.server(app.make(explorer), corpus.end).run([listener])
                finally:
                    corpus.end()
                    explorer.close()
        finally:
            corpus.close()


def _checked(corpus: Corpus, number: int | None) -> int:
    try:
        return corpus.number(number)
    except MillError as error:  # a wrong number is a wrong argument here
        raise ConfigError(str(error)) from None


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=64)
    except OSError as error:
        fault = os.strerror(error.errno or 0)
        raise ConfigError(f"port {port} cannot be used: {fault}; give another --port") from None
