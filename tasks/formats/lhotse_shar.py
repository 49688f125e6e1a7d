"""Lhotse Shar: cuts as gzipped JSON lines, and beside each file of cuts a tar with their audio.

lhotse_shar/<split>/cuts.000000.jsonl.gz      a `MonoCut` a line, with one supervision
lhotse_shar/<split>/recording.000000.tar      `<cut>.wav` (or `.flac`), `<cut>.json` of each
lhotse_shar/<split>/enhanced.000000.tar       the same of enhanced clips, with `package.audio: both`
                                              (`cut.load_enhanced()`)

With `index: true`, for lhotse from 2.0 on, which then reads any cut at once:

lhotse_shar/<split>/cuts.000000.jsonl         not gzipped, and beside it and the tar `<file>.idx`

`CutSet.from_shar(in_dir="lhotse_shar/train")` takes every file in the folder for a field of the
cuts (1.x an index, too), so nothing else lies there. A cut's id must be its members' name: of an id
that is too long for one it is `_tars.key`; the supervision has the id itself. `custom` tells where
the clip comes from (`dataset`, `source_id`, `source_recording`, and `source_start`, `source_end` in
s), its measures, the source's `labels`, and what `package.publish` names. A clip of several turns
has a supervision for each: text, speaker, words as the alignment `word`, and in `custom` whether it
is a backchannel. With `tracks`, cuts are `MultiCut`s of two channels, and each supervision has that
of its speaker. JSON is ASCII: Lhotse opens it in the encoding of the locale.
"""

import json
import zlib
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import AnyRow, ClipRow, ClipTurnRow
from ..settings import Threshold
from . import Output, OutputShard, ReadPcm, Rows, _clips, _table, _tars

VERSION = 2
MIXED = (
    *("id", "text", "language", "speaker", *_clips.COLUMNS, "sha256_enhanced"),
    *("dataset", "source_id", "recording", "start", "end", "text_source", *_table.MEASURES),
    *("labels", "turns"),
)
COLUMNS = (*MIXED, *_clips.TRACK_COLUMNS)
own_channels, needs = _clips.own_channels, _clips.needs
check_weights, rates = _clips.check_weights, _clips.rates
HOLDS_ANNOTATIONS = True
_FIELDS = ("recording", "enhanced")  # a cut's fields of audio, in the order of `_clips.rows_of`
SNIPPET = (
    "python",
    """\
from lhotse import CutSet

for cut in CutSet.from_shar(in_dir="lhotse_shar/{split}"):
    print(cut.id, cut.load_audio().shape, cut.supervisions[0].text)
""",
)


class Settings(_clips.TrackedSettings):
    index: bool = Threshold(
        False, "Plain cuts with .idx files, for lhotse from 2.0 on; 1.x cannot read those."
    )


def columns(settings: Settings) -> tuple[str, ...]:
    return MIXED if settings.tracks == "mix" else COLUMNS


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """The tars of audio, then the cuts, then indexes in this order."""
    home = f"lhotse_shar/{split}"
    fields = _FIELDS[: len(_clips.names(rows.column_names))]
    tars = [f"{home}/{field}.{number:06d}.tar" for field in fields]
    cuts = f"{home}/cuts.{number:06d}.jsonl"
    if settings.index:
        plain = [*tars, cuts]
        return plain + [f"{path}{_tars.INDEX}" for path in plain]
    return [*tars, f"{cuts}.gz"]


def _recording(row: ClipRow, tracks: _clips.Tracks) -> JsonObject:
    """A `Recording` whose audio lies beside it."""
    channels = [0] if tracks == "mix" else [0, 1]
    return {
        "id": _tars.key(row["id"]),
        "sources": [{"type": "shar", "channels": channels, "source": ""}],
        "sampling_rate": row["sample_rate"],
        "num_samples": row["num_samples"],
        "duration": _clips.duration(row["num_samples"], row["sample_rate"]),
        "channel_ids": channels,
    }


def _cut(row: ClipRow, tracks: _clips.Tracks) -> JsonObject:
    columns: AnyRow = row
    recording = _recording(row, tracks)
    span = {"start": 0, "duration": recording["duration"], "channel": 0}
    spoken = {name: row[name] for name in ("text", "language", "speaker") if row[name] is not None}
    supervisions = [{"id": row["id"], "recording_id": recording["id"], **span, **spoken}]
    if row.get("turns") is not None:
        turns = enumerate(_clips.turns(row, tracks))
        supervisions = [_turn(row, number, turn, tracks) for number, turn in turns]
    custom = {
        "dataset": row["dataset"],
        "source_id": row["source_id"],
        "source_recording": row["recording"],
        "source_start": row["start"],
        "source_end": row["end"],
        "text_source": row["text_source"],
        **_table.measures(columns),
        **_clips.labels(columns),
        **_clips.published(columns),
        **({_FIELDS[1]: recording} if "sha256_enhanced" in row else {}),
    }
    kind = {"type": "MonoCut"} if tracks == "mix" else {"channel": [0, 1], "type": "MultiCut"}
    return {
        "id": recording["id"],
        **span,
        "supervisions": supervisions,
        "recording": recording,
        "custom": custom,
        **kind,
    }


