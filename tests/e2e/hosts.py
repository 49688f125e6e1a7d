"""Hosts for tests: a network, a hostname and a /tmp of their own, and one folder in common.

Root gets network namespaces on a bridge, each with its own mounts. Elsewhere a host is a group of
processes that stand in another folder, with a loopback address and a TMPDIR of their own.
Either way a host's processes inherit nothing that would make this checkout importable.
"""

import os
import random
import re
import secrets
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.faults.command import alive

ROOT = Path(__file__).parents[2]
TOKEN = "UTTERMILL_TEST_HOST"
DASK = str(Path(sysconfig.get_path("scripts")) / "dask")

#: Where files of tests may lie: a host has its own.
OWN = ("/tmp", "/dev/shm")
#: Runs in a new mount namespace: the host's disk becomes /tmp, and memory its own. Of what was in
#: them only `$@` up to -- stays.
MOUNTS = """
set -e
hostname "$1"; disk="$2"; shift 2
mount -t tmpfs none /mnt
mkdir /mnt/disk; mount --bind "$disk" /mnt/disk
kept=""; n=0
while [ "$1" != -- ]; do
    mkdir "/mnt/$n"; mount --bind "$1" "/mnt/$n"; kept="$kept $1"; n=$((n + 1)); shift
done
shift
mount --bind /mnt/disk /tmp
mount -t tmpfs none /dev/shm
n=0
for place in $kept; do
    mkdir -p "$place"; mount --bind "/mnt/$n" "$place"; n=$((n + 1))
done
cd /
exec "$@"
"""


@dataclass
class Host:
    """A machine as far as a worker can tell; `disk` is what is local to it."""

    name: str
    address: str
    disk: Path
    prefix: list[str]
    cable: Callable[[str], None] = lambda state: None
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """A process of this host; what it says goes to a log beside the disk."""
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "USER")}
        temp = {} if self.prefix else {"TMPDIR": str(self.disk)}
        log = self.disk.parent / f"{self.name}-{secrets.token_hex(4)}.log"
        with log.open("wb") as handle:
            process = subprocess.Popen(
                [*self.prefix, *command], cwd=self.disk, stdin=subprocess.DEVNULL,
                stdout=handle, stderr=handle, start_new_session=True,
                env={**keep, **temp, TOKEN: self.token, **environment},
            )  # fmt: skip
        self.started.append(process)
        return process

    def processes(self) -> list[psutil.Process]:
        return alive(self.token, variable=TOKEN)

    def lose(self) -> None:
        """The host is gone at once: no packet leaves it any more, all of its processes die."""
        self.cable("down")
        self.kill()

    def kill(self) -> None:
        while found := self.processes():
            for process in found:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=5)
        for ended in self.started:
            ended.wait()


@dataclass
class Site:
    """This machine (`address` is where the others reach it) and its hosts."""

    address: str
    hosts: list[Host]
    real: bool  # whether they are namespaces


def namespaces_work() -> bool:
    """Whether this process may make a network namespace, a bridge, and mounts in it."""
    name = f"um-probe-{os.getpid()}"
    try:
        with _namespace(name), _bridge(f"um{os.getpid()}p", "198.18.255.1/24"):
            _ip("netns", "exec", name, "mount", "-t", "tmpfs", "none", "/mnt")
            _ip("netns", "exec", name, "unshare", "--uts", "hostname", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@contextmanager
def site(home: Path, count: int, shared: Sequence[Path]) -> Iterator[Site]:
    """`count` hosts that see the folders of `shared`, the interpreter and the checkout, and no
    other file of tests. Nothing of them is left at the end."""
    make = _real if namespaces_work() else _plain
    if make is _real:
        _sweep()
    with make(home, count, shared) as made:
        try:
            yield made
        finally:
            for host in made.hosts:
                host.kill()


@contextmanager
def _real(home: Path, count: int, shared: Sequence[Path]) -> Iterator[Site]:
    # Names of 15 characters at most; a network that is reserved for tests (RFC 2544).
    tag = f"{os.getpid()}{random.choice('ghijklmnopqrstuvwxyz')}"
    net = f"198.{random.choice((18, 19))}.{random.randrange(254)}"
    kept = [*shared, Path(sys.prefix), ROOT]
    resolved = [path.resolve() for path in kept]
    inside = [str(path) for path in resolved if any(path.is_relative_to(own) for own in OWN)]
    with ExitStack() as stack:
        stack.enter_context(_bridge(bridge := f"um{tag}", f"{net}.1/24"))
        hosts = []
        for number in range(count):
            name, here, there = f"um-{tag}-{number}", f"um{tag}h{number}", f"um{tag}c{number}"
            stack.enter_context(_namespace(name))
            _ip("link", "add", here, "type", "veth", "peer", "name", there)
            stack.callback(_ip, "link", "delete", here)  # the kernel takes its time to do it
            _ip("link", "set", there, "netns", name)
            _ip("link", "set", here, "master", bridge, "up")
            address = f"{net}.{number + 2}"
            for words in (f"addr add {address}/24 dev {there}", f"link set {there} up",
                          "link set lo up"):  # fmt: skip
                _ip("-n", name, *words.split())
            disk = home / f"disk-{number}"
            disk.mkdir()
            called = f"host-{'ab'[number]}"
            prefix = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", MOUNTS, "sh",
                      called, str(disk), *inside, "--"]  # fmt: skip
            hosts.append(Host(called, address, disk, prefix, cable=_cable(here)))
        yield Site(f"{net}.1", hosts, True)


def _sweep() -> None:
    """Remove what tests left that were killed with -9: a device goes with its namespace."""
    spaces = [path.name for path in Path("/run/netns").glob("um-*")]
    bridges = [path.name for path in Path("/sys/class/net").glob("um*")]
    for name in (*spaces, *bridges):
        if (found := re.fullmatch(r"um-?(\d+)[a-z](-\d+)?", name)) and not psutil.pid_exists(
            int(found[1])
        ):
            _ip(*(("netns", "delete") if found[2] else ("link", "delete")), name)


@contextmanager
def _plain(home: Path, count: int, shared: Sequence[Path]) -> Iterator[Site]:
    hosts = []
    for number in range(count):
        disk = home / f"disk-{number}"
        disk.mkdir()
        hosts.append(Host(f"host-{'ab'[number]}", f"127.0.0.{number + 2}", disk, []))
    yield Site("127.0.0.1", hosts, False)


def _cable(device: str) -> Callable[[str], None]:
    return lambda state: _ip("link", "set", device, state)


@contextmanager
def _namespace(name: str) -> Iterator[None]:
    _ip("netns", "add", name)
    try:
        yield
    finally:
        _ip("netns", "delete", name)


@contextmanager
def _bridge(name: str, address: str) -> Iterator[None]:
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("addr", "add", address, "dev", name)
        _ip("link", "set", name, "up")
        yield
    finally:
        _ip("link", "delete", name)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
