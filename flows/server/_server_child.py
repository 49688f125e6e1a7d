"""The program of a local Prefect server: Prefect's own application, behind `door.py`. Started by
`server.py`, never imported.

It ends with its parent, even when that is killed: its standard input is a pipe that only the parent
holds open. (PR_SET_PDEATHSIG would fire when the parent's *thread* ends, and exists on Linux only.)
The parent passes the listening socket, so no other process can take the port.
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
    """End this process when standard input ends: by SIGTERM first, then at once."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def main(socket_fd: int) -> None:
    threading.Thread(target=watch_parent, name="watch-parent", daemon=True).start()

    from ...tasks.base.process_memory import importing

    with importing():
        import uvicorn
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

        from .door import Door

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
