"""A cluster class whose workers are jobs of a made-up batch queue, which is a folder.

`refuse`: the queue takes no job and says so. `hold`: jobs wait for ever. `end`: each job's process
is killed once. Files that appear there have the same effect on later jobs. `jobs` lists each job
that was submitted, and `over` each that was cancelled.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import distributed
from distributed.deploy import spec

made: Any = distributed  # untyped
base: Any = spec


class Job(base.ProcessInterface):  # type: ignore[misc]
    """A job of one worker, which is a process of its own, as a batch queue starts it."""

    def __init__(self, scheduler: str, name: str, queue: str) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.name, self.scheduler = name, scheduler
        self._queue = Path(queue)
        self._process: Any = None

    async def start(self) -> None:
        with (self._queue / "jobs").open("a") as jobs:
            jobs.write(f"{self.name}\n")
        if (self._queue / "refuse").exists():
            raise RuntimeError("Exit code: 1\nstderr:\nqueue: no such partition\n\n")
        if not (self._queue / "hold").exists():
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "distributed.cli.dask_worker", self.scheduler,
                "--name", str(self.name), "--nthreads", "1", "--host", "127.0.0.1",
                "--dashboard-address", "127.0.0.1:0", "--preload", "uttermill.tasks.preload",
                "--local-directory", str(self._queue), start_new_session=True,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            (self._queue / f"{self.name}.pid").write_text(str(self._process.pid))
            self._watch = asyncio.ensure_future(self._ends())
        await super().start()

    async def _ends(self) -> None:
        await self._process.wait()
        self.status = made.Status.closed

    async def close(self) -> None:
        with (self._queue / "over").open("a") as over:
            over.write(f"{self.name}\n")
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        await super().close()


class QueuedCluster(made.SpecCluster):  # type: ignore[misc]
    def __init__(self, queue: str) -> None:
        options = {"host": "127.0.0.1", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
        super().__init__(
            {}, {"cls": made.Scheduler, "options": options},
            worker={"cls": Job, "options": {"queue": queue}}, silence_logs="error",
        )  # fmt: skip
