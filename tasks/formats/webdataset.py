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

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from ..base.schema import AnyRow, ClipRow
from ..settings import Threshold
from ..shard_store import blobs
from ..storage import write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _tars

VERSION = 2
#: Keys of `<key>.json`, in this order, before `seconds`.
FACTS = (
    *("id", "source_id", "dataset", "split", "recording", "start", "end"),
    *("num_samples", "sample_rate", "text", "text_source", "language", "speaker"),
)
MIXED = (*FACTS, "audio_is", "labels", "turns", "sha256", "sha256_enhanced")
COLUMNS = (*MIXED, *_clips.TRACK_COLUMNS)
check_weights, rates = _clips.check_weights, _clips.rates
own_channels, needs = _clips.own_channels, _clips.needs
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
    energon: bool = Threshold(
        False, "Also write what Megatron-Energon reads beside the tars: .nv-meta and indexes."
    )


def columns(settings: Settings) -> tuple[str, ...]:
    return MIXED if settings.tracks == "mix" else COLUMNS


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    tar = f"webdataset/{split}/shard-{number:09d}.tar"
    return [tar, f"{tar}{_tars.INDEX}"] if settings.energon else [tar]


def facts(row: ClipRow, *more: str, tracks: _clips.Tracks = "mix") -> bytes:
    """`<key>.json` of a row; `start`, `end` (in the recording) and `seconds` in s. `more`: further
    columns."""
    seconds = _clips.duration(row["num_samples"], row["sample_rate"])
    columns: AnyRow = row
    values = {**{name: columns[name] for name in FACTS}, "seconds": seconds}
    values |= _clips.audio_is(columns) | _clips.labels(columns)
    if "turns" in row:
        turns = [{**turn, **_clips.labels({**turn})} for turn in _clips.turns(row, tracks)]
        values["turns"] = None if row["turns"] is None else turns
    values |= _clips.published(columns)
    values |= {name: columns[name] for name in more}
    return json.dumps(values, ensure_ascii=False, allow_nan=False).encode()


def _members(
    tracks: _clips.Tracks, row: ClipRow, suffix: _clips.Suffix
) -> dict[str, bytes | ClipRow]:
    clean = blobs.beside(row)
    key = _tars.key(row["id"], *(len(f".enhanced.{suffix}") for _ in clean))
    texts = {f"{key}.json": facts(row, tracks=tracks), f"{key}.txt": row["text"].encode()}
    return {**texts, f"{key}.{suffix}": row, **{f"{key}.enhanced.{suffix}": one for one in clean}}


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    members = partial(_members, settings.tracks)
    edges = _tars.write(out, shard.path, rows, pcm, members, settings.encoding)
    if settings.energon:
        out.write(shard.files[1], _tars.index(edges))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
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


def _write_energon(shards: Sequence[OutputShard], folder: Path) -> None:
    """Write what Megatron-Energon reads of a folder of tars: how many samples each has, by its path
    in the folder; the tars of each split, under the split's own name; and that samples are
    dictionaries: a `Cooker` of the task turns them into its own."""
    counts: dict[str, int] = {}
    splits: dict[str, list[str]] = {}
    for shard in shards:
        name = shard.path.partition("/")[2]
        counts[name] = shard.clips
        splits.setdefault(shard.split, []).append(name)
    files = {
        ".info.json": json.dumps({"shard_counts": counts}, indent=0),
        "split.yaml": json.dumps({"exclude": [], "split_parts": splits}, indent=0),  # JSON is YAML
        "dataset.yaml": "__module__: megatron.energon\n__class__: CrudeWebdataset",
    }
    (folder / ".nv-meta").mkdir(exist_ok=True)
    for name, text in files.items():
        write_atomic(folder / ".nv-meta" / name, f"{text}\n".encode())
