"""The doctor's proofs: facts that a worker reports about itself, and from those of all workers one
Finding for each proof."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from distributed import get_worker

from ...tasks.base import memory_limits
from ...tasks.base.counting import counted
from ...tasks.base.json_types import JsonObject
from ...tasks.plugins import gpu, source_code
from ...tasks.publish.dataset import datacard
from ...tasks.runs import likeness
from ...tasks.settings.job import Job
from ...tasks.stages import isolate
from ...tasks.stages.spawn_check import command_line, started_afresh
from . import gpus
from .local import DASK_CONFIG
from .worker import adapted
from .worker_counts import CPU, GPU, Needs, in_gb

if TYPE_CHECKING:
    from distributed import Worker

#: What `gather` returns for each worker, by its address.
Facts = Mapping[str, JsonObject]

PACKAGES = (*datacard.LIBRARIES, "dask", "distributed", "pydantic")
#: Modules that must be loaded as modules, not as lazy proxies.
ENGINES = ("soxr", "samplerate", "resampy", "librosa.core.audio", "soundfile", "av", "onnxruntime")
CAPS = tuple(
    name
    for name in DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    if name.endswith("_THREADS")
)


def gather(dask_worker: Worker) -> JsonObject:
    modules = dict(sys.modules)  # before anything below imports more
    preload = modules.get("uttermill.tasks.preload")
    facts: JsonObject = {
        "command": command_line(),
        "modules": {name: type(modules.get(name)) is types.ModuleType for name in ENGINES},
        "loaded_at": getattr(preload, "LOADED_AT", None),
        "ready_at": getattr(preload, "READY_AT", None),
        "prefect": "prefect" in modules,
        "name": str(dask_worker.name),
        "host": platform.node(),
        "address": str(dask_worker.address),
        "threads": int(dask_worker.state.nthreads),
        "resources": dict(dask_worker.state.total_resources),
        "visible": os.environ.get(gpus.VARIABLE),
        "visible_at_start": getattr(preload, "VISIBLE", None),
        "caps": {name: os.environ.get(name) for name in CAPS},
        "versions": versions(),
        "local": str(dask_worker.local_directory),
    }
    import onnxruntime
    from numba import get_num_threads
    from threadpoolctl import threadpool_info  # scikit-learn's

    from ...tasks.audio import encoding

    # Threads of the native pools in this process: BLAS, OpenMP, numba.
    facts["pools"] = {str(p["internal_api"]): int(p["num_threads"]) for p in threadpool_info()}
    facts["pools"]["numba"] = int(get_num_threads())
    facts["providers"] = list(onnxruntime.get_available_providers())
    try:
        from ctranslate2 import get_cuda_device_count

        facts["cuda"] = int(get_cuda_device_count())
    except ImportError:
        facts["cuda"] = 0
    facts["cuda_fault"] = gpu.ctranslate2_fault() if facts["resources"].get(GPU) else None
    facts["codecs"] = {kind: encoding.fault(kind) for kind in encoding.FORMATS}
    facts["temp"], facts["temp_fault"] = tempfile.gettempdir(), None
    try:
        with tempfile.TemporaryFile(dir=facts["temp"]) as file:
            file.write(b"x")
    except OSError as error:
        facts["temp_fault"] = str(error)
    facts["free"] = shutil.disk_usage(facts["temp"]).free
    return facts


class Computing(NamedTuple):
    """What a worker would compute a job with, and how that ran on a known good clip. `files`:
    hashes of its code by file."""

    likeness: likeness.Likeness
    files: Mapping[str, str]
    rehearsal: isolate.Rehearsal


def computing(job: Job) -> Computing:
    """Runs on a worker, as a task: it may take a minute, in which the worker must answer others.
    Raises ConfigError for a missing model."""
    worker = get_worker()
    alike = likeness.of_this_process(job)
    return Computing(alike, source_code.by_file(job), isolate.rehearse(adapted(job, worker)))


def versions() -> dict[str, str]:
    """Of Python and of packages that affect results; `absent` for missing ones."""
    by_package = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            by_package[name] = version(name)
        except PackageNotFoundError:
            by_package[name] = "absent"
    return by_package


LEAST_FREE = 1_000_000_000
MOST_NAMED = 3  # files whose code differs


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    detail: str


def joined(workers: Facts, wanted: int = 1) -> Finding:
    """As many workers joined as the settings ask for; says how many, and on which machines."""
    hosts = Counter(str(fact["host"]) for fact in workers.values())
    where = ", ".join(f"{host} ({count})" for host, count in sorted(hosts.items()))
    machines = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    lacking = f" (the settings ask for {wanted})" if len(workers) < wanted else ""
    detail = f"{len(workers)} joined{lacking}, on {machines}: {where}"
    return Finding("workers", len(workers) >= max(1, wanted), detail)


def start_method(workers: Facts) -> Finding:
    """Each worker is a new interpreter, by its command line: a fork shows its parent's."""
    forked = [a for a, fact in workers.items() if not started_afresh(fact["command"])]
    good = counted(len(workers), "worker is a fresh process", "workers are fresh processes")
    return _finding("start method", forked, good, "forked; set multiprocessing-method: spawn")


