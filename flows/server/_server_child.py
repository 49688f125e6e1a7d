"""The program of a local Prefect server; started by `process.py`, never imported.

It ends with its parent, even when that is killed: its standard input is a pipe that only the parent
holds open. (PR_SET_PDEATHSIG would fire when the parent's *thread* ends, and exists on Linux only.)
A parent that leaves it to the next run first writes that there (`kept.py`). The parent passes the
listening socket, so no other process can take the port.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from ._sleep import Sleeper

GRACE_SECONDS = 10.0
#: How long an event waits for the one that it follows before it counts, and an alert is sent.
#: Prefect waits 15 minutes, and so would each scheduled run, whose first event follows one that is
#: never sent. Here all events come from one machine, at most some seconds out of order.
LOST = timedelta(seconds=15)


def watch_parent(sleeper: Sleeper) -> None:
    """End this process when standard input ends: by SIGTERM first, then at once. A server that is
    left to another run lives as long as that run's connection."""
    lease = 0
    try:
        while words := os.read(lease, 1024).decode().split():  # `keep`, seconds, identity
            link = sleeper.next_lease(float(words[1]), words[2])
            if link is None:
                break
            if lease:
                os.close(lease)
            lease = link.detach()
    except OSError as error:  # a run that was killed, or a folder that is gone
        print(error, file=sys.stderr)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)


def main(socket_fd: int) -> None:
    listener = socket.socket(fileno=socket_fd)
    sleeper = Sleeper(listener)
    threading.Thread(target=watch_parent, args=(sleeper,), name="watch-parent", daemon=True).start()

    from ...tasks.base.process_memory import importing

    with importing():
        import uvicorn

        from ._lazy_routes import prepare_late
        from .door import Door

        prepare_late()
        from prefect.server.api.server import create_app
        from prefect.server.events.ordering import memory
        from prefect.settings import get_current_settings
    memory.PRECEDING_EVENT_LOOKBACK = LOST  # type: ignore[attr-defined]
    with importing():  # of its own, as Prefect collects garbage itself before it serves
        app = create_app(final=True)

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
                sleeper.serving(asyncio.get_running_loop(), home, lambda: self.should_exit)
            finally:
                os.close(gate)

    config = uvicorn.Config(Door(app), log_level="warning")
    Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(int(sys.argv[1]))
