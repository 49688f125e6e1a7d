"""Keeps a local Prefect server for the next run, in the server's process; `kept.py` is the run's
side.

While nobody needs it, its event loop is blocked: no timer fires, and it takes no CPU. It sleeps
only while it holds no lock on its database, else nobody could write there.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType

FOLDER = "uttermill-server"  # in Prefect's home
SOCKET, LOCK = "socket", "lock"  # in it
DATABASE = "prefect.db"  # Prefect's, in its home
EARLY = "early"  # the socket, until the server sleeps
TRIES = 50  # to sleep while the database is free
APART_SECONDS = 0.2
GREETING_SECONDS = 2.0  # for a run that connects to send its identity


class Sleeper:
    """`listener`: the server's socket, which is handed over."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._lock: int | None = None

    def serving(
        self, loop: asyncio.AbstractEventLoop, home: Path, is_ending: Callable[[], bool]
    ) -> None:
        """Called once the server answers; `loop` runs in the main thread, `home` is Prefect's.
        `is_ending`: whether a signal has told the server to end: its loop must not be blocked
        then."""
        self._loop, self._home, self._is_ending = loop, home, is_ending

    def next_lease(self, seconds: float, identity: str) -> socket.socket | None:
        """Sleep until a run takes this server over; its connection, or None if none that fits comes
        within `seconds`, or another server is kept already. OSError if its folder is gone."""
        folder = self._home / FOLDER
        if not self._is_the_one(folder):
            return None
        os.chdir(self._home)  # the run's folder may be removed
        early, place = folder / EARLY, folder / SOCKET
        early.unlink(missing_ok=True)
        with closing(socket.socket(socket.AF_UNIX)) as door:
            door.bind(str(early))
            door.listen(1)
            if (wake := self._asleep()) is None:
                return None
            try:
                early.rename(place)  # once visible, the server sleeps and listens
                return self._fitting(door, seconds, identity)
            finally:
                place.unlink(missing_ok=True)
                _woken(wake)

    def _is_the_one(self, folder: Path) -> bool:
        """Whether this is the only kept server; takes a lock that lasts until the process ends."""
        if self._lock is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            lock = os.open(folder / LOCK, flags, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                return False
            self._lock = lock
        return True

    def _fitting(self, door: socket.socket, seconds: float, identity: str) -> socket.socket | None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            door.settimeout(left)
            try:
                lease, _ = door.accept()
            except TimeoutError:
                return None
            lease.settimeout(GREETING_SECONDS)
            with suppress(OSError):
                greeting = lease.recv(1 << 12).decode(errors="replace").strip()
                if greeting and greeting != identity:
                    lease.close()
                    return None  # another release, other settings or another database
                if greeting:
                    auth = os.environ["PREFECT_SERVER_API_AUTH_STRING"]
                    facts = json.dumps({"pid": os.getpid(), "auth": auth}).encode()
                    socket.send_fds(lease, [facts], [self._listener.fileno()])
                    lease.settimeout(None)
                    return lease
            lease.close()
        return None

    def _asleep(self) -> int | None:
        """Block the loop while the database is free; returns the descriptor to write to so that it
        goes on, None if the database was never free."""
        for _ in range(TRIES):
            wake = self._held()
            if not self._is_ending() and self._is_free():
                return wake
            _woken(wake)
            if self._is_ending():
                return None
            time.sleep(APART_SECONDS)
        return None

    def _held(self) -> int:
        woken, wake = os.pipe()
        asleep = threading.Event()

        def hold() -> None:
            before = signal.getsignal(signal.SIGTERM)

            def end(number: int, frame: FrameType | None) -> None:
                with suppress(OSError):
                    os.write(wake, b"e")
                if callable(before):
                    before(number, frame)

            signal.signal(signal.SIGTERM, end)
            asleep.set()
            if not self._is_ending():  # by a signal that came before this handler was there
                os.read(woken, 1)
            signal.signal(signal.SIGTERM, before)
            os.close(woken)

        self._loop.call_soon_threadsafe(hold)
        asleep.wait()
        return wake

    def _is_free(self) -> bool:
        try:
            with closing(sqlite3.connect(self._home / DATABASE, timeout=0)) as database:
                database.execute("BEGIN IMMEDIATE")
                database.rollback()
        except sqlite3.Error:
            return False
        return True


def _woken(wake: int) -> None:
    """Let the loop go on; a signal to end may have done so before."""
    with suppress(BrokenPipeError):
        os.write(wake, b"w")
    os.close(wake)
