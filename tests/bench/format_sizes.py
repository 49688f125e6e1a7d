"""Size and CPU of each format by its codec, for one hour of speech.

    UTTERMILL_CORPUS=… python -m tests.bench.format_sizes [--clips N] [--json]

Writes the clips as one output shard in one process, and reads them back as `verify` does. Without a
corpus, the clips are synthetic, and sizes of FLAC are not realistic.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import soundfile as sf

from tests.helpers import corpus, published
from tests.helpers.published import Row
from uttermill.tasks import plugins
from uttermill.tasks.base.arrays import Int16s
from uttermill.tasks.base.schema import UTTERANCES
from uttermill.tasks.formats import Output, OutputShard
from uttermill.tasks.publish.output_shards import format_shards
from uttermill.tasks.settings import Plugin

RATE = 16_000
CODECS = ("wav", "flac", "opus", "mp3")
USES = ("webdataset", "lhotse_shar", "hf_parquet", "mds", "litdata", "lance", "metadata_csv")


def clips(count: int) -> list[Int16s]:
    """Speech of the corpus at 16 kHz, or made."""
    given = os.environ.get("UTTERMILL_CORPUS")
    if given is None:
        made = [corpus.speech(n, 5.0, RATE).reshape(-1) for n in range(count)]
        return [np.round(samples * 30_000).astype(np.int16) for samples in made]
    found: list[Int16s] = []
    for path in sorted((Path(given) / "en").rglob("*.flac")):
        samples, rate = sf.read(path, dtype="int16")
        if rate == RATE and samples.ndim == 1:
            found.append(samples)
        if len(found) == count:
            break
    return found


def rows(samples: list[Int16s]) -> list[Row]:
    return [
        published.row(n, num_samples=len(pcm), sha256=hashlib.sha256(pcm.tobytes()).hexdigest())
        for n, pcm in enumerate(samples)
    ]


def measured(use: str, codec: str, samples: list[Int16s], home: Path) -> dict[str, object]:
    chosen = {"use": use, "audio": codec}
    if use == "metadata_csv":
        chosen["profile"] = "hf_audiofolder"
    module, settings = plugins.FORMATS.resolve(Plugin.model_validate(chosen))
    made = rows(samples)
    numbers = {row["id"]: row["number"] for row in made}
    fields = [*UTTERANCES, *(pa.field(name, pa.float64()) for name in published.MEASURES)]
    table = pa.Table.from_pylist(made, schema=pa.schema(fields))
    files = module.files("train", 0, format_shards.visible(module, table), settings)
    shard = OutputShard(use, "train", 0, 0, len(made), tuple(files))
    given = format_shards.rows_for(module, table)
    out = Output(home, {})
    began = time.process_time()
    module.write(shard, given, lambda row: samples[numbers[row["id"]]], out, settings)
    written = time.process_time()
    assert module.check(shard, given, out, settings) == []
    hours = sum(map(len, samples)) / RATE / 3600
    return {
        "format": use,
        "audio": codec,
        "mb_per_hour": round(sum((home / f).stat().st_size for f in files) / 1e6 / hours, 1),
        "write_cpu_seconds": round((written - began) / hours, 2),
        "check_cpu_seconds": round((time.process_time() - written) / hours, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.format_sizes")
    parser.add_argument("--clips", type=int, default=240)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    samples = clips(args.clips)
    for use in USES:
        for codec in CODECS:
            home = Path(tempfile.mkdtemp(prefix="uttermill-sizes-"))
            try:
                line = measured(use, codec, samples, home)
            finally:
                shutil.rmtree(home)
            print(json.dumps(line) if args.json else "  ".join(map(str, line.values())), flush=True)


if __name__ == "__main__":
    main()
