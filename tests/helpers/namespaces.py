"""A network of its own for what a test starts, where commands may listen at any address."""

import os
import signal
import socket
import struct
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.listeners import Place, tree

PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
LISTEN = "0A"  # the state in /proc/net/tcp


@dataclass
class Network:
    """Reached through `pid`, a process that lives there."""

    pid: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, command: str, home: Path, **environment: str) -> subprocess.Popen[bytes]:
        """A shell's command in the folder `home`; what it says goes to a log there."""
        with (home / f"{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["nsenter", f"--target={self.pid}", "--user", "--preserve-credentials", "--net",
                 "sh", "-ec", command],
                cwd=home, env={**os.environ, "PATH": PATH, **environment}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.started.append(process)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it and all that descends from it."""
        for pid in tree(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def listeners(self) -> set[Place]:
        """Where anything in this network listens."""
        found = set()
        for file, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            for line in Path(f"/proc/{self.pid}/net/{file}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == LISTEN:
                    found.add((_address(local.split(":")[0], family), int(local[-4:], 16)))
        return found


def _address(digits: str, family: socket.AddressFamily) -> str:
    """The kernel writes addresses as 32-bit words in the machine's own order."""
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


@contextmanager
def network(*addresses: str) -> Iterator[Network]:
    """A loopback with more addresses; all that was started there has ended when it closes."""
    ip = ["ip link set lo up", *(f"ip addr add {address}/32 dev lo" for address in addresses)]
    holder = subprocess.Popen(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec",
         "; ".join([*ip, "echo ready", "exec cat"])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        made = Network(holder.pid)
        try:
            assert holder.stdout.readline() == b"ready\n"
            yield made
        finally:
            for process in made.started:
                made.end(process)
            assert holder.stdin is not None
            holder.stdin.close()
