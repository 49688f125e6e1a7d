"""The format `wenet` behind two gates: within a tar, and when the lists are written."""

from collections.abc import Sequence
from pathlib import Path

from tests.plugins import gate
from uttermill.tasks.base.schema import ClipRow
from uttermill.tasks.formats import Output, OutputShard, ReadPcm, Rows, wenet
from uttermill.tasks.shard_store.blobs import Pcm

VERSION = wenet.VERSION
COLUMNS = wenet.COLUMNS
Settings = wenet.Settings
files = wenet.files
offsets = wenet.offsets
check = wenet.check
listing = wenet.listing


def write(
    shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: wenet.Settings
) -> None:
    def waiting(row: ClipRow) -> Pcm:
        gate.wait("package", row["num_samples"] / row["sample_rate"])
        return pcm(row)

    wenet.write(shard, rows, waiting, out, settings)


def finish(shards: Sequence[OutputShard], home: Path, settings: wenet.Settings) -> None:
    wenet.finish(shards, home, settings)
    gate.wait("publish", 0.0)
