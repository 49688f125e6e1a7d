"""A version of synthetic rows without audio, for the explorer."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from uttermill.tasks.base.schema import LEDGER, UTTERANCES

WORDS = "river stone amber winter island evening journey meadow harbour yellow orchard".split()  # noqa: SIM905
REASONS = ("too_short", "too_long", "silent", "clipped", "wrong_language", "confidence_low")
MEASURES = ("duration", "snr", "silence_fraction", "loudness", "dnsmos_ovrl")
PER_RECORDING = 20


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
