"""Files of samples with their offsets in front, as MDS and LitData have them: any clip in one read.

A file, all numbers unsigned 32-bit, little-endian:

    number of samples | where each begins, and the last one ends | a header | samples

A sample is the sizes of its `fields`, then their bytes. `facts` is a JSON object: where the clip
comes from, who speaks, and its measures. With `package.audio: both`, `audio_enhanced` is the
enhanced clip.
"""

import json
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.errors import ConfigError
from ..base.schema import AnyRow, ClipRow
from ..storage import hashed
from . import Output, OutputShard, ReadPcm, Rows, _clips, _table

_FACTS = (
    *("source_id", "dataset", "split", "recording", "start", "end"),
    *("num_samples", "sample_rate", "text_source", "language", "speaker"),
)
COLUMNS = ("id", "text", *_FACTS, "sha256", "sha256_enhanced", *_table.MEASURES, "labels")
#: Bytes of samples in a file: offsets have 32 bits, and a lossy clip may exceed its samples.
LARGEST = 1 << 30
_NUMBER = np.dtype("<u4")
_SNIPPET = """\
import io

import soundfile
from {package} import StreamingDataset

clips = StreamingDataset({place})
for number in range(len(clips)):  # any clip, in any order
    clip = clips[number]
    samples, rate = soundfile.read(io.BytesIO(clip["audio"]))
    print(clip["id"], len(samples) / rate, clip["text"])
"""


def snippet(package: str, place: str) -> tuple[str, str]:
    """For the data card. `package`: that of the format's `StreamingDataset`; `place`: its
    arguments."""
    return "python", _SNIPPET.replace("{package}", package).replace("{place}", place)


def fields(columns: Collection[str]) -> dict[str, str]:
    """The fields of a sample and their types, in order, for rows with `columns`."""
    audio = dict.fromkeys(_clips.names(columns), "bytes")
    return {**audio, "facts": "json", "id": "str", "text": "str"}


def refuse_too_large(use: str, rows: pa.Table) -> None:
    """ConfigError if an output shard does not fit into one file."""
    clips = len(_clips.names(rows.column_names))
    if 2 * clips * (pc.sum(rows["num_samples"]).as_py() or 0) > LARGEST:
        raise ConfigError(
            f"formats.{use}: the clips of an output shard exceed the 1 GiB of samples of one file; "
            "lower package.tar_hours"
        )


def write(
    shard: OutputShard,
    rows: Rows,
    pcm: ReadPcm,
    out: Output,
    settings: _clips.EncodedSettings,
    header: bytes = b"",
) -> None:
    """Write the one file of a shard; last its front, which says where each sample begins."""
    sizes: list[list[int]] = []
    with out.create(shard.path) as file:
        file.write(_front([[]] * len(rows), header))
        for row in rows:
            clips = [_clips.encoded(clip, pcm, settings.encoding) for clip in _clips.rows_of(row)]
            fields_of_row = (*clips, *_told(row))
            sizes.append([*map(len, fields_of_row)])
            file.write(np.array(sizes[-1], _NUMBER).tobytes())
            file.writelines(fields_of_row)
        file.seek(0)
        file.write(_front(sizes, header))
    out.hashes[shard.path] = hashed(out.home / shard.path)


def _told(row: ClipRow) -> tuple[bytes, ...]:
    """All fields but the audio."""
    columns: AnyRow = row
    facts = {name: columns[name] for name in _FACTS}
    facts["seconds"] = _clips.duration(row["num_samples"], row["sample_rate"])
    facts |= _table.measures(columns) | _clips.labels(columns) | _clips.published(columns)
    described = json.dumps(facts, ensure_ascii=False, allow_nan=False)
    return described.encode(), row["id"].encode(), row["text"].encode()


def _front(sizes: Sequence[Sequence[int]], header: bytes) -> bytes:
    first = _NUMBER.itemsize * (len(sizes) + 2) + len(header)
    per_sample = [_NUMBER.itemsize * len(size) + sum(size) for size in sizes]
    places = np.cumsum([first, *per_sample])
    return np.array([len(sizes), *places], _NUMBER).tobytes() + header


def check(
    shard: OutputShard,
    rows: Rows,
    out: Output,
    settings: _clips.EncodedSettings,
    header: bytes = b"",
) -> list[str]:
    """Faults of offsets, header, order, all fields and the decoded PCM."""
    faults: list[str] = []
    sizes: list[list[int]] = []
    with (out.home / shard.path).open("rb") as file:
        front = file.read(_NUMBER.itemsize * (len(rows) + 2) + len(header))
        for row in rows:
            clips = _clips.rows_of(row)
            others, place = _told(row), f"{shard.path}: {row['id']}"
            count = len(clips) + len(others)
            # ValueError at the end of the file.
            size = np.frombuffer(file.read(_NUMBER.itemsize * count), _NUMBER, count).tolist()
            parts = [file.read(length) for length in size]
            for clip, data in zip(clips, parts, strict=False):
                faults += _clips.faults(clip, place, data, settings.encoding)
            if tuple(parts[len(clips) :]) != others:
                faults.append(f"{place} differs from its row")
            sizes.append(size)
            if faults:
                return faults
        if file.read(1):
            faults.append(f"{shard.path} has bytes after its last clip")
    if front != _front(sizes, header):
        faults.append(f"{shard.path} does not say where its clips are")
    return faults + out.changed(shard.path)
