"""WeNet's `raw` data: one WAV file a clip, and a list of them with their texts.

wenet_raw/<split>/wav/000000000/<key>.wav   16-bit mono, header of 44 bytes; a folder per shard
wenet_raw/<split>/data.list                 {"key", "wav", "txt"} a line, `wav` in the version,
                                            and what `package.publish` names
wenet_raw/units.txt                         characters of train's texts, for the char tokenizer
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import AnyRow
from ..settings import StageSettings
from . import OutputShard, _free, _lists, _wavs, _wenet

VERSION = 1
COLUMNS = _wavs.COLUMNS
LISTS_ANNOTATIONS = True
READER = _wenet.READER
SNIPPET = _wenet.snippet("raw")
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return _wavs.files("wenet_raw", split, number, rows)


write, check = _wavs.write, _wavs.check


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    more = _free.listed(home)
    for split, clips in _lists.clips(shards, home, ("id", "text", *more)):
        with (home / "wenet_raw" / split / _lists.NAME).open("w", encoding="utf-8") as list_:
            for path, row in clips:
                columns: AnyRow = row
                values = {name: columns[name] for name in more}
                list_.write(_line({"key": row["id"], "wav": path, "txt": row["text"], **values}))
    _wenet.write_units(home, "wenet_raw")


def _line(entry: JsonObject) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    entries = [json.loads(line) for line in _lists.read(home, "wenet_raw", split)]
    return [
        _line({**entry, "wav": _lists.under(head, entry["wav"])}).rstrip("\n") for entry in entries
    ]
