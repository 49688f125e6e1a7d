"""NeMo's tarred audio: tars of `<key>.wav` (or `.flac`), a manifest for each, and one for all.

nemo/<split>/audio_0.tar ...                          tarred_audio_filepaths: audio__OP_0..9_CL_.tar
nemo/<split>/sharded_manifests/manifest_0.json ...    manifest_filepath: manifest__OP_0..9_CL_.json
nemo/<split>/tarred_audio_manifest.json               the same lines in one file

A line has `audio_filepath` (the member's name), `duration` (s), `text`, `shard_id` (the tar's
number), `lang`, `speaker` and `labels` where they are known, and the utterance's `id`. The names
are those of NeMo's `convert_to_tarred_audio_dataset.py`. Its `metadata.yaml` is not written:
training does not read it, and it holds the time of day.
"""

import hashlib
import json
import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from ..base.schema import AnyRow, ClipRow
from . import Bound, Output, OutputShard, ReaderLimits, ReadPcm, Rows, _clips, _lists, _tars

VERSION = 2
COLUMNS = ("id", "text", "language", "speaker", "audio_is", "labels", *_clips.COLUMNS)
NUMBERED = True  # `shard_id`
HOLDS_ANNOTATIONS = True
READ_BACK = (".json",)  # `finish` joins the manifests
#: NeMo's ASR settings (examples/asr/conf: Conformer, FastConformer, CTC and transducer) have these
#: in `model.train_ds`; the validation and test sets have none. `AudioText` (nemo/collections/
#: common/parts/preprocessing/collections.py) applies them to the manifest's `duration`.
READER = ReaderLimits(
    "NeMo's usual ASR settings",
    "model.train_ds",
    (Bound("min_duration", "min", "seconds", 0.1), Bound("max_duration", "max", "seconds", 16.7)),
    splits=("train",),
)
SNIPPET = (
    "yaml",
    """\
# Of NeMo's model settings; paths start from this folder.
{group}:
  is_tarred: true
  tarred_audio_filepaths: nemo/{split}/audio__OP_0..{last}_CL_.tar
  manifest_filepath: nemo/{split}/tarred_audio_manifest.json
  sample_rate: {rate}
""",
)
Settings = _clips.AudioSettings
check_weights = _clips.check_weights


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    home = f"nemo/{split}"
    return [f"{home}/audio_{number}.tar", f"{home}/sharded_manifests/manifest_{number}.json"]


def member(row: ClipRow, suffix: str) -> str:
    """Name in the tar. NeMo reads `-sub1` at its end as the first part of a longer file, so a key
    with `-sub` is renamed, and a hash keeps it unique."""
    key = _tars.key(row["id"])
    if "-sub" in key:
        digest = hashlib.sha256(row["id"].encode()).hexdigest()[:16]
        key = f"{key.replace('-sub', '_sub')[:70]}-{digest}"
    return f"{key}.{suffix}"


def _members(row: ClipRow, suffix: str) -> dict[str, bytes | ClipRow]:
    return {member(row, suffix): row}


def _lines(shard: OutputShard, rows: Rows, settings: Settings) -> bytes:
    lines = []
    for row in rows:
        line = {
            "audio_filepath": member(row, settings.audio),
            "duration": _clips.duration(row["num_samples"], row["sample_rate"]),
            "text": row["text"],
            "shard_id": shard.number,
            "id": row["id"],
        }
        optional = {"lang": row["language"], "speaker": row["speaker"]}
        line |= {name: value for name, value in optional.items() if value}
        columns: AnyRow = row
        line |= _clips.audio_is(columns) | _clips.labels(columns) | _clips.published(columns)
        lines.append(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(lines).encode()


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    tar, manifest = shard.files
    _tars.write(out, tar, rows, pcm, _members, settings.encoding)
    out.write(manifest, _lines(shard, rows, settings))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    tar, manifest = shard.files
    faults, _ = _tars.check(out, tar, rows, _members, settings.encoding)
    if (out.home / manifest).read_bytes() != _lines(shard, rows, settings):
        faults.append(f"{manifest} differs from its rows")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    for split, members in groupby(shards, lambda shard: shard.split):
        with (home / "nemo" / split / "tarred_audio_manifest.json").open("wb") as whole:
            for shard in members:
                with (home / shard.files[1]).open("rb") as part:
                    shutil.copyfileobj(part, whole)


def listing(home: Path, split: str, head: str) -> list[str]:
    """Tars, for `tarred_audio_filepaths`."""
    tars = []
    for manifest in sorted(home.glob(f"nemo/{split}/tarred_audio_manifest.json")):
        path = manifest.relative_to(home).as_posix()
        numbers = {json.loads(line)["shard_id"] for line in _lists.lines(home, path)}
        names = (f"{Path(path).parent}/audio_{number}.tar" for number in sorted(numbers))
        tars += [_lists.under(head, name) for name in names]
    return tars
