"""`uttermill doctor`: proofs about the workers' environment, taken on real workers.

`facts` is gathered on each worker; each proof is a pure function from those facts to a Finding,
so that the tests can run it on workers that are wrong on purpose.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cluster import Cluster, ClusterSettings
from flows.spawning import DASK_CONFIG
from tasks.errors import RunError
from tasks.process import command_line, started_afresh

if TYPE_CHECKING:
    from rich.console import Console

#: What `facts` returns for each worker, by its address.
Facts = Mapping[str, Mapping[str, Any]]

PACKAGES = (
    "uttermill", "dask", "distributed", "numpy", "scipy", "pyarrow", "pydantic", "librosa", "soxr",
    "samplerate", "resampy", "soundfile", "av", "onnxruntime", "faster-whisper",
)  # fmt: skip
#: Modules that must be loaded, as modules and not as lazy proxies.
ENGINES = ("soxr", "samplerate", "resampy", "librosa.core.audio", "soundfile", "av", "onnxruntime")
CAPS = tuple(
    name
    for name in DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    if name.endswith("_THREADS")
)
LEAST_FREE = 1_000_000_000
#: Set on `sys` in the client only: a worker that has it was forked.
SENTINEL = "_uttermill_parent"


@dataclass(frozen=True)
class Finding:
    name: str
    ok: bool
    detail: str


def facts(dask_worker: Any) -> dict[str, Any]:
    """All that the proofs need to know about the worker this runs on; plain values."""
    modules = dict(sys.modules)  # as they are, before anything below imports more
    preload = modules.get("tasks.preload")
    found: dict[str, Any] = {
        "command": command_line(),
        "sentinel": hasattr(sys, SENTINEL),
        "modules": {name: type(modules.get(name)) is types.ModuleType for name in ENGINES},
        "loaded_at": getattr(preload, "LOADED_AT", None),
        "ready_at": getattr(preload, "READY_AT", None),
        "prefect": "prefect" in modules,
        "caps": {name: os.environ.get(name) for name in CAPS},
        "versions": versions(),
        "local": str(dask_worker.local_directory),
    }
    from tasks import codecs

    found["pools"] = _pools()
    found["providers"] = _providers()
    found["cuda"] = _cuda_devices()
    found["codecs"] = {kind: codecs.fault(kind) for kind in codecs.FORMATS}
    found["temp"], found["temp_fault"] = _temporary()
    found["free"] = shutil.disk_usage(found["temp"]).free
    return found


def versions() -> dict[str, str]:
    """Versions of Python and of what shapes results; `absent` for what is not there."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def start_method(workers: Facts) -> Finding:
    """Each worker is a fresh interpreter, by the kernel's word and by a mark that fork copies."""
    forked = [
        address
        for address, fact in workers.items()
        if fact["sentinel"] or not started_afresh(fact["command"])
    ]
    good = f"{len(workers)} workers are fresh processes"
    return _finding("start method", forked, good, "forked; set multiprocessing-method: spawn")


def modules_loaded(workers: Facts) -> Finding:
    """Engines were loaded in full before the worker joined, hence before its first task."""
    faults = []
    for address, fact in workers.items():
        missing = [name for name, real in fact["modules"].items() if not real]
        loaded, ready = fact["loaded_at"], fact["ready_at"]
        if loaded is None or ready is None or loaded > ready:
            faults.append(f"{address} (no preload before it joined)")
        elif missing:
            faults.append(f"{address} (not loaded: {', '.join(missing)})")
    good = f"{len(ENGINES)} engines and codecs loaded before the first task"
    return _finding("preload", faults, good, "set distributed.worker.preload: [tasks.preload]")


def thread_caps(workers: Facts) -> Finding:
    """Native thread pools hold one thread, by environment and as the libraries see it."""
    faults = []
    for address, fact in workers.items():
        loose = [name for name, value in fact["caps"].items() if value != "1"]
        wide = [f"{name}={n}" for name, n in fact["pools"].items() if n > 1]
        if loose or wide:
            faults.append(f"{address} ({', '.join([*loose, *wide])})")
    return _finding("thread caps", faults, "one thread a pool", "set nanny.pre-spawn-environ")


def onnx_providers(workers: Facts) -> Finding:
    """ONNX Runtime can at least use the CPU."""
    lacking = [a for a, fact in workers.items() if "CPUExecutionProvider" not in fact["providers"]]
    seen = sorted({name for fact in workers.values() for name in fact["providers"]})
    return _finding("onnxruntime", lacking, ", ".join(seen), "no CPUExecutionProvider")


def cuda_devices(workers: Facts) -> Finding:
    """How many devices CTranslate2 sees; none is no fault."""
    seen = sorted({int(fact["cuda"]) for fact in workers.values()})
    return Finding("CUDA devices", True, " or ".join(map(str, seen)) + " a worker")


