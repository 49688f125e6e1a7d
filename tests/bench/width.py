"""The number of workers that one flow keeps busy: real Prefect, scheduler and dispatcher; stages
sleep.

    python -m tests.bench.width [--workers 1000] [--shards 4000] [--seconds 2] [--recordings 1]
                                [--database postgres|sqlite] [--processes 4]

Shards have 15 minutes in `--recordings` recordings, and each of their three stages takes
`--seconds`; 2 of these are 150 x real time. The simulated workers are real Dask workers, many in a
process.

Prints shards a second, in all and while more shards were waiting; CPU ms for each shard and largest
memory of flow, server, scheduler, workers and database, from the first shard on; and the share of
all workers' time that the stages took.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

AUDIO = 900.0


@contextmanager
def child(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of `_width_workers`, with the first line that it prints; ends with its input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench._width_workers", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a line for each worker
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def children(count: int, address: str, workers: int) -> Iterator[list[int]]:
    with ExitStack() as stack:
        shares = [workers // count + (n < workers % count) for n in range(count)]
        yield [
            stack.enter_context(child("workers", address, str(number)))[0].pid
            for number in shares
            if number
        ]


class Used:
    """CPU seconds and largest memory of processes by name, with their children."""

    def __init__(self, roots: dict[str, list[int]]) -> None:
        self.roots = {name: [psutil.Process(pid) for pid in pids] for name, pids in roots.items()}
        self.peak = dict.fromkeys(roots, 0)
        self.last: dict[tuple[str, int], float] = {}
        self.before: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.from_here()
        self._thread.start()

    def look(self) -> None:
        for name, roots in self.roots.items():
            memory = 0
            for root in roots:
                family = [root] if name == "flow" else [root, *root.children(recursive=True)]
                for process in family:
                    try:
                        times = process.cpu_times()
                        self.last[name, process.pid] = times.user + times.system
                        memory += process.memory_info().rss
                    except psutil.NoSuchProcess:
                        continue
            self.peak[name] = max(self.peak[name], memory)

    def from_here(self) -> None:
        """CPU seconds count from now on."""
        self.look()
        self.before = self.cpu()

    def cpu(self) -> dict[str, float]:
        found = dict.fromkeys(self.roots, 0.0)
        for (name, _), seconds in self.last.items():
            found[name] += seconds
        return found

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            self.look()

    def end(self, shards: int) -> dict[str, Any]:
        self._over.set()
        self._thread.join()
        self.look()
        now = self.cpu()
        return {
            name: {
                "cpu_seconds": round(now[name] - self.before[name], 1),
                "cpu_ms_a_shard": round(1000 * (now[name] - self.before[name]) / shards, 1),
                "peak_mb": round(self.peak[name] / 1e6),
            }
            for name in self.roots
        }


def measured(
    options: argparse.Namespace, home: Path, url: str, roots: dict[str, list[int]], shards: int
) -> Any:
    """Run the chains of so many shards within a flow."""
    from prefect import flow

    from tests.bench import _width_workers
    from uttermill.flows.cluster import worker
    from uttermill.flows.cluster.settings import ClusterSettings
    from uttermill.flows.run.cluster_executor import cluster_of, opened
    from uttermill.flows.run.task_run_groups import TaskRunObserver
    from uttermill.flows.server import history
    from uttermill.tasks import pipeline
    from uttermill.tasks.accounting.metrics import Metrics
    from uttermill.tasks.base.schema import RECORDINGS
    from uttermill.tasks.settings.job import Done, Job
    from uttermill.tasks.shard_store import manifest
    from uttermill.tasks.stages.call import Call

    worker.run_stage = _width_workers.run_stage  # type: ignore[assignment]
    out, scratch = home / "out", home / "scratch"
    scratch.mkdir(parents=True)
    job = Job(out, scratch=scratch, item_timeout=options.seconds)
    names = [f"shard-{number:06d}" for number in range(shards)]
    row = {field.name: None for field in RECORDINGS}
    for name in names:
        stems = (f"a/{name}-{number}.wav" for number in range(options.recordings))
        rows = [{**row, "recording": stem, "locator": "{}", "present": True} for stem in stems]
        manifest.commit(out, "shard", name, rows, RECORDINGS, {})
    settings = ClusterSettings(kind="address", address=url)
    ended: list[float] = []
    busy: list[int] = []
    stages = [0]
    admitted: list[float] = []

    @flow(name="width", persist_result=False)
    def run() -> int:
        observer = TaskRunObserver(job)
        with opened(cluster_of(job, settings, out), Metrics(), out, observer) as executor:
            executor.call(Call("shard", "pid", os.getpid))  # nothing has started: stays here
            began = time.monotonic()
            assert executor.cluster.client is not None
            admitted.append(time.monotonic() - began)
            used.from_here()

            def chain(shard: str) -> list[Done]:
                pipeline.chain(job, shard, AUDIO, executor, observer)
                ended.append(time.monotonic())
                return []

            over = threading.Event()

            def watch() -> None:
                while not over.wait(1.0):
                    busy.append(sum(executor.dispatcher._running.values()))

            threading.Thread(target=watch, daemon=True).start()
            begin = time.monotonic()
            try:
                with observer.chains(dict.fromkeys(names, AUDIO)) as order:
                    executor.chains(order, chain)
            finally:
                over.set()
                stages[0] = observer.task_runs
                wall.append(time.monotonic() - begin)
        return 0

    wall: list[float] = []
    used = Used(roots)
    complete, late = False, 0.0
    try:
        state: Any = run(return_state=True)
        state.result()
        began = time.monotonic()
        flow_run = state.state_details.flow_run_id
        complete = history.wait_until_recorded(flow_run, expected=stages[0], timeout=120)
        late = time.monotonic() - began
    except SystemExit:  # it takes too long: what was reached is told
        pass
    # From the first shard's end to the end of the last one that still had others behind it.
    steady = ended[: max(2, len(ended) - max(busy))] or [0.0, 0.0]
    first, last = steady[0], steady[-1]
    return {
        "shards": len(ended),
        "admitted_seconds": round(admitted[0], 1),
        "wall_seconds": round(wall[0], 1),
        "shards_a_second": round(len(ended) / wall[0], 2),
        "shards_a_second_when_full": round((len(steady) - 1) / max(last - first, 1e-9), 2),
        "most_busy": max(busy),
        "share_of_workers_time": round(
            3 * options.seconds * len(ended) / (options.workers * wall[0]), 3
        ),
        "task_runs": stages[0],
        "history_complete": complete,
        "history_late_seconds": round(late, 1),
        "used": used.end(len(ended)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--recordings", type=int, default=1, help="of a shard")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends too
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    home = Path(tempfile.mkdtemp(prefix="uttermill-width-"))
    os.environ["PREFECT_HOME"] = str(home / "prefect")
    os.environ.pop("PREFECT_API_URL", None)
    try:
        with ExitStack() as stack:
            roots: dict[str, list[int]] = {"flow": [os.getpid()]}
            if options.database == "postgres":
                from tests.helpers import postgres

                database = stack.enter_context(postgres.serving())
                os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database.url
                roots["database"] = [database.pid]
            from uttermill.flows.server.server import LocalServer, using

            server = stack.enter_context(LocalServer())
            scheduler, address = stack.enter_context(child("scheduler"))
            began = time.monotonic()
            workers = stack.enter_context(children(options.processes, address, options.workers))
            joined = round(time.monotonic() - began, 1)
            stack.enter_context(using(server.wait_ready(), server.auth))
            roots |= {"server": [server.pid], "scheduler": [scheduler.pid], "workers": workers}
            print(json.dumps(vars(options) | {"joined_seconds": joined}), flush=True)
            found = measured(options, home / "now", address, roots, options.shards)
            print(json.dumps({"now": found}), flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
