"""A service that a run needs goes away in the middle: how soon the run ends, and its last words.

    python -m tests.bench.services [SERVICE …] [--phase filter …] [--json]

Each line is one run of the real command (fake recogniser, six recordings, one worker): it is held
in a phase, the service is taken away, the run goes on, and the seconds from then until its process
and all that it started are gone are counted, with the rest of the run where it outlives the
service. `start`: the service is away before the run begins. Exit code 1 if a run printed a
traceback, left a process, or was still there after LONGEST seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.faults.command import Site, Started, soon
from tests.faults.kills import PROBED, end, gated, server_of
from tests.helpers import by_hand, corpus, own_mounts, postgres, s3_server
from tests.plugins import gate

COUNT = 6
LONGEST = 240.0  # s
HELD = corpus.seconds_of(COUNT - 1)
PHASES = {
    "start": "",
    **{
        name: gate.name(name, HELD)
        for name in ("shard", "filter", "resample", "transcribe", "package")
    },
    "publish": gate.name("publish", 0.0),
}
#: A clock that is set back by an hour, as Python sees it, while the file is there.
CLOCK = """
import os, time
_time, _place = time.time, os.environ.get("UTTERMILL_GATE", "") + "/clock"
time.time = lambda: _time() - 3600 * os.path.exists(_place)
"""
DISK = "disk"


@dataclass
class Cell:
    """`seconds`: from the loss of the service to the end of the last process."""

    service: str
    phase: str
    seconds: float
    silent: float  # the longest time within these in which the run printed nothing
    code: int | None  # None: it was still there
    warnings: int
    said: str  # the last line
    fault: str


@dataclass
class Taken:
    """A service; `away` takes it from a run (None: before one)."""

    site: Site
    away: Callable[[Started | None], object]
    changes: dict[str, Any] = field(default_factory=dict)
    starts: bool = True  # whether it can be away before the run begins


def own_server(site: Site) -> Iterator[Taken]:
    """The run's own Prefect server."""
    yield Taken(site, lambda run: run and end(server_of(run)), {"history": "own"}, starts=False)


def database(site: Site) -> Iterator[Taken]:
    """The SQLite of the run's own Prefect server, locked by somebody else for good."""
    locked = []

    def lock(run: Started | None) -> None:
        locked.append(sqlite3.connect(Path(site.environment["PREFECT_HOME"]) / "prefect.db"))
        locked[-1].execute("BEGIN EXCLUSIVE")

    yield Taken(site, lock, {"history": "own"})
    for connection in locked:
        connection.close()


def postgresql(site: Site) -> Iterator[Taken]:
    """The PostgreSQL of the run's own Prefect server."""
    with postgres.serving() as served:
        variable = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": served.url}
        away = lambda run: end([psutil.Process(served.pid)])  # noqa: E731
        site = replace(site, environment={**site.environment, **variable})
        yield Taken(site, away, {"history": "own"})


def server(site: Site, hangs: bool = False) -> Iterator[Taken]:
    """The Prefect server of PREFECT_API_URL."""
    port = by_hand.free_port()
    url = f"http://127.0.0.1:{port}/api"
    words = ("-m", "prefect", "server", "start", "--port", str(port), "--no-ui")
    environment = {**os.environ, **site.environment, "PREFECT_API_URL": url}
    with (
        (site.home / "server.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, *words], env=environment, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True, cwd="/",
        ) as process,
    ):  # fmt: skip
        try:
            assert soon(lambda: by_hand.listens(port))
            number = signal.SIGSTOP if hangs else signal.SIGKILL
            yield Taken(replace(site, api=url), lambda run: os.killpg(process.pid, number))
        finally:
            by_hand.end([process])


def server_that_hangs(site: Site) -> Iterator[Taken]:
    """The same, which takes connections and answers none."""
    yield from server(site, hangs=True)


def scheduler(site: Site, what: str = "dask_scheduler") -> Iterator[Taken]:
    """The scheduler of `cluster: {kind: address}`."""
    environment = {k: v for k, v in site.surroundings().items() if k != "PYTHONPATH"}
    with (
        by_hand.scheduler(site.home) as address,
        by_hand.worker(site.home, address, **environment),
    ):

        def away(run: Started | None) -> None:
            port = address.rpartition(":")[2]
            end([p for p in psutil.process_iter() if is_of(p, f"distributed.cli.{what}", port)])

        cluster = {
            "kind": "address", "address": address, "workers": None, "tls": "none",
            "wait_for_workers": 20.0,
        }  # fmt: skip
        yield Taken(site, away, {"history": "none", "cluster": cluster})


def is_of(process: psutil.Process, *words: str) -> bool:
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return all(word in line for word in words)
    return False


def their_worker(site: Site) -> Iterator[Taken]:
    """The only worker of that scheduler, with its nanny."""
    yield from scheduler(site, "dask_worker")


def worker(site: Site) -> Iterator[Taken]:
    """The run's own worker."""
    yield Taken(site, lambda run: run and end(run.workers()), {"history": "none"}, starts=False)


