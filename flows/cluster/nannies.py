"""The start of a local cluster: a scheduler in this process, and a nanny for each worker of it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from flows.cluster import gpus, spawning
from flows.cluster.fleet import CPU, GPU, Fleet

log = logging.getLogger("uttermill")

STARTS = 3  # a worker that something kills while it starts is no reason to end the run
KILLED = "Nanny failed to start worker process"  # what Dask says of one that said nothing itself


def start(fleet: Fleet, memory: int, folder: Path, security: Any, dashboard: bool) -> Any:
    """A `distributed.SpecCluster` on the loopback. `memory`: bytes of each worker.

    The scheduler's files lie in `folder` with the workers', which is swept after a killed run.
    """
    import distributed

    both = {
        "host": "127.0.0.1",
        "protocol": "tls://" if security else "tcp://",
        "security": security,
        "local_directory": str(folder),
    }
    # Its HTTP server runs without a dashboard too: on no fixed port, and only here.
    pages = {"dashboard": dashboard, "dashboard_address": "127.0.0.1:0"}
    scheduler = {"cls": distributed.Scheduler, "options": {**both, **pages}}
    workers = specs(fleet, **both, nthreads=1, dashboard=False, memory_limit=memory)
    made: Any = distributed.SpecCluster  # untyped
    before = set(made._instances)
    for left in reversed(range(STARTS)):
        try:
            return made(workers, scheduler, security=security, silence_logs=logging.ERROR)
        except RuntimeError as error:
            if not left or str(root(error)) != KILLED:
                raise
            log.warning("a worker was killed while it started; all start again")
        except BaseException:  # an interrupt; no variable holds what has begun
            spawning.abandon(set(made._instances) - before)
            raise
    raise AssertionError("unreachable")


def specs(fleet: Fleet, **options: Any) -> dict[str, dict[str, Any]]:
    """Each worker by its name. A nanny gives all that follow one the same environment."""
    from distributed import Nanny

    kinds = {f"gpu-{number}": (GPU, device) for number, device in enumerate(fleet.pins)}
    kinds |= {f"cpu-{number}": (CPU, "") for number in range(fleet.cpus)}
    # Indices as nvidia-smi has them; by default CUDA counts the fastest GPU first.
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
    """What began it: Dask wraps errors of workers several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
