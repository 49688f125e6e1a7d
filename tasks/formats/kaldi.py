"""A Kaldi data folder for each split: one long WAV file an output shard, and segments in it.

kaldi/<split>/wav/000000000.wav    an output shard's clips, joined, 16-bit mono
kaldi/<split>/{wav.scp,segments,text,utt2spk,spk2utt,utt2dur,reco2dur,utt2lang}
kaldi/<split>/utt2id               the id that each utterance has in `utterances.parquet`

Lists are sorted as in the C locale; paths in `wav.scp` are relative to the version. `_kaldi_lists`
tells how utterances and speakers are named. Clips without a text are left out of the lists, since
Kaldi has no place for them; its `extract-segments` skips those up to 0.1 s unless told otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import audio
from tasks.base.errors import ConfigError
from tasks.formats import Output, OutputShard, ReadPcm, Rows, _clips, _kaldi_lists, _lists
from tasks.settings import StageSettings

VERSION = 1
COLUMNS = _clips.COLUMNS  # names and texts are in the lists only
LARGEST = 2**32 - 64  # bytes of samples that a WAV file can hold
PROVES_SAMPLES = True
SIZED = True  # `finish` needs the length of each WAV file
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError if an output shard does not fit into a WAV file."""
    if 2 * (pc.sum(rows["num_samples"]).as_py() or 0) > LARGEST:
        raise ConfigError(
            "formats.kaldi: the clips of an output shard exceed the 4 GiB of one WAV file; lower "
            "package.tar_hours"
        )
    return [f"kaldi/{split}/wav/{number:09d}.wav"]


def _header(rows: Rows) -> bytes:
    """One for all clips, which have the same rate throughout a version."""
    return audio.wav_header(sum(row["num_samples"] for row in rows), rows[0]["sample_rate"])


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    with out.create(shard.path) as file:
        file.write(_header(rows))
        for row in rows:
            file.write(_clips.samples(pcm(row)))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """The header, and every row's samples where `segments` places them."""
    faults: list[str] = []
    with (out.home / shard.path).open("rb") as file:
        header = _header(rows)
        if file.read(len(header)) != header:
            faults.append(f"{shard.path} has a header that differs from its rows")
        for row in rows:
            if hashlib.sha256(file.read(2 * row["num_samples"])).hexdigest() != row["sha256"]:
                faults.append(f"{shard.path} holds samples that differ from its rows")
                break
        if file.read(1):
            faults.append(f"{shard.path} has bytes after its last clip")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    segments: dict[str, list[pa.Table]] = {}
    for shard, rows in _lists.stream(shards, home, _kaldi_lists.READ):
        segments.setdefault(shard.split, []).append(_kaldi_lists.segments_of(shard, rows))
    tables = {split: pa.concat_tables(parts) for split, parts in segments.items()}
    reserved = _kaldi_lists.reserved(tables.values())
    for split, table in tables.items():
        _kaldi_lists.write(home, split, table, reserved)


def listing(home: Path, split: str, head: str) -> list[str]:
    """Lines of `wav.scp`."""
    lines = []
    for scp in sorted(home.glob(f"kaldi/{split}/wav.scp")):
        for line in scp.read_text("ascii").splitlines():
            key, path = line.split(" ", 1)
            lines.append(f"{key} {_lists.under(head, path)}")
    return lines
