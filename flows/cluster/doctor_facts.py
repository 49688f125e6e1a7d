"""Facts that a worker reports about itself, for the doctor's proofs."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import types
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NamedTuple

from distributed import get_worker

from ...tasks.base.json_types import JsonObject
from ...tasks.plugins import gpu, source_code
from ...tasks.publish.dataset import datacard
from ...tasks.runs import likeness
from ...tasks.settings.job import Job
from ...tasks.stages import isolate
from ...tasks.stages.spawn_check import command_line
from . import gpus
from .local import DASK_CONFIG
from .worker import adapted
from .worker_counts import GPU

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

    from ...tasks.audio import codecs

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
    facts["codecs"] = {kind: codecs.fault(kind) for kind in codecs.FORMATS}
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
