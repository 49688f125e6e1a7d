"""Dask's configuration for a run, and the environment of its workers: spawn, preload, thread caps.

The threads of a recogniser are set in `worker_counts.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from importlib import resources
from importlib.metadata import version

import yaml

from ...tasks.base.environment import ENGINES_VARIABLE, VERSION_VARIABLE
from ...tasks.base.json_types import JsonObject

LOG_LENGTH = "low-level-log-length"

#: With the reasons of each setting; it is also for schedulers and workers that others start.
DASK_CONFIG: JsonObject = yaml.safe_load(
    (resources.files("uttermill") / "files/dask.yaml").read_text(encoding="utf-8")
)


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
