"""The whole line as a user runs it, with its processes and the GPU watched."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from tests.bench import _gpu_speech
from tests.bench._gpu_speech import Speech
from tests.bench._gpu_watch import Watch
from uttermill.flows.cluster import gpus
from uttermill.tasks.base.json_types import JsonObject

CHAIN = ("filter", "resample", "transcribe")


def whole(
    speeches: Sequence[Speech],
    home: Path,
    seconds: float,
    models: Sequence[str],
    dnsmos: str,
    workers: int,
    until: float,
) -> JsonObject:
    """Each model over the same recordings, from an OUT of its own; `workers` for each GPU."""
    cores = len(os.sched_getaffinity(0))
    audio = _gpu_speech.write(speeches, home / "in", seconds, cores)
    found: JsonObject = {"kinds": [speech.kind for speech in speeches]}
    for number, model in enumerate(models):
        backend = {"use": "faster_whisper", "model": model, "language": "en"}
        cluster = {"workers_per_gpu": workers}
        found[Path(model).name] = _run(home, f"{number}", audio, backend, cluster, dnsmos, until)
    return found


def stub(speeches: Sequence[Speech], home: Path, seconds: float, until: float) -> JsonObject:
    """The whole line with a stub engine of 1,000 x real time on a worker with a GPU's name."""
    cores = len(os.sched_getaffinity(0))
    audio = _gpu_speech.write(speeches, home / "in", seconds, cores)
    backend = {"use": "tests.bench._stub_engine", "speed": 1000}
    return _run(home, "stub", audio, backend, {"gpus": [0]}, "cpu", until)


def _run(
    home: Path, name: str, audio: float, backend: dict[str, Any], cluster: dict[str, Any],
    dnsmos: str, until: float,
) -> JsonObject:  # fmt: skip
    settings = {
        "sources": [{"kind": "folder", "path": str(home / "in"), "expect_broken": True}],
        "out": str(home / name),
        "shard": {"settle_seconds": 0},
        "filter": {
            "segmenter": {"use": "vad"},
            "filters": [{"use": name} for name in ("duration", "silence", "clipping")]
            + [{"use": "dnsmos", "device": dnsmos}] * (dnsmos != "none"),
        },
        "transcribe": {"backend": backend},
        "cluster": cluster,
        "history": "own",
    }
    path = home / f"{name}.yaml"
    path.write_text(yaml.safe_dump(settings))
    told = _watched(
        [sys.executable, "-m", "uttermill.flows.cli", "run", str(path), "--json"], until
    )
    result, watched, wall = told
    rows = [
        row
        for table in sorted((home / name / "runs").glob("*/metrics.parquet"))
        for row in pq.read_table(table).to_pylist()
        if row["step"] == "run" and row["stage"] in CHAIN and row["wall_seconds"] is not None
    ]
    begin = min(row["started"].timestamp() for row in rows)
    end = max(row["started"].timestamp() + row["wall_seconds"] for row in rows)
    cpu = watched.between(begin, end)
    cores = sum(cpu.values()) / (end - begin) / len(os.sched_getaffinity(0))
    kinds = sorted({row["kind"] for row in rows})
    on_gpu = watched.gpu_between(begin, end)
    return {
        "audio_seconds": round(audio),
        "wall_seconds": round(wall, 1),
        "hours_an_hour": round(audio / wall, 1),
        "hours_an_hour_in_stages": round(audio / (end - begin), 1),
        "packaged": result["utterances"]["packaged"],
        "calls": {stage: sum(row["stage"] == stage for row in rows) for stage in CHAIN},
        "workers": {kind: len({r["worker"] for r in rows if r["kind"] == kind}) for kind in kinds},
        "cpu_seconds_by_stage": _by_stage(rows, "cpu_seconds"),
        "wall_seconds_by_stage": _by_stage(rows, "wall_seconds"),
        "cpu_seconds_by_process": {kind: round(spent, 1) for kind, spent in sorted(cpu.items())},
        "cores_busy_percent": round(100 * cores),
        "memory_mb": round(watched.memory / 1e6),
        "gpu": on_gpu,
        "gpu_busy_over_time": watched.curve(begin, end) if on_gpu else [],
        "gpus": list(gpus.devices("auto")),
    }


def _by_stage(rows: Sequence[dict[str, Any]], what: str) -> dict[str, float]:
    return {stage: round(sum(r[what] for r in rows if r["stage"] == stage), 1) for stage in CHAIN}


def _watched(command: Sequence[str], until: float) -> tuple[JsonObject, Any, float]:
    """(the command's JSON output, the measurements of its processes, wall s). Raises RuntimeError
    if it fails or runs out of time."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    try:
        said, complaints = process.communicate(timeout=max(1.0, until - began))
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        raise RuntimeError("it did not end in time") from None
    finally:
        watched = watch.end()
    wall = time.monotonic() - began
    if process.returncode:
        raise RuntimeError(complaints.strip().rpartition("\n")[2] or f"exit {process.returncode}")
    return json.loads(said.strip().rpartition("\n")[2]), watched, wall
