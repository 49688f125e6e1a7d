"""WebDataset shards: `<key>.json`, `<key>.txt`, `<key>.wav` (or another) of each sample, adjacent.

webdataset/<split>/shard-000000000.tar   plain USTAR; no key has a dot or a slash
webdataset/<split>/data.list             one tar's path a line

With `package.audio: both`, `<key>.enhanced.wav` follows, the enhanced clip. With `tracks`, audio is
stereo, and `channel` of each of the `turns` in `<key>.json` is the track of its speaker, 0 or 1.

With `energon: true`, Megatron-Energon reads the folder without `energon prepare`:

webdataset/<split>/shard-000000000.tar.idx       where each sample begins
webdataset/.nv-meta/{.info.json,split.yaml,dataset.yaml}   a `CrudeWebdataset`, splits as here

Its SQLite index, which only random access by key needs (auxiliary data, `energon mount`), is made
by `energon prepare`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from ..base.schema import AnyRow, ClipRow
from ..settings import Threshold
from ..shard_store import blobs
from ..storage import write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _free, _lists, _tars, _tracks

VERSION = 2
#: Keys of `<key>.json`, in this order, before `seconds`.
FACTS = (
    *("id", "source_id", "dataset", "split", "recording", "start", "end"),
    *("num_samples", "sample_rate", "text", "text_source", "language", "speaker"),
)
MIXED = (
    *(*FACTS, _free.AUDIO_IS, _free.LABELS, _free.TURNS),
    *("sha256", "sha256_enhanced"),
)
COLUMNS = (*MIXED, *_tracks.COLUMNS)
check_weights, rates = _clips.check_weights, _clips.rates
own_channels, needs = _tracks.own_channels, _tracks.needs
HOLDS_ANNOTATIONS = True
SNIPPET = (
    "python",
    """\
import glob
import io

import soundfile
import webdataset

tars = sorted(glob.glob("webdataset/{split}/*.tar"))
for sample in webdataset.WebDataset(tars, shardshuffle=False):
    samples, rate = soundfile.read(io.BytesIO(sample["{audio}"]))
    print(sample["__key__"], len(samples) / rate, sample["txt"].decode())
""",
)


class Settings(_clips.TrackedSettings):
    """How a sample's audio is stored, and for which readers."""

    energon: bool = Threshold(
        False, "Also write what Megatron-Energon reads beside the tars: .nv-meta and indexes."
    )


def columns(settings: Settings) -> tuple[str, ...]:
    return MIXED if settings.tracks == "mix" else COLUMNS


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    tar = f"webdataset/{split}/shard-{number:09d}.tar"
    return [tar, f"{tar}{_tars.INDEX}"] if settings.energon else [tar]


def facts(row: ClipRow, *more: str, tracks: _tracks.Tracks = "mix") -> bytes:
    """`<key>.json` of a row; `start`, `end` (in the recording) and `seconds` in s. `more`: further
    columns."""
    seconds = _clips.duration(row["num_samples"], row["sample_rate"])
    columns: AnyRow = row
    values = {**{name: columns[name] for name in FACTS}, "seconds": seconds}
    values |= _free.audio_is(columns) | _free.labels(columns)
    values |= _free.turns(row, tracks) | _free.published(columns)
    values |= {name: columns[name] for name in more}
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()


def _members(
    tracks: _tracks.Tracks, row: ClipRow, suffix: _clips.Suffix
) -> dict[str, bytes | ClipRow]:
    key = _tars.key(row["id"], *(len(f".enhanced.{suffix}") for _ in blobs.beside(row)))
    return {
        f"{key}.json": facts(row, tracks=tracks),
        f"{key}.txt": row["text"].encode(),
        f"{key}.{suffix}": row,
        **{f"{key}.enhanced.{suffix}": clean for clean in blobs.beside(row)},
    }


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    members = partial(_members, settings.tracks)
    edges = _tars.write(out, shard.path, rows, pcm, members, settings.encoding)
    if settings.energon:
        out.write(shard.files[1], _tars.index(edges))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """The tar, and the index byte for byte."""
    members = partial(_members, settings.tracks)
    faults, edges = _tars.check(out, shard.path, rows, members, settings.encoding)
    if settings.energon:
        faults += _tars.index_faults(out, shard.files[1], _tars.index(edges))
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    if settings.energon:
        _write_energon(shards, home / "webdataset")


listing = partial(_lists.prefixed, "webdataset")


NV_META = ".nv-meta"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def _write_energon(shards: Sequence[OutputShard], folder: Path) -> None:
    """Write what Megatron-Energon reads of a folder of tars; paths in the metadata start from it.

    .nv-meta/.info.json     how many samples each tar has, by its path in the folder
    .nv-meta/split.yaml     the tars of each split, under the split's own name
    .nv-meta/dataset.yaml   samples as dictionaries: a `Cooker` of the task turns them into its own
    """
    counts: dict[str, int] = {}
    splits: dict[str, list[str]] = {}
    for shard in shards:
        name = shard.path.partition("/")[2]
        counts[name] = shard.clips
        splits.setdefault(shard.split, []).append(name)
    home = folder / NV_META
    home.mkdir(exist_ok=True)
    write_atomic(home / ".info.json", _json_line({"shard_counts": counts}))
    write_atomic(
        home / "split.yaml", _json_line({"exclude": [], "split_parts": splits})
    )  # JSON is YAML
    write_atomic(home / "dataset.yaml", CRUDE.encode())


def _json_line(value: object) -> bytes:
    return json.dumps(value, indent=0).encode() + b"\n"
