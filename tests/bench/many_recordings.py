"""Many short recordings through the real command: CPU for each of them, memory over time, files.

    python -m tests.bench.many_recordings [FOLDER] [--counts 2000 20000] [--history auto] [--json]

The recordings are synthetic: tones in noise, 0.5 to 2 s, at four rates; half wav, a quarter flac, a
quarter mp3. Each count is a corpus, prepared by `uttermill run` with two workers and the backend
`fake`, and once more with nothing to do. Prints CPU seconds by kind of process, the memory of flow,
server and the largest worker at 25, 50, 75 and 100 % of the time, and the files and folders in OUT.
FOLDER keeps the recordings for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import soundfile as sf

POLL_S = 0.25  # between two samples of the processes
EACH = 200  # recordings of a folder
FORMATS = ("wav", "flac", "wav", "mp3")
RATES = (16000, 22050, 44100, 48000)
SETTINGS = ("transcribe.backend.use=fake", "cluster.workers=2", "shard.settle_seconds=0")
QUARTERS = (25, 50, 75, 100)
KINDS = {  # by words of a command line; the first that fits
    "server": "_server_child",
    "report": "report",
    "workers": "spawn_main",
}


def make(home: Path, count: int) -> Path:
    """A folder of so many recordings, each another; made once."""
    folder = home / f"source-{count}"
    if (folder / "complete").is_file():
        return folder / "audio"
    for number in range(count):
        draw = np.random.default_rng([count, number])
        rate = RATES[number // len(FORMATS) % len(RATES)]
        seconds = draw.uniform(0.5, 2.0)
        moment = np.arange(int(rate * seconds)) / rate
        low, high = sorted(draw.uniform(120.0, 900.0, size=2))
        sound = np.sin(2 * np.pi * (low + (high - low) * moment / seconds) * moment)
        sound *= 0.3 * (0.6 + 0.4 * np.sin(2 * np.pi * 4.0 * moment))
        sound += draw.normal(0.0, 0.01, len(moment))
        ending = FORMATS[number % len(FORMATS)]
        path = folder / "audio" / f"{number // EACH:04d}" / f"{number:06d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        sf.write(path, sound.astype(np.float32), rate)
    (folder / "complete").touch()
    return folder / "audio"


class Watched:
    """CPU seconds of the processes of a command by kind, and their memory over time."""

    def __init__(self, root: int) -> None:
        self._root = psutil.Process(root)
        self._cpu: dict[tuple[str, int], float] = {}
        self._kinds: dict[int, str] = {}
        self.memory: list[tuple[float, dict[str, int]]] = []  # monotonic s; bytes of the largest

    def look(self) -> None:
        held: dict[str, int] = {}
        with suppress(psutil.Error):
            for process in [self._root, *self._root.children(recursive=True)]:
                with suppress(psutil.Error):
                    kind = self._kind(process)
                    times = process.cpu_times()
                    self._cpu[kind, process.pid] = times.user + times.system
                    held[kind] = max(held.get(kind, 0), process.memory_info().rss)
        if held:
            self.memory.append((time.monotonic(), held))

    def _kind(self, process: psutil.Process) -> str:
        if process == self._root:
            return "flow"
        if process.pid not in self._kinds:
            words = " ".join(process.cmdline())
            found = [kind for kind, word in KINDS.items() if word in words]
            if not found:
                return "others"  # asked again: it may be about to become something else
            self._kinds[process.pid] = found[0]
        return self._kinds[process.pid]

    def cpu(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for (kind, _), seconds in self._cpu.items():
            found[kind] = found.get(kind, 0.0) + seconds
        return found

    def quarters(self) -> dict[str, list[int]]:
        """MB of each kind (its largest process) at QUARTERS of the time that it was there."""
        found: dict[str, list[int]] = {}
        for kind in ("flow", "server", "workers"):
            held = [memory[kind] for _, memory in self.memory if memory.get(kind)]
            if held:
                at = [max(0, len(held) * percent // 100 - 1) for percent in QUARTERS]
                found[kind] = [round(held[n] / 1e6) for n in at]
                found[f"{kind}_most"] = [round(max(held) / 1e6)]
        return found


def run(source: Path, out: Path, more: Sequence[str]) -> dict[str, object]:
    """One run of the command, watched."""
    sets = [word for each in (*SETTINGS, *more) for word in ("--set", each)]
    command = [sys.executable, "-m", "uttermill.flows.cli", "run", "--json"]
    command += ["--source", str(source), "--out", str(out), *sets]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=said, stderr=told)
        watched = Watched(process.pid)
        while process.poll() is None:
            watched.look()
            time.sleep(POLL_S)
        wall = time.monotonic() - began
        for stream in (said, told):
            stream.seek(0)
        if process.returncode:
            raise SystemExit(f"exit {process.returncode}: {told.read()[-2000:].decode()}")
        result = json.loads(said.read().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_seconds": round(wall, 1),
        "cpu_seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1
        ),
        "cpu_by_kind": {kind: round(seconds, 1) for kind, seconds in watched.cpu().items()},
        "memory_mb": watched.quarters(),
        "packaged": result["utterances"]["packaged"],
        "shards_run": {stage: counts["shards_run"] for stage, counts in result["stages"].items()},
    }


def counted(out: Path) -> dict[str, dict[str, int]]:
    """Files and folders of OUT, by what they are."""
    files: Counter[str] = Counter()
    folders: Counter[str] = Counter()
    for where, _, names in os.walk(out):
        parts = Path(where).relative_to(out).parts
        kind = "/".join(parts[:2] if parts[:1] == ("manifests",) else parts[:1]) or "."
        folders[kind] += 1
        if names:
            files[kind] += len(names)
    told = {"files": dict(files), "folders": dict(folders)}
    return told | {"all": {"files": files.total(), "folders": folders.total()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--history", choices=("auto", "own", "none"), default="own")
    parser.add_argument("--set", action="append", default=[], help="a setting for all runs")
    parser.add_argument("--json", action="store_true", help="one line for each run")
    options = parser.parse_args()
    made = Path(tempfile.mkdtemp(prefix="uttermill-many-"))
    home = options.folder or made
    os.environ["PREFECT_HOME"] = str(made / "prefect")
    more = (f"history={options.history}", *options.set)
    each: list[float] = []
    try:
        for count in options.counts:
            source, out = make(home, count), made / f"out-{count}"
            for name in ("first", "nothing to do"):
                found = run(source, out, more)
                told = {"recordings": count, "run": name, **found}
                if name == "first":
                    each.append(float(str(found["cpu_seconds"])) / count)
                    told |= {"cpu_ms_each": round(1000 * each[-1], 2), "out": counted(out)}
                print(json.dumps(told, indent=None if options.json else 1), flush=True)
            shutil.rmtree(out)
        if len(each) > 1:
            ratio = {"cpu_each_last_over_first": round(each[-1] / each[0], 2)}
            print(json.dumps(ratio), flush=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    main()
