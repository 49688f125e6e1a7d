"""Speakers across recordings: CPU and memory of linking any number of synthetic voices.

    python -m tests.bench.voices [--voices 200000] [--people 10000] [--json]

A voice is a person's direction (192 numbers in a subspace of 96 dimensions, so that two people have
a cosine of 0 +- 0.1) plus noise (two voices of a person: 0.75). Each voice is a recording; they
come in parts, as from shards. Then a night adds 1 %. Purity: share of each found speaker's main
person; coverage: share of each person's main speaker. CPU time excludes making the voices and
includes writing the table. Memory is the peak of the process; embeddings and rows are in files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from uttermill.tasks.base.schema import SPEAKERS
from uttermill.tasks.corpus import identities
from uttermill.tasks.corpus.identities import VoiceTables
from uttermill.tasks.corpus.voices import BYTES, VOICES
from uttermill.tasks.diarizers import segments
from uttermill.tasks.speech.embedding import SIZE, unit
from uttermill.tasks.storage import tables

PART = 20_000  # voices
SUBSPACE = 96
NOISE = 0.577  # length of a voice's own part beside its person's


class Corpus:
    """Voices of people, the same each time that they are asked for."""

    def __init__(self, voices: int, people: int) -> None:
        rng = np.random.default_rng(0)
        basis = np.linalg.qr(rng.standard_normal((SIZE, SUBSPACE)))[0].T.astype(np.float32)
        self.centres = unit(rng.standard_normal((people, SUBSPACE)).astype(np.float32) @ basis)
        self.voices, self.people = voices, people
        self.making = 0.0  # CPU seconds

    def who(self, part: int, count: int) -> NDArray[np.int64]:
        return np.random.default_rng([1, part]).integers(self.people, size=count)

    def parts(self) -> Iterator[pa.Table]:
        for at in range(0, self.voices, PART):
            began = time.process_time()
            made = self._part(at // PART, min(PART, self.voices - at))
            self.making += time.process_time() - began
            yield made

    def _part(self, part: int, count: int) -> pa.Table:
        rng = np.random.default_rng([2, part])
        noise = rng.standard_normal((count, SIZE)).astype(np.float32)
        vectors = unit(self.centres[self.who(part, count)] + unit(noise) * np.float32(NOISE))
        names = [f"corpus/{part:06d}/{number:06d}.flac" for number in range(count)]
        raw = pa.py_buffer(vectors.astype("<f2").tobytes())
        columns = [
            pa.array(names),
            pa.array(np.ones(count, np.int32)),
            pa.array([f"{part:032x}{number:032x}" for number in range(count)]),
            pa.array(rng.uniform(3, 60, count)),
            pa.Array.from_buffers(pa.binary(BYTES), count, [None, raw]),
        ]
        return pa.Table.from_arrays(columns, schema=VOICES)


class Peak(threading.Thread):
    """The most that the process held, looked at ten times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0.0

    def run(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            now = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
            self.most = max(self.most, now / 1024)
            time.sleep(0.1)


def told(
    name: str, corpus: Corpus, began: float, path: Path, before: float, peak: Peak
) -> dict[str, Any]:
    cpu, most = time.process_time() - began - (corpus.making - before), peak.most
    who = np.concatenate(
        [
            corpus.who(n, min(PART, corpus.voices - n * PART))
            for n in range(-(-corpus.voices // PART))
        ]
    )
    found = tables.read(path, ["speaker"], read_dictionary=["speaker"]).unify_dictionaries()
    own = found["speaker"].combine_chunks().indices.to_numpy()  # sorted as they were made
    pairs, count = np.unique(own * np.int64(corpus.people) + who, return_counts=True)
    purity, coverage = (
        float(sum_of_largest(side, count) / len(who))
        for side in (pairs // corpus.people, pairs % corpus.people)
    )
    return {
        "step": name, "voices": corpus.voices, "people": corpus.people,
        "found": len(np.unique(own)), "purity": purity, "coverage": coverage,
        "cpu_seconds": cpu, "peak_mb": most,
    }  # fmt: skip


def sum_of_largest(side: NDArray[np.int64], count: NDArray[np.int64]) -> int:
    most = np.zeros(int(side.max()) + 1, np.int64)
    np.maximum.at(most, side, count)
    return int(most.sum())


def published(path: Path | None) -> VoiceTables:
    """The parts of a table of the night before."""
    if path is None:
        return list
    return lambda: (pa.Table.from_batches([b]) for b in tables.batches(path, SPEAKERS.names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voices", type=int, default=200_000)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    corpus = Corpus(args.voices, args.people)
    least = segments.Settings().threshold
    peak = Peak()
    peak.start()
    with tempfile.TemporaryDirectory() as folder:
        newest = None
        for name in ("at once", "a night later"):
            began, before = time.process_time(), corpus.making
            path = Path(folder) / f"{name}.parquet"
            found = identities.link(corpus.parts, published(newest), least, "made", refit=False)
            tables.write_parquet(path, found)
            print(json.dumps(told(name, corpus, began, path, before, peak)), flush=True)
            corpus.voices += -(-corpus.voices // 100)
            newest = path


if __name__ == "__main__":
    main()
