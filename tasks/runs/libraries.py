"""The libraries that a worker loads before its first task; and which of them kills the process that
loads it, as one built for another processor does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module

from ..base import environment
from ..stages.spawn_check import ended

#: Module, and an attribute whose reading loads it: what every run needs. The stages are here
#: because importing them would take half a second of each worker's first task.
ALWAYS = {
    "numpy": "ndarray",
    "pyarrow.parquet": "ParquetFile",
    "pyarrow.compute": "equal",
    "soxr": "ResampleStream",
    "soundfile": "SoundFile",
    "av": "open",
    "uttermill.tasks.audio.stream": "Stream",
    "uttermill.tasks.pipeline": "run_here",
    "uttermill.tasks.stages.filter": "compute",
    "uttermill.tasks.stages.resample": "compute",
    "uttermill.tasks.stages.transcribe": "compute",
}
#: What any settings may reach besides; engines come before librosa.
EVERYTHING = {
    "samplerate": "resample",
    "resampy": "resample",
    "scipy.signal": "resample_poly",
    "scipy.fft": "rfft",
    "onnxruntime": "InferenceSession",
    "librosa.core.audio": "resample",
    "uttermill.tasks.scoring.readings": "agreed",
}
LONGEST_S = 120.0


def of_worker(engines: Mapping[str, str] | None) -> dict[str, str]:
    return {**ALWAYS, **(EVERYTHING if engines is None else engines)}


def fatal(engines: Mapping[str, str] | None) -> str | None:
    """Which library ends a process that loads it, and how, for people. As slow as a worker's
    start."""
    words = environment.python("-m", __name__, json.dumps(of_worker(engines)))
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment.of_child(),
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    names = done.stdout.split()
    if done.returncode >= 0 or not names:
        return None
    return (
        f"{names[-1]} ends each process that loads it, by {ended(done.returncode)}: it is "
        "not made for this machine, or damaged; install it again in a version that runs here, or "
        "leave out what needs it"
    )


def main() -> None:
    for name, attribute in json.loads(sys.argv[1]).items():
        print(name, flush=True)
        getattr(import_module(name), attribute)


if __name__ == "__main__":
    main()
