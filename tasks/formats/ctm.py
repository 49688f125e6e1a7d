"""When each word is said, as NIST's CTM: a line a word, for Kaldi, sclite and their like.

ctm/<split>/000000000.ctm    id 1 start duration word probability; s in the clip, a file a group

The words are those of the source's text (`transcribe.reference_words`), else the recogniser's
(`transcribe.backend.word_timestamps`); a clip that has neither has no line. There is no audio in
it: ask for another format beside it. `uttermill list --format ctm` prints all lines of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ..settings import StageSettings
from . import Output, OutputShard, ReadPcm, Rows, _timed_words

VERSION = 1
COLUMNS = _timed_words.COLUMNS
LISTS = (".ctm",)
SNIPPET = _timed_words.snippet("a line a word: id 1 start duration word")
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"ctm/{split}/{number:09d}.ctm"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    out.write(shard.path, _content(rows))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    same = (out.home / shard.path).read_bytes() == _content(rows)
    return [] if same else [f"{shard.path} has other words than its rows"]


def _content(rows: Rows) -> bytes:
    lines = []
    for row in rows:
        for word in _timed_words.words_of(row):
            seconds = max(word["end"] - word["start"], 0.0)
            sure = "" if word["probability"] is None else f" {word['probability']:.3f}"
            name = _timed_words.written(word)
            lines.append(f"{row['id']} 1 {word['start']:.3f} {seconds:.3f} {name}{sure}\n")
    return "".join(lines).encode()


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """There is no list over all shards."""


def listing(home: Path, split: str, head: str) -> list[str]:
    paths = sorted(home.glob(f"ctm/{split}/*.ctm"))
    return [line for path in paths for line in path.read_text("utf-8").split("\n") if line]
