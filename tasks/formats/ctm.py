"""When each word is said, as NIST's CTM: a line a word, for Kaldi, sclite and their like.

ctm/<split>/000000000.ctm    id 1 start duration word probability; s in the clip, a file a group

The words are those of the source's text (`transcribe.reference_words`), else the recogniser's
(`transcribe.backend.word_timestamps`); a clip that has neither has no line. There is no audio in
it: ask for another format beside it. `uttermill list --format ctm` prints all lines of a split.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ..base.schema import ClipRow, WordRow
from ..settings import StageSettings
from . import Output, OutputShard, ReadPcm, Rows, _lists

VERSION = 1
COLUMNS = ("id", "reference_words", "word_times")
LISTS = (".ctm",)
Settings = StageSettings  # none


def data_card(what: str) -> tuple[str, str]:
    """For the data card. `what`: what `uttermill list` prints."""
    return "bash", f"uttermill list . --format {{use}} --split {{split}}  # {what}\n"


SNIPPET = data_card("a line a word: id 1 start duration word")


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"ctm/{split}/{number:09d}.ctm"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    out.write(shard.path, _content(rows))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    same = (out.home / shard.path).read_bytes() == _content(rows)
    return [] if same else [f"{shard.path} has other words than its rows"]


def words_of(row: ClipRow) -> Iterator[tuple[WordRow, str]]:
    """The words of the source's text if that was aligned, else the recogniser's; each also as it is
    written, without spaces, which separate the fields of a line."""
    for word in row.get("reference_words") or row.get("word_times") or ():
        yield word, "_".join(word["word"].split())


def _content(rows: Rows) -> bytes:
    lines = []
    for row in rows:
        for word, name in words_of(row):
            seconds = max(word["end"] - word["start"], 0.0)
            sure = "" if word["probability"] is None else f" {word['probability']:.3f}"
            lines.append(f"{row['id']} 1 {word['start']:.3f} {seconds:.3f} {name}{sure}\n")
    return "".join(lines).encode()


def listing(home: Path, split: str, head: str) -> list[str]:
    return _lists.lines(home, f"ctm/{split}/*.ctm")
