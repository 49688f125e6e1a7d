"""A Kaldi data folder for each split: one long WAV file a group, and segments in it.

kaldi/<split>/wav/000000000.wav    a group's clips one after the other, 16-bit mono
kaldi/<split>/{wav.scp,segments,text,utt2spk,spk2utt,utt2dur,reco2dur,utt2lang}
kaldi/<split>/utt2id               the id that each utterance has in `utterances.parquet`

Lists are sorted as in the C locale; paths in `wav.scp` are relative to the version. `_kaldi_lists`
tells how utterances and speakers are named. Clips without a text are left out of the lists, since
Kaldi has no place for them; its `extract-segments` skips those up to 0.1 s unless told otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import audio
from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.errors import ConfigError
from tasks.formats import Hashes, Piece, _clips, _kaldi_lists, _rows
from tasks.settings import StageSettings

VERSION = 1
COLUMNS = _clips.COLUMNS  # names and texts stand in the lists only
LARGEST = 2**32 - 64  # bytes of samples that a WAV file can hold
PROVES_SAMPLES = True


class Settings(StageSettings):
    """None."""


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError where a group is too long for a WAV file."""
    if 2 * (pc.sum(rows["num_samples"]).as_py() or 0) > LARGEST:
        raise ConfigError(
            "formats.kaldi: the clips of a group do not fit into one WAV file of 4 GiB; lower "
            "package.tar_hours"
        )
    return [f"kaldi/{split}/wav/{number:09d}.wav"]


def _header(rows: Sequence[Row]) -> bytes:
    """All clips of a version have one rate."""
    return audio.wav_header(sum(row["num_samples"] for row in rows), rows[0]["sample_rate"])


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    path = home / piece.path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(_header(rows))
        for row in rows:
            file.write(_clips.parts(pcm(row), row["sample_rate"], "wav")[1])


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    """Header and samples: each row's stand where `segments` says."""
    faults: list[str] = []
    with (home / piece.path).open("rb") as file:
        header = _header(rows)
        if file.read(len(header)) != header:
            faults.append(f"{piece.path} has another header than its rows ask for")
        for row in rows:
            if hashlib.sha256(file.read(2 * row["num_samples"])).hexdigest() != row["sha256"]:
                faults.append(f"{piece.path} holds other samples than its rows name")
                break
        if file.read(1):
            faults.append(f"{piece.path} goes on behind its last clip")
    return faults


SIZED = True  # `finish` asks how long the files of the pieces are


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    parts: dict[str, list[pa.Table]] = {}
    for piece, rows in _rows.stream(pieces, home, _kaldi_lists.READ):
        parts.setdefault(piece.split, []).append(_kaldi_lists.placed(piece, rows))
    tables = {split: pa.concat_tables(found) for split, found in parts.items()}
    taken = _kaldi_lists.first_words(tables.values())
    for split, table in tables.items():
        _kaldi_lists.write(home, split, table, taken)


def listing(home: Path, split: str, head: str) -> list[str]:
    """Lines of `wav.scp`."""
    lines = []
    for scp in sorted(home.glob(f"kaldi/{split}/wav.scp")):
        for line in scp.read_text("ascii").splitlines():
            key, path = line.split(" ", 1)
            lines.append(f"{key} {head}/{path}")
    return lines
