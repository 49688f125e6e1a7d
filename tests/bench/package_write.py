"""Writes one hour of clips into WeNet tars and reads them back, compared with a bare copy.

    python -m tests.bench.package_write [ROUNDS]

The bare copy puts the same bytes into the same tars with Python's `tarfile`: no hash, no header of
ours. It reads them from ready-made WAV files, one a clip, as WeNet's shard maker does; then, leaner
than any corpus lies on a disk, from one file that holds all of them ("in one file"). Ours is what a
worker does in the package stage: `shards.write` reads each clip from its blob, makes the WAV and
the tar, and hashes it; `shards.check` reopens the tar, decodes everything, compares texts and
hashes with the rows. One process with the environment of a worker, turn by turn; what a turn wrote
is removed after it, so that all write into pages that were used before: a virtual machine's first
touch of a page takes longer than all the rest. The medians are compared, by wall clock and by CPU.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.helpers.published import laid_out
from uttermill.flows.cluster.dask_config import DASK_CONFIG
from uttermill.tasks import audio
from uttermill.tasks.publish.outcomes import shard_outcomes
from uttermill.tasks.publish.output_shards import layout, plan
from uttermill.tasks.publish.writing import shards
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import blobs

RATE = 16000
SECONDS = 5.0  # of a clip, about
CLIPS = 720
BLOBS = 60  # as many work shards as an hour has by default


def clips() -> list[np.ndarray]:
    chance = np.random.default_rng(5)
    lengths = (SECONDS * RATE * chance.uniform(0.4, 1.6, CLIPS)).astype(int)
    return [(3000 * chance.standard_normal(n)).astype("<i2") for n in lengths]


def prepare(out: Path) -> tuple[Job, pa.Table, list[layout.ShardClips]]:
    """Blobs, and the rows that point at them."""
    job = Job(out=out)
    rows = []
    for number, pcm in enumerate(clips()):
        shard = f"s{number % BLOBS:04d}"
        blob = blobs.folder(out, shard) / "all.pcm"
        blob.parent.mkdir(parents=True, exist_ok=True)
        with blob.open("ab") as file:
            offset = file.tell()
            file.write(pcm.tobytes())
        rows.append(
            {
                "id": f"bench-clip-{number:05d}-0123456789abcdef-00000000-00005000",
                "text": f"the text of the clip with the number {number}", "dataset": "bench",
                "split": "train", "num_samples": len(pcm), "sample_rate": RATE,
                "sha256": hashlib.sha256(pcm.tobytes()).hexdigest(),
                "work_shard": shard, "blob": "all.pcm", "blob_offset": offset,
            }
        )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=shard_outcomes.row_schema(job))
    return job, table, laid_out(table, job.package, 1)


def ready_made(
    out: Path, table: pa.Table, groups: list[layout.ShardClips], home: Path
) -> list[Files]:
    """WAV files in the order of the tars, each by itself and in one file; name, text, place in that
    and size of each."""
    tars = []
    home.mkdir()
    with (home / "all").open("wb") as file:
        for group in groups:
            files = []
            for row in table.take(group.rows).to_pylist():
                pcm = blobs.read(out, row["work_shard"], row | {"offset": row["blob_offset"]})
                at = file.tell()
                wav = audio.write_wav_bytes(pcm, RATE)
                size = file.write(wav)
                (home / f"{row['id']}.wav").write_bytes(wav)
                files.append((row["id"], row["text"].encode(), at, size))
            tars.append(files)
    return tars


Files = list[tuple[str, bytes, int, int]]


def bare(source: Path, tars: list[Files], home: Path, single: bool) -> None:
    home.mkdir()
    with (source / "all").open("rb") as file:
        for number, files in enumerate(tars):
            with tarfile.open(home / f"{number}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
                for key, text, at, size in files:
                    if single:
                        file.seek(at)
                        wav = file.read(size)
                    else:
                        with (source / f"{key}.wav").open("rb") as own:
                            wav = own.read()
                    for suffix, data in (("txt", text), ("wav", wav)):
                        info = tarfile.TarInfo(f"{key}.{suffix}")
                        info.size = len(data)
                        tar.addfile(info, io.BytesIO(data))


def each(work: Callable[..., object], job: Job, staging: Path, count: int) -> None:
    for number in range(count):
        work(job, staging, number)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        job, table, groups = prepare(home / "out")
        tars = ready_made(job.out, table, groups, home / "ready")
        size = (home / "ready/all").stat().st_size
        for number in range(rounds):
            staging = home / f"staging{number}"
            staging.mkdir()
            ordered = table.take(np.concatenate([group.rows for group in groups]))
            plan.write(job, staging, [group.planned() for group in groups], ordered, {})
            copied = home / f"bare{number}"
            for name in ("bare", "single"):
                single = name == "single"
                found[name].append(timed(partial(bare, home / "ready", tars, copied, single)))
                shutil.rmtree(copied)
            for name, work in (("write", shards.write), ("check", shards.check)):
                found[name].append(timed(partial(each, work, job, staging, len(groups))))
            shutil.rmtree(staging)
    print(f"{CLIPS} clips, {sum(table['num_samples'].to_pylist()) / RATE / 3600:.2f} h, "
          f"{size / 1e6:.0f} MB, {len(groups)} tars, {rounds} rounds")  # fmt: skip
    wall, cpu = (
        {name: statistics.median(pair[kind] for pair in pairs) for name, pairs in found.items()}
        for kind in (0, 1)
    )
    for kind, medians in (("wall", wall), ("CPU", cpu)):
        print(
            f"{kind}: bare copy {medians['bare']:.3f} s (in one file {medians['single']:.3f} s), "
            f"write {medians['write']:.3f} s ({medians['write'] / medians['bare']:.2f} x; "
            f"{medians['write'] / medians['single']:.2f} x), verify {medians['check']:.3f} s "
            f"({medians['check'] / medians['write']:.2f} x the write)"
        )


def as_a_worker() -> None:
    """Start anew with a worker's environment: glibc reads its part of it once, at the start."""
    environment = DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    if any(os.environ.get(name) != value for name, value in environment.items()):
        command = [sys.executable, "-m", "tests.bench.package_write", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **environment})


if __name__ == "__main__":
    as_a_worker()
    main()
