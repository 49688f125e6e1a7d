"""Measures a GPU and the load on its host: one command, no network, under nine minutes.

    python -m tests.bench.gpu [--corpus DIR] [--model base|DIR …] [--hours H] [--threads N]
                              [--dnsmos cpu|cuda|none] [--workers-per-gpu N] [--only PART …]
                              [--minutes 9] [--json]

pins:    workers see one GPU each, CPU workers none.
texts:   WER of CTranslate2 on CUDA within 0.5 points of the CPU's.
dnsmos:  its scores on CUDA beside the CPU's.
memory:  a batch that does not fit into memory is halved; every clip has its text.
dag:     the whole line by `uttermill run` on real and made speech, for each model: hours an hour
         and how busy the GPU is over time.
host:    CPU seconds of decoding, voice detector, DNSMOS, mel, …; cores for 150, 500, 1,000 x real
         time.
stub:    the whole line with an engine that waits for a thousandth of the audio's length.

`--corpus` (or UTTERMILL_CORPUS) gives real speech, espeak-ng made speech; one is enough. `--model`
is `base` (bundled) or a folder of a CTranslate2 model. Where there is no GPU, the parts that need
one say why they are skipped. Exit 1 when a part failed or there was no time for it.

A machine without network needs this repository and a folder with wheels, made elsewhere with the
same Python (3.11 or 3.12):

    python -m pip wheel --no-deps -w FOLDER/wheels .
    python -m pip download --only-binary=:all: --python-version 3.12 \\
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \\
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --platform any \\
        -c infra/constraints.txt -d FOLDER/wheels '.[gpu,demo,dnsmos]'

and there:

    python -m pip install --no-index --no-deps --target FOLDER/site FOLDER/wheels/*.whl
    PYTHONPATH=$PWD:FOLDER/site python -m tests.bench.gpu --model base --model FOLDER/large-v3

For DNSMOS on the GPU, put the wheels of onnxruntime-gpu and of what it needs in place of
onnxruntime's.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import ctranslate2
import onnxruntime

from tests.bench import _gpu_checks, _gpu_dag, _gpu_host, _gpu_speech
from tests.bench._gpu_checks import Skipped
from uttermill.flows.cluster import gpus
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins import gpu

PARTS = ("pins", "texts", "dnsmos", "memory", "dag", "host", "stub")
CLIPS = 48
HOST_SECONDS = 300.0  # of audio
STUB_SECONDS_A_CORE = 480.0


def machine() -> JsonObject:
    """What the numbers were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "gpus": list(gpus.devices("auto")),
        "ctranslate2": f"{ctranslate2.__version__}: {gpu.ctranslate2_fault() or 'CUDA'}",
        "onnxruntime": f"{onnxruntime.__version__}: {gpu.onnxruntime_fault() or 'CUDA'}",
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--hours", type=float)
    parser.add_argument("--dnsmos", choices=("cpu", "cuda", "none"), default="cpu")
    parser.add_argument("--workers-per-gpu", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    until = time.monotonic() + 60 * args.minutes
    say = partial(print, file=sys.stderr if args.json else sys.stdout, flush=True)
    host = machine()
    say(json.dumps(host))
    found = _gpu_speech.found(args.corpus, CLIPS)
    if not found:
        parser.error("no speech: give --corpus, or install espeakng-loader")
    said = [one for speech in found for one in speech.said]
    some = [*found[0].said[:8]]
    models = args.model or ["base"]
    cores, has_gpu = int(host["cores"]), bool(host["gpus"])
    hours = args.hours or (2.0 if has_gpu else 0.05)
    with tempfile.TemporaryDirectory(prefix="uttermill-gpu-") as name:
        home = Path(name)
        parts: dict[str, Callable[[], JsonObject]] = {
            "pins": _gpu_checks.pins,
            "texts": lambda: _gpu_checks.texts(said, models[0], args.threads),
            "dnsmos": lambda: _gpu_checks.opinions(said[:24]),
            "memory": lambda: _gpu_checks.halves(
                said * 4 if has_gpu else some, models[0], args.threads
            ),
            "dag": lambda: _gpu_dag.whole(
                found, home / "dag", 3600 * hours, models, args.dnsmos, args.workers_per_gpu, until
            ),
            "host": lambda: _host(found, home / "host", say),
            "stub": lambda: _gpu_dag.stub(found, home / "stub", STUB_SECONDS_A_CORE * cores, until),
        }
        results = {name: _run(name, parts[name], until, say) for name in args.only}
    ok = all("failed" not in result for result in results.values())
    whole = {"ok": ok, "machine": host, "parts": results}
    if args.json:
        print(json.dumps(whole))
    sys.exit(0 if ok else 1)


def _run(
    name: str, part: Callable[[], JsonObject], until: float, say: Callable[[str], None]
) -> JsonObject:
    """What a part found, or why not; one that goes wrong leaves the others to run."""
    began = time.monotonic()
    if began > until:
        found: JsonObject = {"failed": "no time was left for it"}
    else:
        try:
            found = part()
        except Skipped as reason:
            found = {"skipped": str(reason)}
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
    found["wall_seconds"] = round(time.monotonic() - began, 1)
    say(f"{name}: {json.dumps(found, ensure_ascii=False)}")
    return found


def _host(found: list[_gpu_speech.Speech], folder: Path, say: Callable[[str], None]) -> JsonObject:
    audio = _gpu_speech.write(found, folder, HOST_SECONDS, 1)
    costs = _gpu_host.parts(folder, audio)
    say(_gpu_host.table(costs))
    return {
        "audio_seconds": round(audio),
        "cpu_seconds_an_hour": {part: round(3600 * cost, 1) for part, cost in costs.items()},
        "cores": {
            str(speed): round(speed * _gpu_host.total(costs), 1) for speed in _gpu_host.SPEEDS
        },
    }


if __name__ == "__main__":
    main()
