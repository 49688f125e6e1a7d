"""What each process of a run does, and when: where a core idles.

    UTTERMILL_CORPUS=… python -m tests.bench.timeline [--only hour short] [--svg FOLDER]

Runs `uttermill run` without a recogniser and without Prefect's history on an hour of 240 files and
on 3,000 clips of 4 s, and reads the run's `metrics.parquet`. A lane is a process. Before its first
call a worker starts and imports; the flow's lane has what it does itself. The time of a core that
no call covers is idle, or of the flow: listing, starting, handing out calls.
"""

from __future__ import annotations

import argparse
import html
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.bench import _peer_inputs as inputs
from tests.bench import _peer_measure
from tests.bench.peers import PLAIN

WORKERS = 2
INPUTS = {"hour": inputs.hour(), "short": inputs.short()}
COLOURS = {
    "shard": "#8da0cb",
    "filter": "#66c2a5",
    "resample": "#a6d854",
    "transcribe": "#ffd92f",
    "package": "#fc8d62",
}
OTHER = "#b3b3b3"
LANE, WIDTH, LEFT = 34, 1000, 130  # px


@dataclass(frozen=True, slots=True)
class Bar:
    """A call; times in s since the command began."""

    lane: str
    name: str  # stage and step
    begin: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    wall: float  # s, of the whole command
    cpu: float  # s, of all its processes
    bars: tuple[Bar, ...]

    def lanes(self) -> dict[str, list[Bar]]:
        lanes: dict[str, list[Bar]] = {}
        for bar in sorted(self.bars, key=lambda bar: (bar.lane != "flow", bar.lane, bar.begin)):
            lanes.setdefault(bar.lane, []).append(bar)
        return lanes


def recorded(name: str, home: Path, scratch: Path) -> Timeline:
    """A run on one of INPUTS, which are made once in `home`."""
    source = inputs.made(home, name, INPUTS[name])
    out = scratch / "out"
    settings = ("history=none", *PLAIN)
    command = [sys.executable, "-m", "uttermill.flows.cli", "run"]
    command += ["--source", str(source), "--out", str(out)]
    began = datetime.now(UTC)
    cost = _peer_measure.measured([*command, *(f"--set={s}" for s in settings)])
    [metrics] = out.glob("runs/*/metrics.parquet")
    return Timeline(cost.wall, cost.cpu, tuple(_bars(pq.read_table(metrics).to_pylist(), began)))


def _bars(rows: list[dict[str, Any]], began: datetime) -> list[Bar]:
    return [
        Bar(
            f"worker {row['worker']}" if row["worker"] else "flow",
            f"{row['stage']} {row['step']}",
            (row["started"] - began).total_seconds(),
            row["wall_seconds"],
        )
        for row in rows
        if row["started"] is not None and row["wall_seconds"] is not None
    ]


def covered(bars: list[Bar]) -> float:
    """Seconds in which at least one of the calls runs: the flow's may overlap."""
    total, end = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar.begin):
        total += max(0.0, bar.begin + bar.seconds - max(end, bar.begin))
        end = max(end, bar.begin + bar.seconds)
    return total


def told(name: str, timeline: Timeline) -> list[str]:
    """Sentences: one for the run, one for each lane."""
    wall = timeline.wall
    first = min((bar.begin for bar in timeline.bars if bar.lane != "flow"), default=wall)
    last = max((b.begin + b.seconds for b in timeline.bars if b.lane != "flow"), default=wall)
    lines = [
        f"{name}: {wall:.1f} s, {timeline.cpu:.1f} CPU s; first call on a worker at {first:.1f} s, "
        f"the last ends at {last:.1f} s; two cores are {timeline.cpu / wall / WORKERS:.0%} busy"
    ]
    for lane, bars in timeline.lanes().items():
        busy = covered(bars)
        steps: dict[str, float] = {}
        for bar in bars:
            steps[bar.name] = steps.get(bar.name, 0.0) + bar.seconds
        most = sorted(steps.items(), key=lambda step: -step[1])[:5]
        shares = ", ".join(f"{step} {seconds:.1f}" for step, seconds in most)
        lines.append(f"  {lane}: calls for {busy:.1f} s ({busy / wall:.0%}): {shares}")
    return lines


def picture(name: str, timeline: Timeline) -> str:
    """An SVG: a lane for each process, a bar for each call, coloured by stage."""
    scale = WIDTH / timeline.wall
    lanes = timeline.lanes()
    height = LANE * (len(lanes) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + LEFT + 20}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="8" y="18">{html.escape(name)}: {timeline.wall:.1f} s, '
        f"{timeline.cpu:.1f} CPU s</text>",
    ]
    for place, (stage, colour) in enumerate(COLOURS.items()):
        left = LEFT + 120 * place + 240
        parts.append(f'<rect x="{left}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17}" y="18">{stage}</text>')
    for number, (lane, bars) in enumerate(lanes.items(), 1):
        y = number * LANE
        parts.append(f'<text x="8" y="{y + 16}">{html.escape(lane)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="24" fill="#f2f2f2"/>')
        for bar in bars:
            colour = COLOURS.get(bar.name.split()[0], OTHER)
            x, width = LEFT + bar.begin * scale, max(bar.seconds * scale, 0.5)
            label = html.escape(f"{bar.name}: {bar.begin:.2f} s, {bar.seconds:.2f} s long")
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="24" fill="{colour}" '
                f'stroke="#fff" stroke-width="0.3"><title>{label}</title></rect>'
            )
    y = LANE * (len(lanes) + 1)
    for second in range(0, int(timeline.wall) + 1, max(1, round(timeline.wall / 15))):
        x = LEFT + second * scale
        parts.append(f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{second} s</text>')
    return "".join([*parts, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[*INPUTS], default=[*INPUTS])
    parser.add_argument("--svg", type=Path, help="folder for a picture of each run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for name in args.only:
            timeline = recorded(name, Path(home, "inputs"), Path(home, name))
            print(*told(name, timeline), sep="\n", flush=True)
            if args.svg:
                args.svg.mkdir(parents=True, exist_ok=True)
                (args.svg / f"{name}.svg").write_text(picture(name, timeline))


if __name__ == "__main__":
    main()
