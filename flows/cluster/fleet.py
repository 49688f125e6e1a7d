"""The workers of a local cluster: how many of each kind, their memory limit, and the threads of
their recogniser.

A GPU worker sees one device and runs only calls that need it; a CPU worker sees none. Dask's
resources of the same names keep calls on workers of their kind, so that stages of different
shards overlap.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from flows.cluster import gpus
from flows.cluster.settings import ClusterSettings
from tasks import plugins
from tasks.errors import ConfigError
from tasks.job import Job
from tasks.plugins import gpu
from tasks.settings import Plugin

CPU, GPU = "CPU", "GPU"  # kinds of workers, and the names of their Dask resources

#: A worker's imports take 0.4 GB, a Whisper base model 0.3 GB, blocks and batches the rest.
LEAST_MEMORY = 1_500_000_000
MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many CPU workers there are, and the device of each GPU worker."""

    cpus: int
    pins: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return self.cpus + len(self.pins)

    def count(self, kind: str) -> int:
        return len(self.pins) if kind == GPU else self.cpus


def of(settings: ClusterSettings, gpu: bool) -> Fleet:
    """The local workers. `gpu`: whether any call needs a GPU; otherwise there are no GPU workers.

    A GPU worker keeps one CPU busy and takes as much memory as any worker.
    """
    from dask.system import CPU_COUNT  # respects cgroups, as does MEMORY_LIMIT
    from distributed.system import MEMORY_LIMIT

    found = gpus.devices(settings.gpus) if gpu and settings.kind == "local" else ()
    pins = tuple(device for device in found for _ in range(settings.workers_per_gpu))
    room = min(CPU_COUNT, MEMORY_LIMIT // LEAST_MEMORY) - len(pins)
    return Fleet(settings.workers or max(1, min(room, MOST_WORKERS)), pins)


def memory(settings: ClusterSettings, fleet: Fleet) -> int:
    """Memory limit of a local worker, bytes."""
    from dask.utils import parse_bytes
    from distributed.system import MEMORY_LIMIT

    if settings.memory_limit != "auto":
        return int(parse_bytes(settings.memory_limit))
    return max(LEAST_MEMORY, int(0.9 * MEMORY_LIMIT) // fleet.size)


def with_threads(job: Job, settings: ClusterSettings) -> Job:
    """The job for these workers: its recogniser has as many threads as its share of the CPUs, if it
    has that setting and the user left it open."""
    backend = job.transcribe.backend
    module = plugins.load("asr", backend.use)
    if "threads" not in module.Settings.model_fields or "threads" in backend.options:
        return job
    on_gpu = gpu.stages(job)
    threads = asr_threads(settings, of(settings, bool(on_gpu)), "transcribe" in on_gpu)
    shared = Plugin(use=backend.use, **backend.options, threads=threads)
    return replace(job, transcribe=job.transcribe.model_copy(update={"backend": shared}))


def asr_threads(settings: ClusterSettings, fleet: Fleet, on_gpu: bool) -> int:
    """CPU threads of one worker's recogniser: its share of the CPUs; one beside a GPU."""
    from dask.system import CPU_COUNT

    share = 1 if on_gpu and fleet.pins else max(1, CPU_COUNT // fleet.cpus)
    return settings.asr_threads or share


def check(job: Job, settings: ClusterSettings) -> None:
    """ConfigError when a stage could not use the GPU it would get, or requires one that does not
    exist: a run that is meant for a GPU never silently falls back to the CPU.

    Only for local workers, because others may be on other machines.
    """
    requests = gpu.requests(job)
    if settings.kind != "local" or not requests:
        return
    pins = of(settings, gpu=True).pins
    for request in requests:
        if pins and (fault := request.fault()):
            raise ConfigError(
                f"{request.name} would run on GPU {pins[0]}, but {fault}; or set cluster.gpus: none"
            )
        if not pins and request.required:
            raise ConfigError(
                f"{request.name} has device: cuda, but the workers get no GPU: cluster.gpus is "
                f"{settings.gpus}, and {gpus.VARIABLE} here is "
                f"{os.environ.get(gpus.VARIABLE, 'not set')!r}; or set device: auto"
            )
