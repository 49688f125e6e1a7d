"""Workers that tests share, until the input of their process ends.

`python -m tests.helpers.shared_cluster FOLDER WORKERS`

In a process of its own, so that tests which look at threads, sockets and modules see none of it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import scheduler

from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.tasks.base.environment import SAFE_PATH

ROOT = Path(__file__).parents[2]

#: It idles most of the time, once in each process that shares the tests, and nothing there grows.
SELDOM = {
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "DASK_DISTRIBUTED__WORKER__MEMORY__MONITOR_INTERVAL": "1s",
}


@contextmanager
def serving(
    folder: Path, environment: Mapping[str, str] | None = None, workers: int = 2
) -> Iterator[dict[str, Any]]:
    """Start them, with more variables of the environment; the settings `cluster` of a run that
    works there."""
    inherited = dict(os.environ)
    inherited.pop(SAFE_PATH, None)  # left by a nanny of this process that replaced a worker
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.shared_cluster", str(folder), str(workers)],
        cwd=ROOT, env={**inherited, **SELDOM, **(environment or {})}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, "the shared cluster did not start"
        yield {"kind": "address", "address": address}
        process.communicate(timeout=60)


if __name__ == "__main__":
    # By default its workers say twice a second that they are alive.
    scheduler.heartbeat_interval = lambda n: 5.0
    # For tests, by its address alone.
    settings = ClusterSettings(workers=int(sys.argv[2]), tls="none")
    # Most of its runs use no engine; each one that does loads it then.
    with Cluster(settings, Path(sys.argv[1]), engines={}) as cluster:
        print(cluster.client.scheduler.address, flush=True)
        sys.stdin.read()
