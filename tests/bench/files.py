"""Counts files and folders of an OUT, by kind, and computes those of a large corpus.

    python -m tests.bench.files [--hours 3] [--before] [--json]

Clips of 20 s of noise, in shards of an hour, go through all stages in this process, without a
recogniser: in one run; in runs of one shard each; in a run that commits after every unit and is
killed with -9 repeatedly; and in runs whose limits keep more each time. Each line counts the files
of a shard. From these numbers and from the rules for shards and tars, the files of 27,000 and
100,000 hours are computed. `--before` switches off the joining of files and the larger shards and
tars of large corpora.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import soundfile as sf

from tests.helpers import corpus
from uttermill.tasks import pipeline
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.publish.output_shards import layout
from uttermill.tasks.publish.writing import table_parts
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import compaction
from uttermill.tasks.stages import stage
from uttermill.tasks.stages.listing import balance

RATE, CLIP, HOUR = 16_000, 20, 3600
RECORDING = 30 * 60.0  # s; of the corpora that are only computed
KINDS = ("shard", "filter", "resample", "transcribe", "audio")
PIECES = 16 << 20  # bytes of PCM of a blob, before
NIGHTS = 365


def speech(home: Path, first: int, hours: int) -> None:
    """Clips of noise, some louder than others."""
    home.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).normal(0, 3000, CLIP * RATE).astype(np.int16)
    for number in range(first * HOUR // CLIP, (first + hours) * HOUR // CLIP):
        clip = (noise * (0.1 + 0.1 * (number % 9))).astype(np.int16)
        clip[:8] = np.frombuffer(number.to_bytes(16, "little"), np.int16)
        sf.write(home / f"{number:06d}.wav", clip, RATE)


def job(home: Path, out: Path, **changes: Any) -> Job:
    sources = [{"kind": "folder", "path": str(home), "name": "c"}]
    shard = {"hours": 1.0, "settle_seconds": 0.0}
    return corpus.job(home, out=out, sources=sources, shard=shard, **changes)


def counted(out: Path) -> dict[str, int]:
    """Files of an OUT by kind, and folders."""
    found: Counter[str] = Counter()
    for place, folders, files in os.walk(out):
        kind = place.removeprefix(f"{out}/").split("/")
        found["folders"] += len(folders)
        name = kind[0] if kind[0] != "manifests" or len(kind) < 2 else kind[1]
        found[name] += len(files)
    return dict(found)


def once(home: Path, out: Path) -> None:
    pipeline.run_here(job(home, out))


def in_nights(home: Path, out: Path) -> None:
    """One shard more each night."""
    names = sorted(home.iterdir())
    night = home.with_name("night")
    night.mkdir()
    for low in range(0, len(names), HOUR // CLIP):
        for path in names[low : low + HOUR // CLIP]:
            os.link(path, night / path.name)
        once(night, out)


def killed(home: Path, out: Path, kills: int = 12, seed: int = 0) -> None:
    """Runs that die, each a little later, until one ends."""
    chance = random.Random(seed)
    for _ in range(kills):
        child = os.fork()
        if not child:
            stage.COMMIT_EVERY = 0.05
            once(home, out)
            os._exit(0)
        time.sleep(chance.uniform(0.3, 2.0))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    once(home, out)


def let_in(home: Path, out: Path) -> None:
    """Limits that let more in each time, and a measure that is asked for later."""
    for loudest in (-20, -14, -9):
        limits = {"use": "peak", "max": loudest}
        pipeline.run_here(job(home, out, filter=corpus.filters(limits)))
    pipeline.run_here(job(home, out))


def without(out: Path) -> None:
    """As it was before."""
    stage.COMMIT_BYTES = PIECES
    compaction.compact = lambda *_: False
    compaction.due = lambda *_: False
    balance.MOST_OF_AN_HOUR = layout.MOST_TARS = 1 << 40


def shards_of(hours: float, known: float) -> int:
    """Shards of a run that adds so many hours to so many."""
    lengths = np.full(math.ceil(hours * HOUR / RECORDING), RECORDING)
    names = pa.array([f"{number:08d}" for number in range(len(lengths))])
    return balance.assigned(lengths, names, None, known_seconds=known * HOUR)[1]


def tars_of(hours: float, known: float) -> int:
    settings = PackageSettings()
    each = layout.tar_hours(settings, np.array([(hours + known) * HOUR]))
    return layout.shard_count(hours * HOUR, each, 1 << 40)


def computed(hours: float, nights: int, a_shard: dict[str, float]) -> dict[str, int]:
    """What a corpus has that came in so many nights of equal length."""
    shards = files = 0
    for night in range(nights):
        known = hours * night / nights
        shards += shards_of(hours / nights, known)
        files += tars_of(hours / nights, known)
    checkpoints = round(sum(a_shard[kind] for kind in KINDS) * shards)
    groups = -(-shards // shard_batches.AT_ONCE)
    of_tables = 2 * -(-files // table_parts.tars_of_part(PackageSettings()))
    return {
        "shards": shards,
        "checkpoints": checkpoints,
        "decisions": 7 * groups,
        "tars": files,
        "tables": of_tables,
        "files": checkpoints + 7 * groups + files + 2 * of_tables,
        "folders": 5 * shards + groups,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=3)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="files-"))
    if options.before:
        without(home)
    try:
        speech(home / "in", 0, options.hours)
        found = {}
        for work in (once, in_nights, killed, let_in):
            began = time.process_time()
            work(home / "in", home / work.__name__)
            cpu = time.process_time() - began
            there = counted(home / work.__name__)
            shards = there["shard"]
            found[work.__name__] = {kind: there[kind] / shards for kind in KINDS}
            line = {"run": work.__name__, "shards": shards, "cpu_seconds": round(cpu, 2), **there}
            _say(line, options.json)
            shutil.rmtree(home / work.__name__)
        for hours, nights in ((27_000, 1), (100_000, 1), (100_000, NIGHTS)):
            for name in ("once", "killed"):
                told = {"hours": hours, "nights": nights, "as": name}
                _say({**told, **computed(hours, nights, found[name])}, options.json)
    finally:
        shutil.rmtree(home)


def _say(line: dict[str, Any], as_json: bool) -> None:
    print(json.dumps(line) if as_json else line, flush=True)


if __name__ == "__main__":
    main()
