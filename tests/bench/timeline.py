"""What each process of a run does, and when: where a core idles.

    UTTERMILL_CORPUS=… python -m tests.bench.timeline [FOLDER] [--only hour short]

Runs `uttermill run` without a recogniser and without Prefect's history on the inputs of
`tests.bench.peers`: an hour of 240 files, and 3,000 clips of 4 s. A lane is a process: its calls,
from the run's `metrics.parquet`, and the CPU that it takes, sampled every 0.1 s. What others take
of the machine meanwhile is printed: above a tenth, judge by CPU alone.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from tests.bench import _peer_inputs as inputs
from tests.bench.peers import PLAIN

INPUTS = {"hour": inputs.hour(), "short": inputs.short()}
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Bar:
    """A call, or a process before its first one; s since the command began."""

    name: str  # stage and step
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    bars: list[Bar]
    cpu: list[tuple[float, float]]  # s since the command began, CPU s until then


@dataclass(frozen=True, slots=True)
class Timeline:
    wall: float  # s
    others: float  # CPU s that other processes of the machine took
    lanes: list[Lane]


def recorded(source: Path, out: Path) -> Timeline:
    command = [sys.executable, "-m", "uttermill.flows.cli", "run", "--source", str(source)]
    command += ["--out", str(out), *(f"--set={s}" for s in ("history=none", *PLAIN))]
    before, began, cpu = _busy(), time.time(), dict[int, list[tuple[float, float]]]()
    with (out.parent / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while process.poll() is None:
            with suppress(psutil.Error):
                root = psutil.Process(process.pid)
                for one in (root, *root.children(recursive=True)):
                    if one.pid not in cpu:
                        cpu[one.pid] = [(one.create_time() - began, 0.0)]
                    cpu[one.pid].append((time.time() - began, sum(one.cpu_times()[:2])))
            time.sleep(POLL_S)
    if process.returncode:
        raise SystemExit((out.parent / "log").read_text())
    wall = time.time() - began
    rows = pq.read_table(next(out.glob("runs/*/metrics.parquet"))).to_pylist()
    names = {row["pid"]: row["worker"] for row in rows if row["worker"]} | {process.pid: "flow"}
    bars: dict[int, list[Bar]] = {pid: [] for pid in names}
    for row in rows:
        if row["started"] is not None and row["wall_seconds"] is not None:
            begin = row["started"].timestamp() - began
            bar = Bar(f"{row['stage']} {row['step']}", begin, begin + row["wall_seconds"])
            bars[row["pid"]].append(bar)
    for pid, own in bars.items():
        own.sort(key=lambda bar: bar.begin)
        if pid != process.pid:
            own.insert(0, Bar("start", cpu[pid][0][0], own[0].begin))
    lanes = [Lane(names[pid], bars[pid], cpu[pid]) for pid in sorted(names, key=names.__getitem__)]
    own_cpu = sum(samples[-1][1] for samples in cpu.values())
    return Timeline(wall, _busy() - before - own_cpu, lanes[-1:] + lanes[:-1])  # the flow first


def _busy() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice + getattr(times, "steal", 0.0))


def told(name: str, timeline: Timeline) -> list[str]:
    """Sentences: one for the run, one for each lane."""
    wall, cores = timeline.wall, psutil.cpu_count() or 1
    calls = [bar for lane in timeline.lanes for bar in lane.bars if bar.name != "start"]
    first = min(bar.begin for bar in calls if bar.name == "filter run")
    cpu = sum(lane.cpu[-1][1] for lane in timeline.lanes)
    lines = [
        f"{name}: {wall:.1f} s, {cpu:.1f} CPU s, others {timeline.others / (wall * cores):.0%} of "
        f"the machine; first call ends at {min(bar.end for bar in calls):.1f} s, first filter "
        f"begins at {first:.1f} s, the last call ends at {max(bar.end for bar in calls):.1f} s"
    ]
    for lane in timeline.lanes:
        steps: dict[str, float] = defaultdict(float)
        for bar in lane.bars:
            steps[bar.name] += bar.end - bar.begin
        lines.append(
            f"  {lane.name}: from {lane.cpu[0][0]:.1f} s, {lane.cpu[-1][1]:.1f} CPU s, in calls "
            f"{sum(steps.values()):.1f} s: {', '.join(f'{k} {v:.1f}' for k, v in steps.items())}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", default=f"{tempfile.gettempdir()}/uttermill-peers")
    parser.add_argument("--only", nargs="+", choices=[*INPUTS], default=[*INPUTS])
    args = parser.parse_args()
    for name in args.only:
        source = inputs.made(Path(args.folder), name, INPUTS[name])
        with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
            timeline = recorded(source, Path(scratch, "out"))
        print(*told(name, timeline), sep="\n", flush=True)


if __name__ == "__main__":
    main()
