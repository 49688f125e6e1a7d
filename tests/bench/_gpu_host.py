"""The host's CPU seconds for each part of the line, and the cores needed to keep a GPU busy."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench import _stub_engine
from uttermill.tasks import pipeline
from uttermill.tasks.audio import open_stream
from uttermill.tasks.recording import Locator
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.settings import (
    FilterSettings,
    PackageSettings,
    Plugin,
    ShardSettings,
    Source,
    TranscribeSettings,
)
from uttermill.tasks.settings.job import Done, Job
from uttermill.tasks.speech import silero

SPEEDS = (150, 500, 1000)  # x real time
CHEAP = (Plugin(use="duration"), Plugin(use="silence"), Plugin(use="clipping"))
IN_INTEGERS = "DNSMOS, precision: int8"  # in place of DNSMOS, not with it
STUB = {"use": "tests.bench._stub_engine", "speed": 1e6, "gpu": False}


class Timed(Executor):
    """CPU seconds of this process by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        began = time.process_time()
        done = super().stage(name, job, shard, seconds)
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - began
        return done


def _line(source: Path, out: Path, filters: tuple[Plugin, ...]) -> tuple[dict[str, float], float]:
    """CPU seconds by stage of the whole line in this process, and all of them."""
    job = Job(
        out=out,
        sources=(Source.model_validate({"kind": "folder", "path": str(source)}),),
        shard=ShardSettings(settle_seconds=0),
        filter=FilterSettings(segmenter=Plugin(use="vad"), filters=filters),
        transcribe=TranscribeSettings(backend=Plugin.model_validate(STUB), verdicts=()),
        package=PackageSettings(),
    )
    caller = Timed()
    began = time.process_time()
    pipeline.run(job, caller, Observer())
    return caller.spent, time.process_time() - began


def parts(source: Path, audio: float) -> dict[str, float]:
    """CPU seconds for a second of audio, by part, in one process with one thread. `audio`: length
    of the recordings in `source`, s."""
    files = sorted(source.iterdir())
    decode = detect = 0.0
    for path in files:
        began = time.process_time()
        with open_stream(Locator(str(path))) as stream:
            blocks = list(stream.blocks())
            rate = stream.rate
        decode += time.process_time() - began
        model = silero.Probabilities(rate)
        began = time.process_time()
        for block in blocks:
            model.push(block)
        model.finish()
        detect += time.process_time() - began
    with tempfile.TemporaryDirectory() as name:
        _line(source, Path(name) / "warm", CHEAP)  # models are loaded, functions compiled
        _stub_engine.MEL[0] = 0.0
        plain, whole = _line(source, Path(name) / "plain", CHEAP)
        mel = _stub_engine.MEL[0]
        judged = {
            kind: _line(source, Path(name) / kind, (*CHEAP, _dnsmos(kind)))[0]["filter"]
            for kind in ("float32", "int8")
        }
    filtering = plain["filter"]
    found = {
        "decode": decode,
        "voice detector": detect,
        "filter: cuts, measures, checkpoints": filtering - decode - detect,
        "DNSMOS": judged["float32"] - filtering,
        IN_INTEGERS: judged["int8"] - filtering,
        "resample": plain["resample"],
        "mel": mel,
        "transcribe: clips, speech in them, checkpoints": plain["transcribe"] - mel,
        "shard and package": whole - sum(plain.values()),
    }
    return {part: seconds / audio for part, seconds in found.items()}


def _dnsmos(precision: str) -> Plugin:
    return Plugin.model_validate({"use": "dnsmos", "precision": precision})


def total(costs: Mapping[str, float]) -> float:
    """The sum for the default line, with DNSMOS in float32."""
    return sum(cost for part, cost in costs.items() if part != IN_INTEGERS)


def table(costs: Mapping[str, float]) -> str:
    """A row for each part: CPU seconds an hour, x real time of a core, cores for each of
    `SPEEDS`."""
    head = "| part | CPU s an hour | x real time a core | " + " | ".join(
        f"cores at {speed} x" for speed in SPEEDS
    )
    lines = [head + " |", "|---" * (3 + len(SPEEDS)) + "|"]
    rows = [*costs.items(), ("all", total(costs))]
    if "DNSMOS" in costs:
        without = total(costs) - costs["DNSMOS"]
        rows += [("all with DNSMOS in int8", without + costs[IN_INTEGERS])]
        rows += [("all without DNSMOS", without)]
    for part, cost in rows:
        cores = " | ".join(f"{cost * speed:.1f}" for speed in SPEEDS)
        real = f"{1 / cost:,.0f}" if cost > 1e-6 else "-"
        lines.append(f"| {part} | {3600 * cost:.1f} | {real} | {cores} |")
    return "\n".join(lines)
