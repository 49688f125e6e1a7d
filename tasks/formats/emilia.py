"""As Emilia-Pipe leaves it: a folder for each recording, its clips numbered, and a JSON list.

emilia/<split>/<name>/<name>_0.wav ...    16-bit mono, or MP3 of 128 kbit/s: smaller, other samples
emilia/<split>/<name>/<name>.json         entry i is of clip i, in the order of time:
    {"text", "start", "end" (s in the recording), "speaker", "language", "dnsmos", "id"}

`id` is ours. `dnsmos` is the column `dnsmos_ovrl`, null where it was not measured, or
`dnsmos_ovrl_enhanced` of an enhanced clip; an entry also has `audio_is` where some are enhanced,
and the source's `labels` where it has some. Emilia's diarisation names every speaker; where no
speaker is known, it is `SPEAKER_00` here, the name that Emilia gives the first one of a recording.
`<name>` is the end of dataset and path, and a hash of them: another recording never has it.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE, AnyRow, ClipRow
from ..settings import StageSettings, Threshold
from ..shard_store import enhanced
from ..storage import tables
from . import BY_PLACE, PLACE, Bound, OutputShard, ReaderLimits, _clips, _lists

VERSION = 1
LISTS = (".json",)
COLUMNS = (*BY_PLACE, PLACE, *_clips.COLUMNS)  # the rest is in the lists only
LISTS_ANNOTATIONS = True
check_weights, rates = _clips.check_weights, _clips.rates
DNSMOS = {"original": "dnsmos_ovrl", "enhanced": enhanced.after("dnsmos_ovrl")}
LISTED = (*BY_PLACE, "text", "speaker", "language", *DNSMOS.values(), "audio_is", "labels")
SPEAKER = "SPEAKER_00"
BATCH = 4096  # rows
#: Amphion's `EmiliaDataset` (models/base/emilia_dataset.py) replaces a clip longer than
#: `preprocess.max_dur`, 30 s by default, with another. It never applies its least, 3 s.
READER = ReaderLimits(
    "Amphion's EmiliaDataset", "preprocess", (Bound("max_dur", "max", "seconds", 30.0),)
)
SNIPPET = (
    "python",
    """\
import glob
import json

import soundfile

for path in sorted(glob.glob("emilia/{split}/*/*.json")):
    with open(path, encoding="utf-8") as file:
        clips = json.load(file)
    for number, clip in enumerate(clips):
        samples, rate = soundfile.read(f"{{path[:-5]}}_{{number}}.{audio}")
        print(clip["id"], len(samples) / rate, clip["text"])
""",
)


class Settings(StageSettings):
    audio: Literal["wav", "mp3"] = Threshold(
        "wav", "wav, or mp3 as Emilia has it: lossy, so only its length can be verified."
    )

    @property
    def encoding(self) -> _clips.Encoding:
        return _clips.Encoding(self.audio, 1000 * _clips.LOSSY.get(self.audio, 0))


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    pairs = zip(rows["recording"].to_pylist(), rows[PLACE].to_pylist(), strict=True)
    return [f"{_stem(split, recording)}_{place}.{settings.audio}" for recording, place in pairs]


@cache
def _stem(split: str, recording: str) -> str:
    """`recording` is `dataset/path`."""
    head, _, tail = recording.rpartition(".")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", head if head and len(tail) <= 5 else recording)
    name = f"{stem[-60:].strip('_')}-{hashlib.sha256(recording.encode()).hexdigest()[:16]}"
    return f"emilia/{split}/{name}/{name}"


write, check = _clips.write, _clips.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    more, path = _lists.published(home), home / UTTERANCES_FILE
    names = set(tables.schema(path).names)
    table = tables.read(path, columns=[name for name in (*LISTED, *more) if name in names])
    table = tables.take(table, tables.order_by(table, BY_PLACE))
    batches = (table.slice(start, BATCH) for start in range(0, len(table), BATCH))
    in_order = (row for batch in batches for row in batch.to_pylist())
    for (split, recording), rows in groupby(in_order, lambda r: (r["split"], r["recording"])):
        entries = [_entry(row, more) for row in rows]
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False)
        (home / f"{_stem(split, recording)}.json").write_text(text, "utf-8", newline="\n")


def _entry(row: ClipRow, more: Sequence[str]) -> JsonObject:
    columns: AnyRow = row
    return {
        "text": row["text"],
        "start": row["start"],
        "end": row["end"],
        "speaker": row["speaker"] or SPEAKER,
        "language": row["language"],
        "dnsmos": columns.get(DNSMOS[row.get("audio_is", "original")]),
        **_clips.audio_is(columns),
        **_clips.labels(columns),
        **{name: columns[name] for name in more},
        "id": row["id"],
    }


def listing(home: Path, split: str, head: str) -> list[str]:
    paths = sorted(home.glob(f"emilia/{split}/*/*.json"))
    return [f"{head}/{path.relative_to(home).as_posix()}" for path in paths]
