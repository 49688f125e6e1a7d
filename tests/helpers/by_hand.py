"""A scheduler and workers as a person starts them on machines of their own."""

import gc
import os
import secrets
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.faults.command import ROOT, soon

PRELOADS = ("--preload-nanny", "uttermill.flows.cluster.leaving")


@contextmanager
def scheduler(home: Path, *options: str, port: int = 0) -> Iterator[str]:
    """A scheduler on the loopback; its address."""
    port = port or free_port()
    with _dask(
        home, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard",
        "--dashboard-address", "127.0.0.1:0", *options,
    ):  # fmt: skip
        assert soon(lambda: listens(port))
        yield f"{'tls' if options else 'tcp'}://127.0.0.1:{port}"
    with warnings.catch_warnings():  # Dask leaves connections to it to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def worker(
    home: Path, address: str, *options: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one thread and its nanny."""
    (home / "workers").mkdir(exist_ok=True)
    with _dask(
        home, "worker", address, "--host", "127.0.0.1", "--no-dashboard", "--nthreads", "1",
        "--dashboard-address", "127.0.0.1:0", "--memory-limit", "2GB",
        "--local-directory", str(home / "workers"), *PRELOADS, *options, **environment,
    ) as process:  # fmt: skip
        yield process


@contextmanager
def _dask(
    home: Path, command: str, *words: str, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Dask's and its children, which are killed at the end."""
    with (home / f"{command}.log").open("ab") as log, ExitStack() as ending:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{command}", *words],
            cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT),
                 "DASK_CONFIG": str(ROOT / "infra/dask.yaml"), **environment},
        )  # fmt: skip
        ending.callback(end, [process])
        yield process


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill processes that lead a group, with all of it."""
    for process in processes:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            continue
    for process in processes:
        process.wait()


def free_port() -> int:
    """A free port that the system gives to nobody who asks for any port (Linux: from 32,768 on), so
    that no listener of another test takes it before the caller does."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