def codecs_readable(workers: Facts) -> Finding:
    """Each format was written and decoded."""
    faults = [
        f"{address} {kind}: {fault}"
        for address, fact in workers.items()
        for kind, fault in fact["codecs"].items()
        if fault is not None
    ]
    kinds = sorted({kind for fact in workers.values() for kind in fact["codecs"]})
    return _finding("codecs", faults, ", ".join(kinds), "install soundfile and av from wheels")


def temporary_directories(workers: Facts) -> Finding:
    """Each worker has one of its own, inside its directory, and may write there."""
    places = [fact["temp"] for fact in workers.values()]
    faults = []
    for address, fact in workers.items():
        if fact["temp_fault"]:
            faults.append(f"{address}: {fact['temp_fault']}")
        elif places.count(fact["temp"]) > 1 or not fact["temp"].startswith(fact["local"]):
            faults.append(f"{address}: {fact['temp']} is not its own")
    return _finding("temp dirs", faults, f"{len(places)} distinct and writable", "see preload")


def disk_free(workers: Facts) -> Finding:
    """At least 1 GB where workers keep temporary files."""
    free = min((int(fact["free"]) for fact in workers.values()), default=0)
    return Finding("disk", free >= LEAST_FREE, f"{free / 1e9:.1f} GB free for temporary files")


def versions_equal(workers: Facts, ours: Mapping[str, str] | None = None) -> Finding:
    """Python and packages are the same here and on each worker."""
    mine = versions() if ours is None else ours
    faults = [
        f"{address} {name} {theirs} (here {mine.get(name)})"
        for address, fact in workers.items()
        for name, theirs in fact["versions"].items()
        if mine.get(name) != theirs
    ]
    good = f"uttermill {mine['uttermill']}, Python {mine['python']}, and {len(mine) - 2} packages"
    return _finding("versions", faults, good, "install the same everywhere")


def no_prefect(workers: Facts) -> Finding:
    """Prefect costs each worker 45 MB and would start a server of its own there."""
    with_it = [address for address, fact in workers.items() if fact["prefect"]]
    return _finding("no Prefect", with_it, "not imported on workers", "imported by a task")


PROOFS: tuple[Callable[[Facts], Finding], ...] = (
    start_method, modules_loaded, thread_caps, onnx_providers, cuda_devices, codecs_readable,
    temporary_directories, disk_free, versions_equal, no_prefect,
)  # fmt: skip


def checkup(settings: ClusterSettings) -> list[Finding]:
    """Start the cluster, gather facts from every worker, run every proof.

    A cluster that does not start is a finding too; ConfigError for settings that cannot be met.
    """
    setattr(sys, SENTINEL, True)
    scratch = Path(tempfile.mkdtemp(prefix="uttermill-doctor-"))
    try:
        with Cluster(settings, scratch) as cluster:
            workers: Facts = cluster.client.run(facts)
    except RunError as error:
        return [Finding("workers", False, str(error))]
    finally:
        delattr(sys, SENTINEL)
        shutil.rmtree(scratch, ignore_errors=True)
    joined = Finding("workers", bool(workers), f"{len(workers)} joined")
    return [joined, *(proof(workers) for proof in PROOFS)]


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "check", "finding", box=None)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[bold red]no[/]"
        table.add_row(mark, finding.name, escape(finding.detail))
    console.print(table)


def doctor(as_json: bool, settings: ClusterSettings | None = None) -> int:
    """Exit code 0 when all is well, else 1; one JSON object on stdout, or a table."""
    findings = checkup(settings or ClusterSettings())
    ok = all(finding.ok for finding in findings)
    if as_json:
        print(json.dumps({"ok": ok, "findings": [asdict(f) for f in findings]}))
    else:
        from rich.console import Console

        show(findings, Console())
    return 0 if ok else 1


def _finding(name: str, faults: list[str], good: str, remedy: str) -> Finding:
    return Finding(name, not faults, f"{'; '.join(faults)}: {remedy}" if faults else good)


def _pools() -> dict[str, int]:
    """Threads of the native pools in this process: BLAS, OpenMP, numba."""
    from numba import get_num_threads
    from threadpoolctl import threadpool_info  # scikit-learn's

    pools = {str(pool["internal_api"]): int(pool["num_threads"]) for pool in threadpool_info()}
    return {**pools, "numba": int(get_num_threads())}


def _providers() -> list[str]:
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def _cuda_devices() -> int:
    try:
        from ctranslate2 import get_cuda_device_count

        return int(get_cuda_device_count())
    except ImportError:
        return 0


def _temporary() -> tuple[str, str | None]:
    """This process's temporary directory, and why it cannot be written to, if so."""
    place = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
    except OSError as error:
        return place, str(error)
    return place, None
