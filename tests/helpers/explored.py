"""The explorer on synthetic rows: the time to load them, and to answer each query of its page.

python -m tests.helpers.explored [N] [--json]      N utterances, 1,000,000 by default

Each query runs once, so that no cached answer counts.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.testclient import TestClient

from uttermill.flows.explore import app
from uttermill.flows.explore.corpus import Corpus
from uttermill.tasks.base.schema import LEDGER, UTTERANCES

WORDS = "river stone amber winter island evening journey meadow harbour yellow orchard".split()  # noqa: SIM905
REASONS = ("too_short", "too_long", "silent", "clipped", "wrong_language", "confidence_low")
MEASURES = ("duration", "snr", "silence_fraction", "loudness", "dnsmos_ovrl")
PER_RECORDING = 20
TOKEN = "bench"
TRIED = [
    {"column": "snr", "side": "min", "value": 12},
    {"column": "duration", "side": "max", "value": 14},
]
#: Each question of the page, by what a person does; on N rows.
QUESTIONS = {
    "the first page": "rows?limit=100",
    "the middle page": "rows?limit=100&offset={middle}",
    "sorted by a measure": "rows?limit=100&sort=-snr",
    "sorted by a text": "rows?limit=100&sort=text",
    "the last page, sorted": "rows?limit=100&sort=-snr&offset={last}",
    "a word": "rows?limit=100&q=harbour+yellow",
    "a word, sorted": "rows?limit=100&q=orchard+orchard&sort=-duration",
    "a word that is nowhere": "rows?limit=100&q=zebra",
    "a regular expression": "rows?limit=100&q=amber.*stone%24&regex=1",
    "one id": "rows?limit=100&q=d-r0000077-",
    "one speaker": "rows?limit=100&in.speaker=s77",
    "a reason and a range": "rows?limit=100&in.reason=silent&min.snr=10&sort=snr",
    "recordings": "recordings?limit=100",
    "recordings, least kept first": "recordings?limit=100&sort=kept",
    "recordings by reasons": "recordings?limit=100&sort=reasons",
    "a histogram": "histogram?column=snr",
    "a histogram of a filter": "histogram?column=duration&min.snr=15",
    "a scatter": "scatter?x=snr&y=duration",
    "two limits": "kept?limits=" + quote(json.dumps(TRIED)),
    "hours by speaker": "table?what=speaker",
    "hours by recording": "table?what=recording",
    "one clip": "clip/{middle}",
    "one recording": "timeline?recording=d/r0000077.wav",
    "the vocabulary": "table?what=words",
    "the vocabulary of a filter": "table?what=words&min.snr=10",
    "characters, rare first": "table?what=characters&rare=1",
    "characters of a filter": "table?what=characters&min.snr=12",
    "the middle page, by a text": "rows?limit=100&sort=text&offset={middle}",
    "the middle page of a filter, by a text": "rows?limit=100&sort=-text&offset=300000&min.snr=14",
}


def make(out: Path, count: int) -> None:
    """An OUT with one version of `count` utterances, a tenth of them dropped; no audio."""
    version = out / "datasets" / "v0001"
    version.mkdir(parents=True)
    draw = np.random.default_rng(0)
    whole = range(0, count, 100_000)
    with (
        pq.ParquetWriter(version / "ledger.parquet", LEDGER, compression="zstd") as ledger,
        pq.ParquetWriter(version / "utterances.parquet", _schema(), compression="zstd") as kept,
    ):
        for low in whole:
            rows, more = _rows(draw, low, min(low + 100_000, count))
            ledger.write_table(rows)
            kept.write_table(more)
    facts = {
        "version": 1, "utterances": {"packaged": count}, "seconds": {"packaged": 1.0, "in": 2.0},
        "settings": {}, "files": {}, "sealed": "",
    }  # fmt: skip
    (version / "dataset.json").write_text(json.dumps(facts))


def _schema() -> pa.Schema:
    return pa.schema([*UTTERANCES, *((name, pa.float64()) for name in MEASURES)])


def _rows(draw: np.random.Generator, low: int, high: int) -> tuple[pa.Table, pa.Table]:
    number = np.arange(low, high)
    n = len(number)
    recording = number // PER_RECORDING
    start = (number % PER_RECORDING) * 12.0
    seconds = draw.gamma(4.0, 2.0, n).clip(0.2, 30.0).round(3)
    dropped = draw.random(n) < 0.1
    words = draw.integers(0, len(WORDS), (n, 10))
    texts = [" ".join(WORDS[at] for at in row) for row in words]
    names = [f"d/r{at:07d}.wav" for at in recording]
    ids = [f"d-r{r:07d}-{i:016x}" for r, i in zip(recording, number, strict=True)]
    reasons = draw.choice(REASONS, n)
    common = {
        "recording": names, "source_path": [f"/data/{name}" for name in names],
        "dataset": ["d"] * n, "start": start, "end": start + seconds, "language": ["en"] * n,
    }  # fmt: skip
    ledger = {
        **common, "utterance": ids, "samples": (seconds * 16000).astype(np.int64),
        "seconds": seconds, "overlap_samples": np.zeros(n, np.int64),
        "sample_rate": np.full(n, 16000), "value": seconds, "threshold": np.full(n, 0.5),
        "outcome": np.where(dropped, "dropped", "packaged"),
        "stage": np.where(dropped, "filter", "package"),
        "reason": np.where(dropped, reasons, "packaged"), "detail": [None] * n,
        "channel": [None] * n, "track": [None] * n,
    }  # fmt: skip
    utterances = {
        **common, "id": ids, "split": ["train"] * n, "text": texts, "normalised": texts,
        "hypothesis": texts, "text_source": ["asr"] * n, "num_samples": ledger["samples"],
        "sample_rate": np.full(n, 16000, np.int32), "avg_logprob": draw.normal(-0.3, 0.1, n),
        "speaker": [f"s{at % 5000}" for at in recording], "words": np.full(n, 10),
        "word_errors": draw.integers(0, 4, n), **{m: draw.normal(20, 6, n) for m in MEASURES},
    }  # fmt: skip
    kept = [
        pa.array(utterances[f.name], f.type) if f.name in utterances else pa.nulls(n, f.type)
        for f in _schema()
    ]
    rows = pa.table([pa.array(ledger[f.name], f.type) for f in LEDGER], schema=LEDGER)
    return rows, pa.table(kept, schema=_schema()).filter(pa.array(~dropped))


def ask(client: TestClient, path: str, count: int) -> dict[str, float]:
    """Milliseconds of a first asking, by the clock and of CPU."""
    wanted = path.format(last=count - 150, middle=count // 2)
    began, worked = time.perf_counter(), time.process_time()
    answer = client.get(f"/api/{wanted}")
    took = {"ms": time.perf_counter() - began, "cpu_ms": time.process_time() - worked}
    assert answer.status_code == 200, answer.text
    return {name: round(1000 * seconds, 1) for name, seconds in took.items()}


def steps(count: int) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make(home / "out", count)
        (home / "home").mkdir()
        corpus = Corpus(home / "out", home / "home")
        began, worked = time.perf_counter(), time.process_time()
        items = corpus.items()
        took, cpu = time.perf_counter() - began, time.process_time() - worked
        yield {"step": "reading the version", "ms": round(1000 * took), "cpu_ms": round(1000 * cpu)}
        explorer = app.Explorer(corpus, None, TOKEN, home / "home")
        base = f"http://127.0.0.1:8800/{TOKEN}"
        client = TestClient(app.make(explorer), base_url=base)
        yield {"step": "at once: the first page", **ask(client, "rows?limit=100", count)}
        yield {"step": "at once: by a text", **ask(client, "rows?limit=100&sort=text", count)}
        for name, path in QUESTIONS.items():
            yield {"step": name, **ask(client, path, count)}
        for what, page in {"first page": "0", "middle page": "{middle}"}.items():
            sorts = [f"{way}{name}" for name in items.columns for way in ("", "-")]
            asked = [f"rows?limit=100&sort={sort}&offset={page}" for sort in sorts]
            took_all = [ask(client, path, count) for path in asked]
            yield {"step": f"{len(sorts)} sorts by every column, {what}: median", **half(took_all)}
            worst = max(zip(took_all, sorts, strict=True), key=lambda each: each[0]["ms"])
            yield {"step": f"the same: the worst, {worst[1]}", **worst[0]}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = sum(each.stat().st_size for each in (home / "home").iterdir()) / 2**20
        yield {"step": "memory and disk", "rss_mb": round(peak), "disk_mb": round(size)}
        corpus.close()


def half(took: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.median([each[name] for each in took])) for name in took[0]}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("count", nargs="?", type=int, default=1_000_000)
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    for step in steps(chosen.count):
        if chosen.json:
            print(json.dumps({"utterances": chosen.count, **step}), flush=True)
        else:
            print("  ".join(str(value) for value in step.values()), flush=True)


if __name__ == "__main__":
    main()