def store(site: Site) -> Iterator[Taken]:
    """The object store that holds OUT."""
    with s3_server.serving() as s3:
        site = replace(site, environment={**site.environment, **s3.environment})
        out = f"s3://{s3_server.BUCKET}/out"
        yield Taken(site, lambda run: s3.process.kill(), {"history": "none", "out": out})


def disk(site: Site) -> Iterator[Taken]:
    """The room on the disk that holds OUT."""
    place = site.home / "disk"
    place.mkdir()
    own_mounts.mount(place)
    own_mounts.resize(place, 100_000)

    def away(run: Started | None) -> None:
        own_mounts.resize(place, -(-shutil.disk_usage(place).used // 4096) or 1)

    yield Taken(site, away, {"history": "none", "out": str(place / "out")})


def clock(site: Site) -> Iterator[Taken]:
    """The clock of this machine, which is set back by an hour."""
    yield Taken(site, lambda run: (site.gate / "clock").touch(), {"history": "own"}, starts=False)


SERVICES: dict[str, Callable[[Site], Iterator[Taken]]] = {
    "own-server": own_server, "database": database, "postgresql": postgresql, "server": server,
    "server-hangs": server_that_hangs, "scheduler": scheduler, "their-worker": their_worker,
    "worker": worker, "store": store, DISK: disk, "clock": clock,
}  # fmt: skip


def cell(name: str, phase: str, home: Path, prefect: Path) -> Cell | None:
    """One run in a folder of its own; None where the service cannot be away in this phase."""
    site = Site(home, "")
    site.begin_with(CLOCK + PROBED)
    shutil.copytree(prefect, home / "prefect")
    site.environment["PREFECT_HOME"] = str(home / "prefect")
    corpus.make(site.source, COUNT)
    with contextmanager(SERVICES[name])(site) as taken:
        if phase == "start" and not taken.starts:
            return None
        hold = site.gate / f"{PHASES[phase]}.hold"
        if phase == "start":
            taken.away(None)
        else:
            hold.touch()
        began = time.monotonic()
        with taken.site.start("run", settings(taken), "--yes") as run:

            def over() -> bool:
                return run.process.poll() is not None

            if phase != "start":
                assert soon(lambda: over() or hold.with_suffix(".held").exists()), run.stderr()
                assert not over(), run.stderr()
                taken.away(run)
                began = time.monotonic()
                hold.unlink()
            printed, spoke, silent = 0, began, 0.0
            while not (over() and not run.alive()) and time.monotonic() - began < LONGEST:
                if (size := len(run.stderr())) > printed:
                    printed, spoke = size, time.monotonic()
                silent = max(silent, time.monotonic() - spoke)
                time.sleep(0.05)
            return told(name, phase, time.monotonic() - began, silent, run)


def settings(taken: Taken) -> Path:
    path = gated(taken.site, "out", workers=1)
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    cluster = {**data["cluster"], **taken.changes.get("cluster", {})}
    data |= {**taken.changes, "cluster": {k: v for k, v in cluster.items() if v is not None}}
    path.write_text(yaml.safe_dump(data))
    return path


def told(name: str, phase: str, seconds: float, silent: float, run: Started) -> Cell:
    code, lines = run.process.poll(), run.stderr().splitlines()
    faults = ["traceback"] if any("Traceback" in line for line in lines) else []
    if left := run.alive():
        faults.append(f"{len(left)} processes left")
    said = [line for line in lines if line.startswith("uttermill: ")]
    said = said or [line for line in lines if line.startswith(("WARNING", "ERROR"))]
    last = re.sub(re.escape(str(run._stderr.parent)), "…", (said or [*lines, ""])[-1])
    warnings = sum(line.startswith("WARNING") for line in lines)
    times = round(seconds, 1), round(silent, 1)
    return Cell(name, phase, *times, code, warnings, last, ", ".join(faults))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.services")
    parser.add_argument("services", nargs="*", metavar="SERVICE")
    parser.add_argument("--phase", nargs="+", choices=[*PHASES], default=[*PHASES])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.services:
        if name not in SERVICES:
            parser.error(f"no service {name!r}; known: {', '.join(SERVICES)}")
    names = options.services or [*SERVICES]
    faults = 0
    if DISK in names and names != [DISK]:  # in a mount namespace of its own
        names.remove(DISK)
        words = [DISK, "--phase", *options.phase, *(["--json"] if options.json else [])]
        command = ["unshare", "-rm", sys.executable, "-m", "tests.bench.services", *words]
        faults += subprocess.run(command).returncode
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as top:
        prefect = made(Path(top) / "prefect")
        for name in names:
            for phase in options.phase:
                line = cell(name, phase, Path(tempfile.mkdtemp(dir=top)), prefect)
                if line is None:
                    continue
                faults += bool(line.fault)
                values = asdict(line)
                text = json.dumps(values) if options.json else " | ".join(map(str, values.values()))
                print(text, flush=True)
    return 1 if faults else 0


def made(home: Path) -> Path:
    """A Prefect home with an empty database, which takes 11 s to make."""
    home.mkdir()
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
    environment = {**os.environ, "PREFECT_HOME": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd="/")
    return home


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
