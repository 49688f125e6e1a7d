"""The format `wenet` behind two gates: within a tar, and when the lists are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, Piece, wenet
from tests.plugins import gate

VERSION = wenet.VERSION
COLUMNS = wenet.COLUMNS
Settings = wenet.Settings
files = wenet.files
offsets = wenet.offsets
PROVES_SAMPLES = wenet.PROVES_SAMPLES
check = wenet.check
listing = wenet.listing


def write(
    piece: Piece,
    rows: Sequence[Row],
    pcm: Callable[[Row], Pcm],
    home: Path,
    settings: wenet.Settings,
    hashes: Hashes,
) -> None:
    def waiting(row: Row) -> Pcm:
        gate.wait("package", row["num_samples"] / row["sample_rate"])
        return pcm(row)

    wenet.write(piece, rows, waiting, home, settings, hashes)


def finish(pieces: Sequence[Piece], home: Path, settings: wenet.Settings) -> None:
    wenet.finish(pieces, home, settings)
    gate.wait("publish", 0.0)
