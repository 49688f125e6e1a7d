"""The lock of an OUT on an object store: `OUT/.lock/00000007`, numbered, put exclusively, renewed.

The highest number counts. A run takes the next number once the last run has ended or is dead; if
two try, the store accepts one put. So a run wrongly taken for dead finds a number higher than its
own: it has lost OUT, and publishes nothing.

An owner on this machine and in this container lives as long as its process. Any other lives while
it renews, watched for LEASE seconds on the watcher's own clock: clocks of two machines are never
compared. In the end, the exclusive put of dataset.json decides who publishes a version.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict
from uuid import uuid4

import psutil

from ..base.errors import ConfigError, OutLocked, RunError
from ..base.logs import log
from .objects import Objects
from .store_errors import Away

RENEW = 5.0  # s between renewals
LEASE = 30.0  # s without a renewal until an owner counts as dead, also to itself
FOLDER = ".lock"
TRIES = 20  # attempts while other runs take and release OUT

_store = Objects()


class Owner(TypedDict, total=False):
    """The run that holds OUT, as JSON; a lock on a folder has only the first four fields."""

    pid: int
    host: str
    since: str
    command: str
    machine: str | None  # see `_machine`
    began: float  # of the process, s since 1970
    token: str  # random, one per attempt
    beat: int  # renewals so far
    ended: bool


class Lease:
    """Holds OUT for this process under a number."""

    def __init__(self, out: Path, number: int, owner: Owner) -> None:
        self.out, self.number, self.owner = out, number, owner
        self.renewed = time.monotonic()
        self.lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        beat = 0
        while not self._stop.wait(RENEW):
            beat += 1
            try:
                if _newest(self.out) != self.number:
                    return self._lose("another run has taken it")
                began = time.monotonic()  # the store may write long before it answers
                _write(self.out, self.number, {**self.owner, "beat": beat})
                self.renewed = began
            except Exception as error:  # whatever it is, the next renewal may succeed
                log.warning("the lock of %s was not renewed: %s", self.out, error)
        try:
            if not self.lost and _newest(self.out) == self.number:
                _write(self.out, self.number, {**self.owner, "ended": True})
        except Exception as error:  # the store is unreachable; the lease will expire
            log.warning("the lock of %s was not released: %s", self.out, error)
        return None

    def _lose(self, why: str) -> None:
        self.lost = True
        log.error("the lock of %s is lost: %s; nothing will be published", self.out, why)

    def check(self) -> None:
        """RunError when another run has taken OUT, or may already believe that it can."""
        if not self.lost and _newest(self.out) != self.number:
            self._lose("another run has taken it")
        if not self.lost and time.monotonic() - self.renewed > LEASE:
            self._lose("it could not be renewed in time")
        if self.lost:
            raise RunError(
                f"another run may hold {self.out} by now, so this one publishes nothing; its "
                f"results are kept: run it again to continue"
            )

    def expire(self) -> None:
        """Leave OUT without a word to its store, which is away."""
        self.lost = True
        self._stop.set()

    def end(self) -> None:
        """Release OUT, waiting at most LEASE seconds; if that fails, the lease expires."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join(LEASE)
        if self._thread.is_alive():
            log.warning("the lock of %s was not released: the store does not answer", self.out)


#: This process's leases, by OUT as text.
_mine: dict[str, Lease] = {}


def check(out: Path) -> None:
    if lease := _mine.get(str(out)):
        lease.check()


@contextmanager
def hold(out: Path, owner: Owner) -> Iterator[None]:
    """Hold a remote OUT for this process; `OutLocked` names the run that holds it."""
    try:
        began = psutil.Process().create_time()
        me: Owner = {"machine": _machine(), "began": began, "token": uuid4().hex}
        lease = _take(out, {**owner, **me})
    except FileNotFoundError as error:
        raise ConfigError(f"cannot write to {out}: {error}; create the bucket") from None
    except RunError as error:
        raise ConfigError(f"cannot write to {out}: {error}") from None
    _mine[str(out)] = lease
    try:
        yield
    except Away as error:
        if error.is_of(out):
            lease.expire()
        raise
    finally:
        del _mine[str(out)]
        lease.end()


def refuse_held(out: Path) -> int:
    """The number under which a remote OUT was last held; `OutLocked` if it is held now."""
    last = _newest(out)
    if last and (holder := _living(out, last)) is not None:
        raise OutLocked(f"another run holds {out}: {describe(holder)}")
    return last


def _take(out: Path, owner: Owner) -> Lease:
    for _ in range(TRIES):
        last = refuse_held(out)
        try:
            _write(out, last + 1, owner, exclusive=True)
        except FileExistsError:
            # Another run was quicker, or an answer was lost and the library repeated the put.
            if (_read(out, last + 1) or {}).get("token") != owner["token"]:
                continue
        try:
            _write(out, last + 1, owner, exclusive=True)
        except FileExistsError:
            pass
        else:
            _write(out, last + 1, {**owner, "ended": True})
            raise ConfigError(
                f"the object store of {out} does not honour `If-None-Match: *`, so two runs could "
                "publish over each other; use another store, or a folder"
            )
        numbers = _numbers(out)
        if max(numbers, default=0) > last + 1:  # other runs have taken and released it meanwhile
            continue
        for number in numbers:
            if number <= last:
                _store.remove(_path(out, number))
        return Lease(out, last + 1, owner)
    raise OutLocked(f"{out} is in use by other runs; try again later")


def _living(out: Path, number: int) -> Owner | None:
    """The owner of a number; None when it has ended or is dead."""
    first = _read(out, number)
    if first is None or first.get("ended"):
        return None
    if first.get("machine") and first["machine"] == _machine():
        try:
            began = psutil.Process(int(first["pid"])).create_time()
        except (psutil.NoSuchProcess, KeyError, ValueError):
            return None
        return first if abs(began - float(first.get("began", 0))) < 1.0 else None
    question = "checking for %.0f s whether the run that holds %s is still alive: %s"
    log.info(question, LEASE, out, describe(first))
    until = time.monotonic() + LEASE
    while time.monotonic() < until:
        time.sleep(min(1.0, RENEW / 2))
        now = _read(out, number)
        if now is None or now.get("ended"):
            return None
        if now != first:
            return now
    log.warning("that run has not renewed its lock; taking it over")
    return None


def _machine() -> str | None:
    """The booted kernel and the container: processes with equal results can see each other."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux: only renewals prove life
        return None


def describe(owner: Owner) -> str:
    try:
        return "{command}, process {pid} on {host}, since {since}".format(**owner)
    except KeyError:
        return "it has left no details"


def _path(out: Path, number: int) -> Path:
    return out / FOLDER / f"{number:08d}"


def _numbers(out: Path) -> list[int]:
    return [int(p.name) for p in _store.names(out / FOLDER) if p.name.isdigit()]


def _newest(out: Path) -> int:
    return max(_numbers(out), default=0)


def _read(out: Path, number: int) -> Owner | None:
    try:
        owner: Owner = json.loads(_store.read(_path(out, number)))
        return owner
    except FileNotFoundError:  # a newer one has replaced it
        return None


def _write(out: Path, number: int, owner: Owner, exclusive: bool = False) -> None:
    _store.put(_path(out, number), json.dumps(owner).encode(), exclusive)
