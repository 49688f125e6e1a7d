"""The local Prefect server's own process; started by `flows/server/server.py`, never imported.

It ends with its parent, also when that one is killed: its standard input is a pipe that only
the parent holds open. (PR_SET_PDEATHSIG would fire when the parent's *thread* ends, and is
Linux only.) The listening socket comes from the parent, so no other process can take the port.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

GRACE_SECONDS = 10.0


def watch_parent() -> None:
    """Ends this process when standard input ends: politely first, then for good."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main(socket_fd: int) -> None:
    threading.Thread(target=watch_parent, name="watch-parent", daemon=True).start()

    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    home = Path(get_current_settings().home)
    home.mkdir(parents=True, exist_ok=True)
    # Two servers that migrate one new database at the same time break it: one at a time. The
    # kernel drops the lock with the process, however it ends.
    gate = os.open(home / ".uttermill-server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(gate, fcntl.LOCK_EX)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            try:
                await super().startup(sockets)
            finally:
                os.close(gate)

    config = uvicorn.Config(create_app(final=True), log_level="warning")
    Server(config).run(sockets=[socket.socket(fileno=socket_fd)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
