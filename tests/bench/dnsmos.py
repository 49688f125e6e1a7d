"""DNSMOS in int8 compared with float32: errors of scores, changed decisions, speed.

    UTTERMILL_CORPUS=… python -m tests.bench.dnsmos [--seconds 20] [--json]

Scores all clips of speech and noise in the corpus of one second or more, and pieces of the long
recordings, of at most `--seconds` each. Speed is CPU time on one thread divided by the audio in the
model's windows: a clip shorter than 9.01 s is repeated first.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.bench import corpus_speech
from tests.bench.corpus_speech import RATE, Floats
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import MillError
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.filters import dnsmos

LIMIT = 3.0  # OVRL: Emilia's
LONG = 200  # s of a long recording
COLUMNS = tuple(dnsmos.COLUMNS)


def clips(corpus: Path, seconds: float) -> Iterator[Floats]:
    most = round(seconds * RATE)
    for row in corpus_speech.listed(corpus):
        if row["kind"] not in ("speech", "nonspeech", "degraded", "long"):
            continue
        try:
            samples = corpus_speech.read(corpus / row["path"])
        except MillError:
            continue
        for at in range(0, min(len(samples), LONG * RATE), most):
            if len(samples) - at >= RATE:
                yield samples[at : at + most]


def scored(chosen: list[Clip], settings: dnsmos.Settings) -> tuple[Floats, float]:
    """Scores [clips, 3], and CPU seconds."""
    dnsmos.measure(chosen[0], settings)
    began = time.process_time()
    found = [dnsmos.measure(clip, settings) for clip in chosen]
    spent = time.process_time() - began
    return np.array([[row[c] or 0.0 for c in COLUMNS] for row in found], np.float32), spent


def measured(corpus: Path, seconds: float) -> JsonObject:
    chosen = [Clip.of(samples, RATE) for samples in clips(corpus, seconds)]
    audio = sum(clip.seconds for clip in chosen)
    exact, plain = scored(chosen, dnsmos.Settings())
    whole, quick = scored(chosen, dnsmos.Settings(precision="int8"))
    result: JsonObject = {
        "clips": len(chosen),
        "seconds": round(audio),
        "x_real_time_float32": round(audio / plain, 1),
        "x_real_time_int8": round(audio / quick, 1),
        "faster": round(plain / quick, 2),
        "verdicts_that_change_percent": round(
            100 * float(((whole[:, -1] < LIMIT) != (exact[:, -1] < LIMIT)).mean()), 2
        ),
        "kept_percent": round(100 * float((exact[:, -1] >= LIMIT).mean()), 1),
    }
    for n, column in enumerate(COLUMNS):
        apart = whole[:, n] - exact[:, n]
        off = np.abs(apart)
        result[column] = {
            "bias": round(float(apart.mean()), 4),
            "mean": round(float(off.mean()), 4),
            "p95": round(float(np.quantile(off, 0.95)), 4),
            "max": round(float(off.max()), 3),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.corpus is None:
        parser.error("give UTTERMILL_CORPUS or --corpus")
    found = measured(Path(args.corpus), args.seconds)
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
