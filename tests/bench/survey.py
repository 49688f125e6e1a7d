"""Lists a source and compares it with OUT: CPU seconds and largest memory.

    python -m tests.bench.survey [--recordings 100000] [--texts] [--folder FOLDER]
    python -m tests.bench.survey --table [--recordings 100000] [--rounds 1] [--folder FOLDER]

Empty files in folders of a thousand (listing reads no audio), with `--texts` a text beside each,
and an OUT that knows them all. Each step runs in a process of its own: the first listing, one where
nothing has changed, and that once more, which finds what the former noted. With `--table`
three sources are listed for the first time, each `--rounds` times, in turn: the folder, a TSV that
gives each of its files a text and a speaker, and a folder of as many pairs of a file and a text.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.helpers.memory import peak
from uttermill.tasks import shard
from uttermill.tasks.base.schema import RECORDINGS
from uttermill.tasks.recording import Locator
from uttermill.tasks.settings import ShardSettings, Source
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.stages.listing import fingerprints
from uttermill.tasks.storage.local import stat_guard

EACH = 1000  # files of a folder, and recordings of a shard
KNOWN = ("known", "again")
BESIDE = ("files", "rows", "pairs")  # what `--table` lists


def tree(root: Path, count: int, texts: bool) -> None:
    for folder in range(-(-count // EACH)):
        home = root / f"speaker-{folder:05d}"
        home.mkdir(parents=True)
        for number in range(min(EACH, count - folder * EACH)):
            (home / f"recording-{number:06d}.wav").touch()
            if texts:
                (home / f"recording-{number:06d}.txt").write_text(text_of(number))


def text_of(number: int) -> str:
    return f"This is said in the recording with the number {number}."


def job_of(root: Path, out: Path, table: bool = False) -> Job:
    rows = {"kind": "table", "path": str(root.with_suffix(".tsv")), "root": str(root)}
    kind = rows if table else {"kind": "folder", "path": str(root)}
    source = Source.model_validate({**kind, "name": "c"})
    return Job(out, (source,), shard=ShardSettings(settle_seconds=0))


def remember(root: Path, out: Path) -> None:
    """Commit what a run would know of the tree."""
    for number, home in enumerate(sorted(root.iterdir())):
        rows = [_row(path, f"{home.name}/{path.name}") for path in sorted(home.glob("*.wav"))]
        manifest.commit(out, "shard", f"shard-{number:06d}", rows, RECORDINGS, {})


def write_table(root: Path) -> None:
    """A row for each file."""
    with root.with_suffix(".tsv").open("w") as file:
        file.write("client_id\tpath\tsentence\tlocale\n")
        for home in sorted(root.iterdir()):
            for path in sorted(home.iterdir()):
                said = f"what {path.stem} says in some dozen words, as a sentence is long"
                file.write(f"{home.name}\t{home.name}/{path.name}\t{said}\ten\n")


def _row(path: Path, name: str) -> dict[str, Any]:
    status = path.stat()
    row: dict[str, Any] = dict.fromkeys(RECORDINGS.names) | {
        "recording": f"c/{name}", "dataset": "c", "path": name, "source_path": str(path),
        "locator": Locator(str(path)).dumps(), "present": True,
    }  # fmt: skip
    if path.with_suffix(".txt").exists():
        row["text"] = path.with_suffix(".txt").read_text()
    return row | {
        "size": status.st_size, "guard": stat_guard(status), "listed": fingerprints.listed(row),
        "content": f"{status.st_ino:064x}", "header_rate": 16000, "header_channels": 1,
        "header_seconds": 5.0, "format": "wav/pcm",
    }  # fmt: skip


def step(root: Path, out: Path, name: str) -> dict[str, Any]:
    from uttermill.tasks import pipeline
    from uttermill.tasks.runs.executor import Here

    wall, cpu, before = time.monotonic(), time.process_time(), peak()
    job, listing = job_of(root, out, name == "rows"), out / "manifests" / ".listing"
    if name in KNOWN:  # the whole stage: nothing is to be probed
        stored = out / "manifests" / "shard"
        there = {path: stat_guard(path.stat()) for path in stored.rglob("*.parquet")}
        found = pipeline.run_shard_stage(job, Here(), listing)
        again = {path: stat_guard(path.stat()) for path in stored.rglob("*.parquet")}
        assert again == there != {}, "recordings that `remember` stored count as changed"
        count = found.done.reused
    else:
        count = shard.survey(job, Index(out), listing).fresh.count
    return {
        name: count,
        "wall_seconds": round(time.monotonic() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": round(peak() / 1e6),
        "of_it_imports_mb": round(before / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recordings", type=int, default=100_000)
    parser.add_argument("--texts", action="store_true", help="a text beside each recording")
    parser.add_argument("--folder", type=Path, help="where the files are made")
    parser.add_argument("--table", action="store_true", help="a folder, a table of it, and pairs")
    parser.add_argument("--rounds", type=int, default=1, help="with --table")
    parser.add_argument("--step", choices=("first", *KNOWN, *BESIDE), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        root = options.folder
        out = root.parent / ("out" if options.step in KNOWN else "new")
        print(json.dumps(step(root, out, options.step)), flush=True)
        shutil.rmtree(root.parent / "new", ignore_errors=True)
        return
    home = Path(tempfile.mkdtemp(prefix="uttermill-survey-", dir=options.folder))
    try:
        tree(home / "in", options.recordings, options.texts)
        if options.table:
            write_table(home / "in")
            tree(home / "pairs", options.recordings, texts=True)
        else:
            remember(home / "in", home / "out")
        for name in BESIDE * options.rounds if options.table else ("first", *KNOWN):
            root = home / ("pairs" if name == "pairs" else "in")
            words = ["--step", name, "--folder", str(root)]
            subprocess.run([sys.executable, "-m", "tests.bench.survey", *words], check=True)
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
