"""The two old failures in processes of their own, and the load that showed them.

    python -m tests.faults.seeds race        threads that first use librosa's lazy engines at once
    python -m tests.faults.seeds fork        a forked child after OpenMP was used in its parent
    python -m tests.faults.seeds dask fork   Dask workers made by fork; or spawn

Each prints one JSON object. The first two show the fault; see test_seeds.py.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

#: Every resampler of the shelf, and those engines that librosa loads lazily.
LOAD: tuple[dict[str, str], ...] = (
    {"use": "soxr_hq"}, {"use": "soxr_vhq"}, {"use": "samplerate_sinc_best"},
    {"use": "resampy_kaiser_best"}, {"use": "librosa"},
    {"use": "librosa", "res_type": "kaiser_best"}, {"use": "librosa", "res_type": "sinc_best"},
    {"use": "librosa", "res_type": "kaiser_fast"},
)  # fmt: skip


def resampled(index: int) -> dict[str, Any]:
    """One call of a resampler plug-in, and what its process is like; nothing is caught."""
    from uttermill.tasks import plugins
    from uttermill.tasks.settings import Plugin
    from uttermill.tasks.stages.spawn_check import command_line

    module, settings = plugins.RESAMPLERS.resolve(Plugin.model_validate(LOAD[index % len(LOAD)]))
    tone = np.sin(2 * np.pi * 440 * np.arange(4410) / 44100).astype(np.float32)
    made = module.resample(tone, 44100, 16000, settings)
    return {
        "pid": os.getpid(), "command": command_line(), "thread": threading.get_ident(),
        "samples": len(made), "level": float(np.sqrt(np.mean(np.square(made)))),
    }  # fmt: skip


def openmp(_: int = 0) -> int:
    """A parallel region of GNU OpenMP, which scikit-learn brings; the process's number."""
    from sklearn.metrics import pairwise_distances_argmin  # a few ms, in OpenMP

    points = np.random.default_rng(0).normal(size=(4000, 8))
    pairwise_distances_argmin(points, points[:500])
    return os.getpid()


def numba_openmp(_: int = 0) -> int:
    """The same through numba, whose pool ends a forked process by itself."""
    import numba

    config: Any = numba.config
    config.THREADING_LAYER = "omp"

    def total(values: Any) -> float:
        found = 0.0
        for at in numba.prange(len(values)):
            found += values[at]
        return found

    compiled: Any = numba.njit(parallel=True)  # untyped
    compiled(total)(np.ones(1000))
    return os.getpid()


def race(threads: int = 8) -> dict[str, Any]:
    """First use of resampy through librosa by many threads at once, without a preload."""
    import librosa

    class Slow:
        """As on a slow disk: other threads get their turn while resampy is half imported."""

        @staticmethod
        def find_spec(name: str, *_: Any) -> None:
            if name.startswith("resampy."):
                time.sleep(0.1)

    sys.meta_path.insert(0, Slow)
    tone = np.sin(np.arange(4410, dtype=np.float32))
    together = threading.Barrier(threads)

    def first_use(_: int) -> str:
        together.wait()
        try:
            librosa.resample(tone, orig_sr=44100, target_sr=16000, res_type="kaiser_best")
        except Exception as error:  # whatever it is, it is the fault that is shown
            return f"{type(error).__name__}: {error}"
        return ""

    with ThreadPoolExecutor(threads) as pool:
        errors = [found for found in pool.map(first_use, range(threads)) if found]
    return {"errors": errors}


def child(method: str, seconds: float = 8.0) -> dict[str, Any]:
    """Whether a child that uses OpenMP ends, after its parent did the same."""
    openmp()
    made: Any = multiprocessing.get_context(method)
    process = made.Process(target=openmp)
    process.start()
    process.join(seconds + (30 if method == "spawn" else 0))
    hung = process.is_alive()
    if hung:
        process.kill()
        process.join()
    return {"hung": hung, "exit": process.exitcode}


def dask(method: str, seconds: float = 12.0) -> NoReturn:
    """OpenMP on workers made by `method`, after the client's process used it; ends the process."""
    import dask.config
    from distributed import Client, LocalCluster

    numba_openmp()
    options = {
        "distributed.worker.multiprocessing-method": method,
        "distributed.worker.preload": [], "distributed.scheduler.allowed-failures": 0,
        "distributed.comm.timeouts.connect": "5s", "distributed.nanny.pre-spawn-environ": {},
    }  # fmt: skip
    made: Any = LocalCluster
    client_class: Any = Client
    with tempfile.TemporaryDirectory() as folder, dask.config.set(options):
        cluster = made(n_workers=1, threads_per_worker=1, host="127.0.0.1", silence_logs=50,
                       dashboard_address=None, local_directory=folder,
                       scheduler_kwargs={"dashboard_address": "127.0.0.1:0"})  # fmt: skip
        client = client_class(cluster)
        workers = [nanny.pid for nanny in cluster.workers.values()]
        try:
            client.submit(numba_openmp, pure=False).result(
                timeout=seconds + (30 if method == "spawn" else 0)
            )
            fault = ""
        except Exception as error:
            fault = type(error).__name__
        # A worker that hangs in native code would keep the cluster from closing.
        for pid in {*workers, *(nanny.pid for nanny in cluster.workers.values())}:
            if fault and pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
    print(json.dumps({"fault": fault}), flush=True)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "dask":
        dask(words[1])
    print(json.dumps(race() if words[0] == "race" else child(words[0])))
