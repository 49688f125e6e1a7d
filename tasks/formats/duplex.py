"""Conversations on two tracks, for duplex models: a stereo file a clip, and its words by side.

duplex/<split>.jsonl                        {"path", "duration"} a line, `path` from this file
duplex/<split>/wav/000000000/<id>.wav       16-bit stereo (or .flac); a folder per shard
duplex/<split>/wav/000000000/<id>.json      {"alignments": [[word, [start, end], side], …]} in order
                                            of starts, in s of the clip; and `id`, `speakers` by
                                            side, and `turns`: {side, speaker, start, end, text}

This is how moshi-finetune reads conversations; it learns what is said on the left, whose side is
SPEAKER_MAIN; the right is SPEAKER_OTHER. `_clips` says who is on the left; `swap` puts the left on
the right. A turn whose words have no times is one entry, its text; so is a clip without turns.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa

from ..base.schema import ClipRow
from ..settings import Threshold
from ..storage import write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists

VERSION = 1
COLUMNS = ("id", "text", *_clips.COLUMNS, *_clips.TRACK_COLUMNS)
SNIPPET = (
    "python",
    "import json, os, soundfile\n"
    'for line in open("duplex/{split}.jsonl"):\n'
    '    path = "duplex/" + json.loads(line)["path"]\n'
    "    samples, rate = soundfile.read(path)  # [n, 2]: left, right\n"
    '    words = json.load(open(os.path.splitext(path)[0] + ".json"))["alignments"]\n',
)
SIDES = ("SPEAKER_MAIN", "SPEAKER_OTHER")
LISTS = (".jsonl",)
check_weights = _clips.check_weights
own_channels, needs = _clips.own_channels, _clips.needs


class Settings(_clips.AudioSettings):
    tracks: Literal["own", "by_turns"] = Threshold(
        "own",
        "own: the two channels of the recording, each with speakers of its own; other clips are "
        "no_own_channels in the ledger. by_turns: the mix, on the side of whoever speaks, with "
        "silence elsewhere; who speaks at once is heard on both. So are clips that a "
        "filter {use: tracks, min: 1} keeps with `own`.",
    )
    swap: bool = Threshold(False, "Left and right change places.")

    @property
    def encoding(self) -> _clips.Encoding:
        return _clips.Encoding(self.audio, tracks=self.tracks, swap=self.swap)


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    paths = _clips.files(f"duplex/{split}/wav", number, rows, settings.audio, files_a_clip=2)
    return [name for path in paths for name in (path, f"{path.removesuffix(settings.audio)}json")]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    for (path, words), row in zip(_pairs(shard), rows, strict=True):
        out.write(path, _clips.encoded(row, pcm, settings.encoding))
        out.write(words, _words(row, settings))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    faults = list[str]()
    for (path, words), row in zip(_pairs(shard), rows, strict=True):
        faults += _clips.faults(row, path, (out.home / path).read_bytes(), settings.encoding)
        if (out.home / words).read_bytes() != _words(row, settings):
            faults.append(f"{words} has other words than its row")
        faults += out.changed(path)
    return faults


def _pairs(shard: OutputShard) -> Iterator[tuple[str, str]]:
    return zip(shard.files[::2], shard.files[1::2], strict=True)


def _words(row: ClipRow, settings: Settings) -> bytes:
    entries, turns = list[tuple[str, tuple[float, float], str]](), []
    speakers: dict[str, list[str]] = {side: [] for side in SIDES}
    for turn in _clips.turns(row, settings.tracks):
        side = SIDES[(turn["channel"] == 1) ^ settings.swap]
        if turn["speaker"] not in speakers[side]:
            speakers[side].append(turn["speaker"])
        whole = {name: turn[name] for name in ("speaker", "start", "end", "text")}
        turns.append({"side": side, **whole})
        if turn["words"]:
            words = ((w["word"].strip(), (w["start"], w["end"])) for w in turn["words"])
            entries += [(*word, side) for word in words]
        elif turn["text"]:
            entries.append((turn["text"], (turn["start"], turn["end"]), side))
    if row.get("turns") is None:
        seconds = row["num_samples"] / row["sample_rate"]
        entries = [(row["text"], (0.0, seconds), SIDES[settings.swap])]
    entries.sort(key=lambda entry: (entry[1], entry[2]))
    entry = {"alignments": entries, "id": row["id"], "speakers": speakers, "turns": turns}
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode()


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    sounds = [replace(shard, files=shard.files[::2]) for shard in shards]
    for split, clips in _lists.clips(sounds, home, ("num_samples", "sample_rate")):
        lines = [
            _line(path.removeprefix("duplex/"), row["num_samples"] / row["sample_rate"])
            for path, row in clips
        ]
        write_atomic(home / "duplex" / f"{split}.jsonl", "".join(lines).encode())


def _line(path: str, seconds: float) -> str:
    return json.dumps({"path": path, "duration": seconds}, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    return [
        _line(_lists.under(head, f"duplex/{entry['path']}"), entry["duration"]).rstrip("\n")
        for entry in map(json.loads, _lists.lines(home, f"duplex/{split}.jsonl"))
    ]
