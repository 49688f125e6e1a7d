"""The workers of a local cluster: the memory they need, how many of each kind fit, and the threads
of their recogniser.

A GPU worker sees one device and runs only calls that need it; a CPU worker sees none. Dask's
resources of the same names keep calls on workers of their kind, so that stages of different
shards overlap.

Measured on 20 clips with one worker, `history: none`: the recogniser `fake` ran in 220 MiB and died
in 180; Whisper base ran in 600 MiB and was killed in 540. Prefect takes 60 MB more in the main
process, and 170 in its server.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, replace

from ...tasks import plugins
from ...tasks.base import memory_limits
from ...tasks.base.errors import ConfigError
from ...tasks.base.logs import log
from ...tasks.base.memory_limits import Limit
from ...tasks.plugins import gpu, loading
from ...tasks.plugins.loading import resolve
from ...tasks.settings import Plugin
from ...tasks.settings.job import Job
from . import gpus
from .settings import ClusterSettings

MAIN = 110_000_000
PREFECT, ITS_SERVER = 60_000_000, 170_000_000
WORKER = 110_000_000
#: Features and batches of a recogniser, beside its weights.
HEARING = 310_000_000
#: What a worker should have above the minimum, for blocks, batches and long recordings.
SPACIOUS = 1_000_000_000
#: Address space of a process, most of it never touched, and what a recogniser adds.
ADDRESSES, FOR_HEARING = 2_400_000_000, 600_000_000
CPU, GPU = "CPU", "GPU"  # kinds of workers, and the names of their Dask resources
MOST_WORKERS = 8


@dataclass(frozen=True)
class Needs:
    """The least that a run needs, bytes. `models`: name and weights of each that a worker loads."""

    main: int = MAIN + PREFECT + ITS_SERVER
    models: tuple[tuple[str, int], ...] = ()
    hearing: bool = False

    @property
    def worker(self) -> int:
        weights = sum(size for _, size in self.models)
        return WORKER + weights + (HEARING if self.hearing else 0)

    def __str__(self) -> str:
        loaded = ", ".join(f"{name} {in_gb(size)}" for name, size in self.models)
        models = f" (weights: {loaded})" if loaded else ""
        main, worker = in_gb(self.main), in_gb(self.worker)
        return f"{main} for the main process and {worker} for each worker{models}"

    def fitting(self, limit: Limit, beyond: int = 0) -> int:
        """Workers that fit beside the main process, each with `beyond` bytes above the minimum."""
        return max(0, limit.bytes - self.main) // (self.worker + beyond)

    def check(self, limit: Limit) -> None:
        """Raises ConfigError if no worker fits into the limit, or no process into its own."""
        if not self.fitting(limit):
            without = ", set history: none" if self.main > MAIN + PREFECT else ""
            raise ConfigError(
                f"this run may take {in_gb(limit.bytes)} of memory ({limit.source}), and needs at "
                f"least {in_gb(self.main + self.worker)}: {self}; raise the limit (Slurm: --mem, "
                f"systemd: MemoryMax, containers: --memory){without}, or choose smaller models"
            )
        addresses = ADDRESSES + (FOR_HEARING if self.hearing else 0)
        ceiling = memory_limits.of_process(resource.RLIMIT_AS)
        if ceiling is not None and ceiling < addresses:
            raise ConfigError(
                f"each process may take {in_gb(ceiling)} of address space (ulimit -v), and needs "
                f"{in_gb(addresses)}, most of which is never used: ulimit -v unlimited"
            )


def needs(job: Job, history: str = "auto") -> Needs:
    """The needs of a run that records itself as `history` says. ConfigError for a missing model."""
    prefect = 0
    if history != "none":
        elsewhere = history == "server" or (history == "auto" and "PREFECT_API_URL" in os.environ)
        prefect = PREFECT + (0 if elsewhere else ITS_SERVER)
    sizes = {}
    for shelf, plugin in loading.chosen_plugins(job):
        module, plugin_settings = resolve(shelf, plugin)
        if size := module.model_bytes(plugin_settings):
            sizes[shelf, plugin.use] = size
    hearing = any(shelf in ("asr", "segmenters") for shelf, _ in sizes)
    models = tuple((use, size) for (_, use), size in sizes.items())
    return Needs(MAIN + prefect, models, hearing)


def in_gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"


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


def local_workers(settings: ClusterSettings, gpu: bool, needed: Needs = Needs()) -> Fleet:
    """As many local workers as fit into the memory that the run may take. `gpu`: whether any call
    needs a GPU. A GPU worker keeps one CPU busy and takes as much memory as any worker."""
    devices = gpus.devices(settings.gpus) if gpu and settings.kind == "local" else ()
    pins = tuple(device for device in devices for _ in range(settings.workers_per_gpu))
    limit = memory_limits.of_run()
    if settings.most_workers:
        wanted = min(settings.most_workers, needed.fitting(limit) - len(pins))
    else:
        from dask.system import CPU_COUNT  # respects cgroups

        room = min(CPU_COUNT, needed.fitting(limit, SPACIOUS)) - len(pins)
        wanted = min(room, MOST_WORKERS)
    return Fleet(max(1, wanted), pins)


def memory(settings: ClusterSettings, fleet: Fleet, needed: Needs = Needs()) -> int:
    if settings.memory_limit != "auto":
        from dask.utils import parse_bytes

        return int(parse_bytes(settings.memory_limit))
    share = int(0.9 * (memory_limits.of_run().bytes - needed.main)) // fleet.size
    ceiling = memory_limits.of_process(resource.RLIMIT_DATA)
    # With a smaller share the kernel decides, which the run survives: items are not to blame for
    # memory that a plug-in's model takes undeclared.
    allotment = max(needed.worker + SPACIOUS, share)
    return allotment if ceiling is None else min(allotment, ceiling)


def check_memory(job: Job, settings: ClusterSettings, history: str) -> None:
    """Raises ConfigError if no local worker fits into the memory that the run may take; warns if
    fewer fit than the settings want, or each gets less than they promise."""
    if settings.kind != "local":
        return
    limit = memory_limits.of_run()
    needs(job, history).check(limit)
    if not settings.most_workers and settings.memory_limit == "auto":
        return  # a run with nothing to do imports no Dask
    needed = needs(job)
    workers = local_workers(settings, bool(gpu.stages(job)), needed)
    if settings.most_workers and workers.cpus < settings.most_workers:
        log.warning(
            "cluster.workers is %d, but %d fit into %s (%s): %s; this run has so many",
            settings.most_workers,
            workers.cpus,
            in_gb(limit.bytes),
            limit.source,
            needed,
        )
    promised = workers.size * memory(settings, workers, needed)
    if settings.memory_limit != "auto" and promised > limit.bytes:
        log.warning(
            "%d workers with cluster.memory_limit %s are more than the %s that this run may take "
            "(%s); where that runs out, the kernel kills: take fewer workers, or less for each",
            workers.size,
            settings.memory_limit,
            in_gb(limit.bytes),
            limit.source,
        )


def with_threads(job: Job, settings: ClusterSettings) -> Job:
    """The job, whose recogniser has as many threads as its share of the CPUs, if it has that
    setting and the user left it open."""
    backend = job.transcribe.backend
    module = plugins.ASR.load(backend.use)
    if "threads" not in module.Settings.model_fields or "threads" in backend.options:
        return job
    on_gpu = gpu.stages(job)
    workers = local_workers(settings, bool(on_gpu), needs(job))
    threads = asr_threads(settings, workers, "transcribe" in on_gpu)
    shared = Plugin(use=backend.use, **backend.options, threads=threads)
    return replace(job, transcribe=job.transcribe.model_copy(update={"backend": shared}))


def asr_threads(settings: ClusterSettings, fleet: Fleet, on_gpu: bool) -> int:
    """CPU threads of one worker's recogniser: its share of the CPUs; one beside a GPU."""
    from dask.system import CPU_COUNT

    share = 1 if on_gpu and fleet.pins else max(1, CPU_COUNT // fleet.cpus)
    return settings.asr_threads or share


def check(job: Job, settings: ClusterSettings) -> None:
    """Raises ConfigError if a stage could not use the GPU it would get, or requires one that does
    not exist: a run never silently falls back to the CPU. Only for local workers."""
    requests = gpu.requests(job)
    if settings.kind != "local" or not requests:
        return
    pins = local_workers(settings, gpu=True).pins
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
