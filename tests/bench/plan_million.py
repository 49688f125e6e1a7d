"""Weights and splits of many clips in one process: CPU seconds and largest memory.

python -m tests.bench.plan_million [CLIPS]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.bench._measured import MIB, forget_peak
from tests.bench.scale import in_process
from uttermill.tasks.publish.choosing import split_input, splits
from uttermill.tasks.settings import PackageSettings
from uttermill.tasks.storage import tables

AT_ONCE = 4800  # clips of a group
COPIED = 10_000  # digests that one clip in a thousand has
SETTINGS = PackageSettings.model_validate(
    {
        "splits": {"dev": 0.02, "test": {"hours": 20}}, "weights": {"b": 0.9}, "readers": 16,
        "tar_hours": 0.25,
    }
)  # fmt: skip


def parts(rows: int) -> Iterator[pa.Table]:
    """Half of the clips have one of some thousand speakers; recordings have about five clips."""
    for low in range(0, rows, AT_ONCE):
        yield part(low, min(AT_ONCE, rows - low))


def part(low: int, count: int) -> pa.Table:
    """The clips `low` to `low + count`."""
    chance = np.random.default_rng(low)
    recording = low // 5 + np.sort(chance.integers(0, count // 5 + 1, count))
    who = recording * 2654435761 % 2**32 / 2**32
    who = (5000 * who**4).astype(np.int64)
    dataset = np.where(recording % 3 == 0, "a", "b").tolist()
    digest = chance.integers(0, 2**63, count)
    digest[: count // 1000] = chance.integers(0, COPIED, count // 1000)
    names = list(zip(range(low, low + count), dataset, recording.tolist(), strict=True))
    speaker = [
        f"s{w}" if r % 2 and r % 97 else None
        for w, (_, _, r) in zip(who.tolist(), names, strict=True)
    ]
    return pa.table(
        {
            "id": [f"{d}-recording-{r:016x}-{n:08d}" for n, d, r in names],
            "dataset": dataset,
            "recording": [f"{d}/folder/r{r:07d}.wav" for _, d, r in names],
            "source_id": pa.nulls(count, pa.string()),
            "speaker": pa.array(speaker, pa.string()),
            "sha256": [f"{d:064x}" for d in digest.tolist()],
            "num_samples": pa.array(chance.integers(8000, 480_000, count)),
            "sample_rate": pa.array(np.full(count, 16000, np.int32)),
        }
    )


def added(clips: split_input.Candidates, rows: int) -> float:
    """As `choosing.choose` adds what lies in files; what making the rows costs is not counted."""
    cpu = 0.0
    for part in parts(rows):
        began = time.process_time()
        clips.add(part, np.zeros(len(part), bool))
        cpu += time.process_time() - began
    began = time.process_time()
    clips.finish()
    return cpu + time.process_time() - began


def assigned(clips: int, path: Path, known: bool) -> tuple[float, float, dict[str, int]]:
    """CPU seconds to read the rows, and to assign them: all new, or all as `path` says."""
    for _ in parts(AT_ONCE):  # what making them imports
        pass
    forget_peak()
    with split_input.Candidates(SETTINGS) as held:
        read = added(held, clips)
        began = time.process_time()
        found = splits.assign(
            SETTINGS,
            held,
            held.order,
            partial(tables.portions, path) if known else splits.published(None),
        )
        if not known:
            tables.write_parquet(path, found.table())
        cpu = time.process_time() - began
    return read, cpu, {name: int((found.split == n).sum()) for n, name in enumerate(found.names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", type=int, nargs="?", default=1_000_000)
    clips = parser.parse_args().clips
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        for known in (False, True):
            told, _, rss = in_process(assigned, clips, Path(folder) / splits.FILE, known)
            print(
                f"{clips:,} clips, {'all known' if known else 'all new'}: read {told[0]:.1f}, "
                f"split {told[1]:.1f} CPU s; {rss / MIB:.0f} MiB; {told[2]}",
                flush=True,
            )
            counts.append(told[2])
    assert counts[0] == counts[1]


if __name__ == "__main__":
    main()
