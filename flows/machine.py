"""Checks that this machine lets a run connect to itself and start threads. By trying, because
limits of users, containers and services add up, and exceeding one fails obscurely."""

from __future__ import annotations

import resource
import socket
import threading

from ..tasks.base.counting import counted
from ..tasks.base.errors import RunError

ANSWER_SECONDS = 5.0
NO_THREAD = "can't start new thread"  # Python's RuntimeError
RAISE = "raise the limit (`ulimit -u`, or the container's on pids)"
MOST = 256  # threads tried; more would take address space and time


def check(threads: int, what: str, instead: str) -> None:
    """Raises RunError, with the remedy `instead`, if `what`, of about `threads` threads, cannot
    work."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), ANSWER_SECONDS).close()
    except OSError as error:
        raise RunError(
            "this machine does not reach itself at 127.0.0.1, where the processes of a run talk to "
            f"each other ({error.strerror or error}): bring its loopback up (`ip link set lo up`), "
            "or let the firewall or sandbox pass it"
        ) from None
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:  # per process
        return
    count, over = min(threads, MOST), threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=over.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        more = counted(len(started), "more thread or process", "more threads or processes")
        raise RunError(
            f"this user may start only {more} here, and {what} needs about "
            f"{count}: {RAISE}, or {instead}"
        ) from None
    finally:
        over.set()
        for thread in started:
            thread.join()
