"""When each word is said, as Praat's TextGrid: one file per clip, for phoneticians and aligners.

textgrid/<split>/000000000/<id>.TextGrid    the tiers `text`, the whole clip, and `words`
textgrid/<split>/data.list                  the files, one a line

The words are those of the source's text (`transcribe.reference_words`), else the recogniser's
(`transcribe.backend.word_timestamps`); a clip that has neither has an empty tier. A word too short
for a millisecond shares the interval of the one before it, since Praat has none of no length.
There is no audio in it: ask for another format beside it, such as `wenet_raw`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from ..base.schema import ClipRow
from ..settings import StageSettings
from ..storage import write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, ctm

VERSION = 1
COLUMNS = (*ctm.COLUMNS, "text", "num_samples", "sample_rate")
SNIPPET = ctm.data_card("Praat's files, one a clip, named by its id")
Settings = StageSettings  # none

Interval = tuple[int, int, str]
"""Start and end in ms, and the text."""


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return _clips.files(f"textgrid/{split}", number, rows, "TextGrid")


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    for path, row in zip(shard.files, rows, strict=True):
        out.write(path, _content(row))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    return [
        f"{path} has other words than its row"
        for path, row in zip(shard.files, rows, strict=True)
        if (out.home / path).read_bytes() != _content(row)
    ]


def _content(row: ClipRow) -> bytes:
    end = max(round(1000 * row["num_samples"] / row["sample_rate"]), 1)
    words = [
        (round(1000 * word["start"]), round(1000 * word["end"]), name)
        for word, name in ctm.words_of(row)
    ]
    tiers = {"text": [(0, end, row["text"] or "")], "words": [*_filled(words, end)]}
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', ""]
    lines += ["xmin = 0", f"xmax = {end / 1000}", "tiers? <exists>", f"size = {len(tiers)}"]
    lines.append("item []:")
    for number, (name, intervals) in enumerate(tiers.items(), 1):
        lines += [f"    item [{number}]:", '        class = "IntervalTier"']
        lines += [f'        name = "{name}"', "        xmin = 0", f"        xmax = {end / 1000}"]
        lines.append(f"        intervals: size = {len(intervals)}")
        for place, (start, stop, text) in enumerate(intervals, 1):
            quoted = text.replace('"', '""')
            lines += [f"        intervals [{place}]:", f"            xmin = {start / 1000}"]
            lines += [f"            xmax = {stop / 1000}", f'            text = "{quoted}"']
    return ("\n".join(lines) + "\n").encode()


def _filled(words: Sequence[Interval], end: int) -> Iterator[Interval]:
    """Intervals from 0 to the end, ms, with empty ones between the words."""
    last = 0
    waiting = ""  # words of length 0
    word: Interval | None = None
    for start, stop, text in words:
        start, stop = max(start, last), min(stop, end)
        if stop <= start:
            if word is None:
                waiting += f"{text} "
            else:
                word = (word[0], word[1], f"{word[2]} {text}")
            continue
        if word is not None:
            yield word
        if start > last:
            yield last, start, ""
        word, last, waiting = (start, stop, waiting + text), stop, ""
    if word is not None:
        yield word
    if last < end or word is None:
        yield last, end, waiting.strip()


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    lists: dict[str, list[str]] = {}
    for shard in shards:
        lists.setdefault(shard.split, []).extend(shard.files)
    for split, paths in lists.items():
        lines = "".join(f"{path}\n" for path in paths)
        write_atomic(home / "textgrid" / split / _lists.NAME, lines.encode())


listing = partial(_lists.prefixed, "textgrid")
