"""Starts a local cluster: a scheduler in this process, and a nanny for each of its workers."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cluster import gpus, shutdown
from flows.cluster.worker_counts import CPU, GPU, Fleet
from tasks.base.json_types import JsonObject
from tasks.base.logs import log

if TYPE_CHECKING:
    from distributed import Security, SpecCluster

STARTS = 3  # tries, when a worker is killed while it starts
KILLED = "Nanny failed to start worker process"  # Dask's message for a worker that sent none


def start(
    fleet: Fleet, memory: int, folder: Path, security: Security | None, dashboard: bool
) -> SpecCluster:
    """A `distributed.SpecCluster` on the loopback. `memory`: bytes per worker.

    `folder` holds the files of the scheduler and the workers; the next run removes it when this
    one is killed.
    """
    import distributed

    from flows.cluster import nodes

    both = {
        "host": "127.0.0.1",
        "protocol": "tls://" if security else "tcp://",
        "security": security,
        "local_directory": str(folder),
    }
    pages = {"dashboard": dashboard, "dashboard_address": "127.0.0.1:0"}
    kind = distributed.Scheduler if dashboard else nodes.Scheduler
    scheduler = {"cls": kind, "options": {**both, **pages}}
    workers = specs(fleet, **both, nthreads=1, worker_class=nodes.Worker, memory_limit=memory)
    made: Any = distributed.SpecCluster  # untyped
    before = set(made._instances)
    for left in reversed(range(STARTS)):
        try:
            cluster: SpecCluster = made(
                workers, scheduler, security=security, silence_logs=logging.ERROR
            )
            return cluster
        except RuntimeError as error:
            if not left or str(root(error)) != KILLED:
                raise
            log.warning("a worker was killed while it started; all workers start again")
        except BaseException:  # an interrupt: only Dask's own list knows what has started
            shutdown.abandon(set(made._instances) - before)
            raise
    raise AssertionError("unreachable")


def specs(fleet: Fleet, **options: object) -> dict[str, JsonObject]:
    """Dask's specification of each worker, by its name. A replacement gets the same environment."""
    from distributed import Nanny

    kinds = {f"gpu-{number}": (GPU, device) for number, device in enumerate(fleet.pins)}
    kinds |= {f"cpu-{number}": (CPU, "") for number in range(fleet.cpus)}
    # Number GPUs as nvidia-smi does; CUDA's default puts the fastest first.
    order = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return {
        name: {
            "cls": Nanny,
            "options": {
                **options,
                "silence_logs": logging.ERROR,
                "resources": {kind: 1},
                "env": {gpus.VARIABLE: device, "CUDA_DEVICE_ORDER": order},
            },
        }
        for name, (kind, device) in kinds.items()
    }


def root(error: BaseException) -> BaseException:
    """The first cause: Dask wraps errors of workers several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
