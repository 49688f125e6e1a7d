"""What processes listen at, and what they tell a stranger there."""

import socket
import ssl
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

LOOPBACK = {"127.0.0.1", "::1"}
#: A web browser's words, and nothing that Dask or TLS would understand.
PLAIN = b"GET /info/main/logs.html HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"
HANDSHAKE = b"compression"  # in what Dask sends first to whom it trusts
ALERT = 7  # bytes of TLS' refusal of what is not TLS

Place = tuple[str, int]  # address and port


def of(pids: Iterable[int]) -> set[Place]:
    """Where processes listen, TCP and UDP; those that have ended listen nowhere."""
    found = set()
    for pid in pids:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            for link in psutil.Process(pid).net_connections("inet"):
                if link.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and link.laddr:
                    found.add((link.laddr.ip, link.laddr.port))
    return found


def tree(pid: int) -> list[int]:
    """A process and all that descends from it, by their ids."""
    with suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []


def hosts(pids: Iterable[int]) -> set[str]:
    """The addresses of `of`."""
    return {host for host, _ in of(pids)}


def heard(place: Place, context: ssl.SSLContext | None = None, words: bytes = PLAIN) -> bytes:
    """All that a listener sends, to `words` or before, until it hangs up or Dask's handshake is
    there; with TLS where there is a context."""
    told = b""
    end = time.monotonic() + 5
    with (
        suppress(OSError),
        socket.create_connection(place, timeout=5) as bare,
        context.wrap_socket(bare) if context else bare as link,
    ):
        link.sendall(words)
        while time.monotonic() < end and HANDSHAKE not in told and (piece := link.recv(4096)):
            told += piece
    return told


def stranger(cert: str = "", key: str = "") -> ssl.SSLContext:
    """One who trusts everybody, and shows a certificate if there is one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if cert:
        context.load_cert_chain(cert, key)
    return context
