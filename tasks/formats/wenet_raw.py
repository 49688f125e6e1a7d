"""WeNet's `raw` data: one WAV file a clip, and a list of them with their texts.

wenet_raw/<split>/wav/000000000/<key>.wav   16-bit mono, header of 44 bytes; a folder per shard
wenet_raw/<split>/data.list                 {"key", "wav", "txt"} a line, `wav` in the version,
                                            and what `package.publish` names
wenet_raw/units.txt                         characters of train's texts, for the char tokenizer
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import AnyRow
from ..settings import StageSettings
from . import OutputShard, _clips, _lists, wenet

VERSION = 1
COLUMNS = _clips.FILE_COLUMNS
LISTS_ANNOTATIONS = True
READER = wenet.READER
SNIPPET = wenet.data_card("raw")
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return _clips.files(f"wenet_raw/{split}/wav", number, rows)


write, check = _clips.write, _clips.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    more = _lists.published(home)
    for split, clips in _lists.clips(shards, home, ("id", "text", *more)):
        with (home / "wenet_raw" / split / _lists.NAME).open("w", encoding="utf-8") as list_:
            for path, row in clips:
                columns: AnyRow = row
                values = {name: columns[name] for name in more}
                list_.write(_line({"key": row["id"], "wav": path, "txt": row["text"], **values}))
    wenet.write_units(home, "wenet_raw")


def _line(entry: JsonObject) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    entries = map(json.loads, _lists.lines(home, f"wenet_raw/{split}/{_lists.NAME}"))
    full = ({**entry, "wav": _lists.under(head, entry["wav"])} for entry in entries)
    return [_line(entry).rstrip("\n") for entry in full]