def modules_loaded(workers: Facts) -> Finding:
    """Engines were fully loaded before the worker joined, hence before its first task."""
    faults = []
    for address, fact in workers.items():
        missing = [name for name, real in fact["modules"].items() if not real]
        loaded, ready = fact["loaded_at"], fact["ready_at"]
        if loaded is None or ready is None or loaded > ready:
            faults.append(f"{address} (no preload before it joined)")
        elif missing:
            faults.append(f"{address} (not loaded: {', '.join(missing)})")
    good = f"{len(ENGINES)} engines and codecs loaded before the first task"
    return _finding(
        "preload", faults, good, "set distributed.worker.preload: [uttermill.tasks.preload]"
    )


def one_task(workers: Facts) -> Finding:
    """Each worker runs one task at a time, so that a death or a leak has one culprit."""
    wide = [f"{a} ({fact['threads']})" for a, fact in workers.items() if fact["threads"] != 1]
    return _finding("tasks at once", wide, "one per worker", "start them with --nthreads 1")


def thread_caps(workers: Facts) -> Finding:
    """Native thread pools have one thread, by the environment and by the libraries' own count."""
    faults = []
    for address, fact in workers.items():
        loose = [name for name, value in fact["caps"].items() if value != "1"]
        wide = [f"{name}={n}" for name, n in fact["pools"].items() if n > 1]
        if loose or wide:
            faults.append(f"{address} ({', '.join([*loose, *wide])})")
    return _finding("thread caps", faults, "one thread per pool", "set nanny.pre-spawn-environ")


def onnx_providers(workers: Facts) -> Finding:
    """ONNX Runtime can use the CPU; GPU providers are shown with each worker."""
    lacking = [a for a, fact in workers.items() if "CPUExecutionProvider" not in fact["providers"]]
    seen = sorted({name for fact in workers.values() for name in fact["providers"]})
    return _finding("onnxruntime", lacking, ", ".join(seen), "no CPUExecutionProvider")


def cuda_devices(workers: Facts) -> Finding:
    faults = [
        f"{fact['name']}: {fact['cuda_fault']}" for fact in workers.values() if fact["cuda_fault"]
    ]
    seen = sorted({int(fact["cuda"]) for fact in workers.values()})
    good = " or ".join(map(str, seen)) + " per worker"
    return _finding("CUDA devices", faults, good, "or set cluster.gpus: none")


def pinned(workers: Facts, per_gpu: int = 1) -> Finding:
    """Each GPU worker saw one device before it loaded anything, and still does, shared by at most
    `per_gpu`; a CPU worker beside them sees none."""
    faults = []
    owners: Counter[tuple[str, str]] = Counter()
    for fact in workers.values():
        name, seen = fact["name"], fact["visible"]
        if seen != fact["visible_at_start"]:
            faults.append(f"{name} saw {fact['visible_at_start']!r} when it loaded its modules")
        if fact["resources"].get(GPU):
            if not seen or "," in seen:
                faults.append(f"{name} has {gpus.VARIABLE} {seen!r}, not one device")
            else:
                owners[fact["host"], seen] += 1
        elif fact["resources"].get(CPU) and seen != "":
            faults.append(f"{name} wants no GPU and has {gpus.VARIABLE} {seen!r}")
    for (host, device), count in owners.items():
        if count > per_gpu:
            faults.append(f"{counted(count, 'worker')} share GPU {device} of {host}")
    good = f"{counted(sum(owners.values()), 'worker')} on {counted(len(owners), 'GPU')}"
    return _finding("GPU pins", faults, good, f"set {gpus.VARIABLE} for each worker")


def codecs_readable(workers: Facts) -> Finding:
    faults = [
        f"{address} {kind}: {fault}"
        for address, fact in workers.items()
        for kind, fault in fact["codecs"].items()
        if fault is not None
    ]
    kinds = sorted({kind for fact in workers.values() for kind in fact["codecs"]})
    return _finding("codecs", faults, ", ".join(kinds), "install soundfile and av from wheels")


def temporary_directories(workers: Facts) -> Finding:
    """Each worker has a writable temporary directory of its own, inside its directory."""
    taken = Counter((fact["host"], fact["temp"]) for fact in workers.values())
    faults = []
    for address, fact in workers.items():
        if fact["temp_fault"]:
            faults.append(f"{address}: {fact['temp_fault']}")
        elif not fact["temp"].startswith(fact["local"]) or taken[fact["host"], fact["temp"]] > 1:
            faults.append(
                f"{address}: {fact['temp']} is also another worker's, or outside its directory"
            )
    return _finding(
        "temp dirs",
        faults,
        f"{len(taken)} distinct and writable",
        "start workers with --preload uttermill.tasks.preload",
    )


def disk_free(workers: Facts) -> Finding:
    free = min((int(fact["free"]) for fact in workers.values()), default=0)
    return Finding("disk", free >= LEAST_FREE, f"{free / 1e9:.1f} GB free for temporary files")