def _turn(row: ClipRow, number: int, turn: ClipTurnRow, tracks: _clips.Tracks) -> JsonObject:
    """The supervision of a turn; times in s of the cut, to the sample."""
    rate, most = row["sample_rate"], row["num_samples"]

    def span(start: float, end: float) -> list[float]:
        first, last = (min(round(time * rate), most) for time in (start, end))
        return [_clips.duration(first, rate), _clips.duration(last - first, rate)]

    words = [
        [word["word"].strip(), *span(word["start"], word["end"])] for word in turn["words"] or ()
    ]
    start, duration = span(turn["start"], turn["end"])
    stated = {"text": turn["text"], "language": row["language"], "speaker": turn["speaker"]}
    return {
        "id": f"{row['id']}-{number:03d}",
        "recording_id": _tars.key(row["id"]),
        "start": start,
        "duration": duration,
        "channel": 0 if tracks == "mix" else turn["channel"],
        **{name: value for name, value in stated.items() if value is not None},
        "custom": {
            **{"backchannel": turn["backchannel"], "number": turn["number"]},
            **_clips.labels({**turn}),
        },
        **({"alignment": {"word": words}} if words else {}),
    }


def _line(entry: JsonObject) -> bytes:
    return json.dumps(entry, allow_nan=False).encode("ascii") + b"\n"


def _gzip(data: bytes) -> bytes:
    """A gzip member (RFC 1952) without time and name, which names no system either: the header that
    Python's `gzip` writes varies by release."""
    packed = zlib.compress(data, 6, wbits=31)
    return packed[:9] + b"\xff" + packed[10:]


def _cuts(rows: Rows, settings: Settings) -> bytes:
    return b"".join(_line(_cut(row, settings.tracks)) for row in rows)


def _members(
    place: int, tracks: _clips.Tracks, row: ClipRow, suffix: _clips.Suffix
) -> dict[str, bytes | ClipRow]:
    """The members of the tar of a field in `_FIELDS`."""
    key = _tars.key(row["id"])
    recording = _line(_recording(row, tracks))
    return {f"{key}.{suffix}": _clips.rows_of(row)[place], f"{key}.json": recording}


def _parts(shard: OutputShard, row: ClipRow) -> tuple[list[str], str, list[str]]:
    """The tars, the cuts, and the indexes of a shard."""
    count = len(_clips.names(row))
    return [*shard.files[:count]], shard.files[count], [*shard.files[count + 1 :]]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    tars, cuts, indexes = _parts(shard, rows[0])
    edges = [
        _tars.write(out, tar, rows, pcm, partial(_members, n, settings.tracks), settings.encoding)
        for n, tar in enumerate(tars)
    ]
    lines = _cuts(rows, settings)
    out.write(cuts, lines if settings.index else _gzip(lines))
    for path, index in zip(indexes, _indexes(edges, out, tars, lines), strict=False):
        out.write(path, index)


def _indexes(
    edges: Sequence[Sequence[int]], out: Output, tars: Sequence[str], lines: bytes
) -> list[bytes]:
    """Indexes of the tars, whose last cut ends where the file does, and of the cuts."""
    ends = ((out.home / tar).stat().st_size for tar in tars)
    whole = (_tars.index([*some[:-1], end]) for some, end in zip(edges, ends, strict=True))
    sizes = [len(line) + 1 for line in lines.split(b"\n")[:-1]]
    return [*whole, _tars.index(np.cumsum([0, *sizes]).tolist())]


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    tars, cuts, indexes = _parts(shard, rows[0])
    faults, edges = list[str](), list[list[int]]()
    for place, tar in enumerate(tars):
        members = partial(_members, place, settings.tracks)
        more, ends = _tars.check(out, tar, rows, members, settings.encoding)
        faults += more
        edges.append(ends)
    stored = (out.home / cuts).read_bytes()
    lines = stored if settings.index else zlib.decompress(stored, wbits=31)
    if lines != _cuts(rows, settings):
        faults.append(f"{cuts} differs from its rows")
    for path, right in zip(indexes, _indexes(edges, out, tars, lines), strict=False):
        faults += _tars.index_faults(out, path, right)
    return faults + out.changed(cuts)
