"""Simulated workers of `tests.bench.width`: real Dask workers, many in a process, that sleep.

python -m tests.bench._width_workers scheduler
python -m tests.bench._width_workers workers ADDRESS COUNT
"""

import asyncio
import resource
import sys
import tempfile
import time
import types

import dask.config
from distributed import Scheduler, Worker, get_worker

from uttermill.flows.cluster import local
from uttermill.flows.cluster import worker as real
from uttermill.tasks.settings.job import Cost, Done, Job

AUDIO = 900.0  # s of a shard; `Job.item_timeout` carries the seconds that a stage takes
#: Settings that matter only because a thousand workers share two cores.
QUIET = {
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.admin.system-monitor.interval": "60s",
    "distributed.worker.profile.enabled": False,
}


async def run_stage(name: str, job: Job, shard: str, seconds: float, isolate: bool = False) -> Done:
    """In place of `flows.cluster.worker.run_stage`: the same messages, no work."""
    began = time.time()
    me = get_worker()
    events = real.Events(me, name, shard, AUDIO)
    steps = max(1, round(job.item_timeout))
    for _ in range(steps):
        await asyncio.sleep(job.item_timeout / steps)
        events.done(AUDIO / steps)
    events.last()
    wall = time.time() - began
    cost = Cost(str(me.name), "simulated", 0, began, wall, 0.0, 0, 0)
    return Done(name, shard, 300, 0, AUDIO, wall, cost=cost)


async def schedule() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await until_input_ends()


async def work(address: str, count: int) -> None:
    # Admission looks for the preload, which refuses to be loaded in such a process.
    preloaded = types.ModuleType("uttermill.tasks.preload")
    preloaded.READY_AT = time.time()  # type: ignore[attr-defined]
    sys.modules["uttermill.tasks.preload"] = preloaded
    with tempfile.TemporaryDirectory(prefix="uttermill-width-") as home:
        made: list[Worker] = []
        for _ in range(0, count, 20):  # some at a time: each connects, and is answered
            some = [
                Worker(
                    address,
                    nthreads=1,
                    memory_limit=0,
                    local_directory=f"{home}/{len(made) + n}",  # one looks through all in a folder
                    dashboard=False,
                )
                for n in range(min(20, count - len(made)))
            ]
            made += await asyncio.gather(*some)
        print(len(made), flush=True)
        await until_input_ends()
        await asyncio.gather(*[one.close(nanny=False) for one in made], return_exceptions=True)


async def until_input_ends() -> None:
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.buffer.read, 1024):
        pass


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if sys.argv[1] == "scheduler":
        dask.config.set(local.merged({}))  # as with infra/dask.yaml
        asyncio.run(schedule())
    else:
        dask.config.set(QUIET)
        asyncio.run(work(sys.argv[2], int(sys.argv[3])))