def versions_equal(workers: Facts) -> Finding:
    mine = versions()
    faults = [
        f"{address} {name} {theirs} (here {mine.get(name)})"
        for address, fact in workers.items()
        for name, theirs in fact["versions"].items()
        if mine.get(name) != theirs
    ]
    good = f"uttermill {mine['uttermill']}, Python {mine['python']}, and {len(mine) - 2} packages"
    return _finding("versions", faults, good, "install the same everywhere")


def no_prefect(workers: Facts) -> Finding:
    """No worker imported Prefect, which takes 45 MB and would start a server of its own."""
    with_it = [address for address, fact in workers.items() if fact["prefect"]]
    return _finding("no Prefect", with_it, "not imported on workers", "imported by a task")


def memory() -> Finding:
    """The main process and a worker fit into the memory that a run on this machine may take."""
    limit, least = memory_limits.of_run(), Needs()
    room = f"{in_gb(limit.bytes)} for a run on this machine ({limit.source})"
    fits = least.fitting(limit) > 0
    return Finding("memory", fits, room if fits else f"{room}, which needs at least {least}")


def scheduler(config: JsonObject, ours: JsonObject) -> Finding:
    """The scheduler has our configuration: a shard that kills its worker costs one worker."""
    faults = [
        f"{name} {config.get(name)!r} (ours {wanted!r})"
        for name, wanted in ours.items()
        if config.get(name) != wanted
    ]
    good = f"{len(ours)} settings as in infra/dask.yaml"
    return _finding("scheduler", faults, good, "start it with infra/dask.yaml as DASK_CONFIG")


def models(computing: Mapping[str, Computing]) -> Finding:
    faults = [
        f"{address}: {fault}"
        for address, answer in computing.items()
        for fault in answer.rehearsal.faults
    ]
    longest: dict[str, float] = {}
    for answer in computing.values():
        for name, seconds in answer.rehearsal.ran:
            longest[name] = max(seconds, longest.get(name, 0.0))
    good = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in longest.items())
    return Finding("engines", not faults, "; ".join(faults) or f"run on a good clip: {good}")


def alike(
    computing: Mapping[str, Computing],
    ours: likeness.Likeness,
    files: Mapping[str, str],
    mixed: bool,
) -> Finding:
    """Every worker would compute the same data; `ours`, `files`: of this machine. With `mixed`,
    others may work, but not with other weights."""
    others = {
        address: _with_files(unlike, files, answer.files)
        for address, answer in computing.items()
        if (unlike := likeness.differences(ours, answer.likeness))
    }
    faults = [f"{address} has other {', '.join(unlike)}" for address, unlike in others.items()]
    if mixed and faults and not any(likeness.WEIGHTS in unlike for unlike in others.values()):
        return Finding("same data", True, f"{'; '.join(faults)}: allowed by cluster.mixed")
    good = "each worker has this code, these libraries, weights and kind of processor"
    return _finding(
        "same data", faults, good, "install there what is here, or set cluster.mixed: true"
    )


def _with_files(
    unlike: Sequence[str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> list[str]:
    names = sorted(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    files = f" ({', '.join(names[:MOST_NAMED])}{more})"
    of_code = (likeness.CODE, likeness.PLUGINS)
    return [f"{what}{files}" if what in of_code and names else what for what in unlike]


def folders(seen: Mapping[str, JsonObject]) -> Finding:
    faults = [
        f"{address} does not see {folder}"
        for folder, answers in seen.items()
        for address, answer in answers.items()
        if answer is not True
    ]
    good = f"{len(seen)} seen by each worker"
    return _finding("folders", faults, good, "mount them there at the same path")


def out(place: Path, may_write: Mapping[str, object]) -> Finding:
    """Every worker can write to a folder just made on this machine, beside OUT's contents."""
    faults = [
        f"{address} cannot write there" for address, may in may_write.items() if may is not True
    ]
    good = f"each worker can write to {place}"
    return _finding("OUT", faults, good, f"mount {place} there at the same path")


PROOFS: tuple[Callable[[Facts], Finding], ...] = (
    start_method,
    modules_loaded,
    one_task,
    thread_caps,
    onnx_providers,
    cuda_devices,
    codecs_readable,
    temporary_directories,
    disk_free,
    versions_equal,
    no_prefect,
)


def each_worker(workers: Facts) -> list[Finding]:
    """What every worker is and sees, sorted by name; these findings are always good."""
    shown = []
    for fact in sorted(workers.values(), key=lambda fact: str(fact["name"])):
        resources = ", ".join(f"{name} {n:g}" for name, n in fact["resources"].items()) or "none"
        seen = "not set" if fact["visible"] is None else repr(fact["visible"])
        where = f"{fact['address']} on {fact['host']}"
        has = f"resources {resources}; {gpus.VARIABLE} {seen}; {', '.join(fact['providers'])}"
        shown.append(Finding(str(fact["name"]), True, f"{where}; {has}"))
    return shown


def _finding(name: str, faults: list[str], good: str, remedy: str) -> Finding:
    return Finding(name, not faults, f"{'; '.join(faults)}: {remedy}" if faults else good)
