"""What local workers are spawned with: Dask's configuration, environment variables (preload, thread
caps), and the main module.

The threads of a recogniser are set in `worker_counts.py`.
"""

from __future__ import annotations

import json
import multiprocessing.spawn
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from importlib import resources
from importlib.metadata import version
from multiprocessing import resource_tracker

import yaml

from ...tasks.base.environment import ENGINES_VARIABLE, SAFE_PATH, VERSION_VARIABLE
from ...tasks.base.json_types import JsonObject

NANNY = "Nanny"  # in the name of every worker process that Dask spawns
MAIN_KEYS = ("init_main_from_name", "init_main_from_path")
WORKERS_MAIN = "uttermill.flows.cluster.nodes"


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set variables while workers are spawned: Dask prefers the parent's to its configuration."""
    with restored(values):
        os.environ.update(values)
        yield


@contextmanager
def restored(names: Iterable[str]) -> Iterator[None]:
    """Restore these variables at the end: a nanny that replaces a worker leaves its own behind."""
    before = {name: os.environ.get(name) for name in (*names, "__DASK_PARENT_PID")}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def interrupts_kept_from_workers() -> Iterator[None]:
    """Processes that threads started here spawn, and this thread, get no Ctrl-C, which a terminal
    sends to all of them: else each prints a traceback if it has just begun. The run ends them.

    A process that is spawned inherits the signals that its thread blocks, and so does a thread.
    """
    with environment({SAFE_PATH: "1"}):  # it imports from no current folder
        resource_tracker.ensure_running()  # starting it later would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_lock = threading.Lock()
_users = 0  # contexts of `without_main` that are open
_original = multiprocessing.spawn.get_preparation_data


@contextmanager
def without_main() -> Iterator[None]:
    """Keep Dask's workers from importing the flow's `__main__` again, until the last such context
    ends: theirs is `flows.cluster.nodes`. Other processes import it as usual.

    Under a deployment `__main__` is Prefect (45 MB and a second per worker), and a script that
    starts its run outside `if __name__ == "__main__"` would start a cluster in each worker.
    multiprocessing has no setting for it: its function is replaced, and restored at the end.
    """
    global _original, _users
    with _lock:
        if not _users:
            _original = multiprocessing.spawn.get_preparation_data
            multiprocessing.spawn.get_preparation_data = _without_main
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                multiprocessing.spawn.get_preparation_data = _original


def _without_main(name: str) -> JsonObject:
    data: JsonObject = _original(name)
    if "sys_path" in data:  # in which multiprocessing has made "" the current folder
        data["sys_path"] = [folder for folder in sys.path if os.path.isabs(folder)]
    if NANNY in name:
        for key in MAIN_KEYS:
            data.pop(key, None)
        data["init_main_from_name"] = WORKERS_MAIN
    return data


#: With the reasons of each setting; it is also for schedulers and workers that others start.
DASK_CONFIG: JsonObject = yaml.safe_load(
    (resources.files("uttermill") / "files/dask.yaml").read_text(encoding="utf-8")
)


def variables(engines: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for `tasks.preload`: the version that workers must have, and what to load (None:
    everything). Both are always set, so that no other values are inherited."""
    reached = "" if engines is None else json.dumps(dict(engines))
    return {VERSION_VARIABLE: version("uttermill"), ENGINES_VARIABLE: reached}


def merged(
    variables: Mapping[str, str], profiled: bool = False, dashboard: bool = False
) -> JsonObject:
    """This process's configuration of Dask with `DASK_CONFIG` over it. `variables`: of workers;
    `profiled`: Dask samples what each does, for its report; `dashboard`: the scheduler serves all
    of its pages."""
    import dask.config

    ours = deepcopy(DASK_CONFIG)
    distributed = ours["distributed"]
    distributed["worker"]["profile"]["enabled"] = profiled
    distributed["nanny"]["pre-spawn-environ"] |= variables
    if profiled:  # the samples are one of Dask's logs
        del distributed["admin"]["low-level-log-length"]
    if profiled or dashboard:
        del distributed["admin"]["system-monitor"]
    if dashboard:
        del distributed["scheduler"]["http"]
    config: JsonObject = dask.config.merge(dask.config.config, ours)
    return config


def worker_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that a worker needs before its interpreter starts."""
    caps: dict[str, str] = DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    return {**caps, **variables}
