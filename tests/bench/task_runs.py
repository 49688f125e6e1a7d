"""Task runs that Prefect's server records in a second, on SQLite and on PostgreSQL.

    python -m tests.bench.task_runs [--count 600] [--database sqlite|postgres]

Task runs without work, made as fast as eight threads can, and the time until the server has
recorded all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil


def measured(count: int, server: int) -> dict[str, float]:
    from prefect import flow

    from uttermill.flows.cluster.call_queue import map_chains
    from uttermill.flows.server import history
    from uttermill.tasks import prefect_tasks
    from uttermill.tasks.settings.job import Done

    @flow(persist_result=False)
    def many() -> None:
        def one(number: int) -> Done:
            return prefect_tasks.run("filter", f"filter · {number}", lambda: Done("filter", "", 1))

        map_chains(range(count), one, 8)

    def cpu() -> float:
        times = psutil.Process(server).cpu_times()
        return float(times.user + times.system)

    before, mine, began = cpu(), time.process_time(), time.monotonic()
    state: Any = many(return_state=True)
    made = time.monotonic() - began
    complete = history.wait_until_recorded(
        state.state_details.flow_run_id, expected=count, timeout=120
    )
    recorded = time.monotonic() - began
    return {
        "complete": complete,
        "made_a_second": round(count / made, 1),
        "recorded_a_second": round(count / recorded, 1),
        "flow_cpu_ms_each": round(1000 * (time.process_time() - mine) / count, 1),
        "server_cpu_ms_each": round(1000 * (cpu() - before) / count, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started ends too
    home = Path(tempfile.mkdtemp(prefix="uttermill-task-runs-"))
    os.environ["PREFECT_HOME"] = str(home)
    os.environ.pop("PREFECT_API_URL", None)
    try:
        with ExitStack() as stack:
            if options.database == "postgres":
                from tests.helpers import postgres

                served = stack.enter_context(postgres.serving())
                os.environ["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = served.url
            from uttermill.flows.server.server import LocalServer, using

            server = stack.enter_context(LocalServer())
            stack.enter_context(using(server.wait_ready(), server.auth))
            found = measured(options.count, server.pid)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(json.dumps({**vars(options), **found}))


if __name__ == "__main__":
    main()
