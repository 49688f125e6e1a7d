"""Dask's configuration for a run, and the environment of its workers: spawn, preload, thread caps.

The threads of a recogniser are set in `worker_counts.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from importlib.metadata import version

from ...tasks.base.environment import ENGINES_VARIABLE, VERSION_VARIABLE
from ...tasks.base.json_types import JsonObject

LOG_LENGTH = "low-level-log-length"
HEALTH = ["distributed.http.health"]

#: The same as `infra/dask.yaml`, which gives the reasons; a test keeps them equal.
DASK_CONFIG: JsonObject = {
    "distributed": {
        "worker": {
            "multiprocessing-method": "spawn",
            "preload": ["uttermill.tasks.preload"],
            "daemon": False,
            "memory": {"target": False, "spill": False, "pause": False, "terminate": 0.95},
            "profile": {"enabled": False},
            "http": {"routes": HEALTH},
        },
        "nanny": {
            "pre-spawn-environ": {
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
                "NUMBA_NUM_THREADS": "1",
                "NUMEXPR_NUM_THREADS": "1",
                "VECLIB_MAXIMUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "PYTHONHASHSEED": "6640",
                "PYTHONSAFEPATH": "1",
                "MALLOC_ARENA_MAX": "1",
                "MALLOC_TRIM_THRESHOLD_": "134217728",
                "MALLOC_MMAP_THRESHOLD_": "100663296",
                "ARROW_DEFAULT_MEMORY_POOL": "system",  # so that these hold for tables: 30 MB less
            }
        },
        "scheduler": {
            "allowed-failures": 0,
            "worker-saturation": 1.0,
            "worker-ttl": "30 minutes",
            "no-workers-timeout": "2 minutes",
            "http": {"routes": HEALTH},
        },
        "deploy": {"lost-worker-timeout": "1 hour"},
        "diagnostics": {"nvml": False},
        "admin": {"tick": {"interval": "1 second", "limit": "10 minutes"}, LOG_LENGTH: 20},
    }
}


def variables(engines: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for `tasks.preload`: the version that workers must have, and what to load (None:
    everything). Both are always set, so that workers do not inherit other values from this
    process."""
    reached = "" if engines is None else json.dumps(dict(engines))
    return {VERSION_VARIABLE: version("uttermill"), ENGINES_VARIABLE: reached}


def scheduler(patience: float | None = None) -> JsonObject:
    """Settings of a scheduler. `patience`: s for which it waits while there is no worker."""
    ours = dict(DASK_CONFIG["distributed"]["scheduler"])
    return ours if patience is None else {**ours, "no-workers-timeout": f"{patience} s"}


def merged(
    variables: Mapping[str, str],
    profiled: bool = False,
    dashboard: bool = False,
    patience: float | None = None,
) -> JsonObject:
    """This process's configuration of Dask with `DASK_CONFIG` over it, for `dask.config.set`.

    `variables`: of workers, which replace others. `profiled`: Dask samples what each worker does,
    for its performance report. `dashboard`: the scheduler serves all of its pages. `patience`: see
    `scheduler`.
    """
    import dask.config

    ours = deepcopy(DASK_CONFIG)
    distributed = ours["distributed"]
    distributed["scheduler"] = scheduler(patience)
    distributed["worker"]["profile"]["enabled"] = profiled
    distributed["nanny"]["pre-spawn-environ"] |= variables
    if profiled:  # the samples are one of Dask's logs
        del distributed["admin"][LOG_LENGTH]
    if dashboard:
        del distributed["scheduler"]["http"]
    config: JsonObject = dask.config.merge(dask.config.config, ours)
    return config


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that a worker needs before its interpreter starts."""
    caps: dict[str, str] = DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    return {**caps, **variables}
