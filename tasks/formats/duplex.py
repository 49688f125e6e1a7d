"""Conversations on two tracks, for duplex models: a stereo WAV a clip, and its words by side.

duplex/<split>.jsonl                        {"path", "duration"} a line, `path` from this file
duplex/<split>/wav/000000000/<id>.wav       16-bit stereo, header of 44 bytes; a folder per shard
duplex/<split>/wav/000000000/<id>.json      {"alignments": [[word, [start, end], side], …]} in order
                                            of starts, in s of the clip; and `id`, `speakers` by
                                            side, and `turns`: {side, speaker, start, end, text}

This is how moshi-finetune reads conversations; it learns what is said on the left, whose side is
SPEAKER_MAIN; the right is SPEAKER_OTHER. Left is the recording's channel 0; with `tracks: by_turns`
it is the person who speaks first in the recording, and everybody else is on the right. `swap` puts
the left on the right. A turn whose words have no times is one entry, its text; so is a clip without
turns, which is on the left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import pyarrow as pa

from .. import audio
from ..base.arrays import Int16s
from ..base.schema import ClipRow, ClipTurnRow
from ..settings import StageSettings, Threshold
from ..shard_store import blobs
from ..storage import write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _lists, _wavs

VERSION = 1
COLUMNS = (
    *("id", "sample_rate", "num_samples", "sha256", "turns", "text"),
    *("sha256_left", "sha256_right", "left_speakers"),
)
SNIPPET = (
    "python",
    "import json, soundfile\n"
    'for line in open("duplex/{split}.jsonl"):\n'
    '    path = "duplex/" + json.loads(line)["path"]\n'
    "    samples, rate = soundfile.read(path)  # [n, 2]: left, right\n"
    '    words = json.load(open(path[:-4] + ".json"))["alignments"]\n',
)
SIDES = ("SPEAKER_MAIN", "SPEAKER_OTHER")
LISTS = (".jsonl",)
T = TypeVar("T")


class Settings(StageSettings):
    """Where the two tracks come from, and which one is left."""

    tracks: Literal["own", "by_turns"] = Threshold(
        "own",
        "own: the two channels of the recording, each with speakers of its own; other clips are "
        "no_own_channels in the ledger. by_turns: the mix, on the side of whoever speaks, with "
        "silence elsewhere; who speaks at once is heard on both. So are clips that a "
        "filter {use: tracks, min: 1} keeps with `own`.",
    )
    swap: bool = Threshold(False, "Left and right change places.")


def own_channels(settings: Settings) -> bool:
    return settings.tracks == "own"


def needs(settings: Settings) -> tuple[str, ...]:
    return ("turns",)


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    paths = _wavs.files("duplex", split, number, rows, files_a_clip=2)
    return [name for path in paths for name in (path, f"{path[:-3]}json")]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    for (path, words), row in zip(_pairs(shard), rows, strict=True):
        tracks = [pcm(side) for side in blobs.sides(row)] if own_channels(settings) else []
        tracks = tracks or [_masked(pcm(row), row, side, settings) for side in (0, 1)]
        left, right = _sided(tracks, settings)
        out.write(path, audio.stereo_bytes(left, right, row["sample_rate"]))
        out.write(words, _words(row, settings))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    faults = list[str]()
    for (path, words), row in zip(_pairs(shard), rows, strict=True):
        data = (out.home / path).read_bytes()
        header = audio.wav_header(row["num_samples"], row["sample_rate"], 2)
        if data[: len(header)] != header or len(data) != len(header) + 4 * row["num_samples"]:
            faults.append(f"{path} is no stereo WAV of {row['num_samples']} samples")
        else:
            tracks = np.frombuffer(data, "<i2", offset=len(header)).reshape(-1, 2).T
            if not _are_of(row, _sided([*tracks], settings), settings):
                faults.append(f"{path} has other samples than its row")
        if (out.home / words).read_bytes() != _words(row, settings):
            faults.append(f"{words} has other words than its row")
        faults += out.changed(path)
    return faults


def _are_of(row: ClipRow, tracks: list[Int16s], settings: Settings) -> bool:
    """Whether tracks may be the row's: by their hashes, or silent where nobody on them speaks."""
    hashes = [*map(blobs.sha256, tracks)]
    if own_channels(settings) and row.get("sha256_left"):
        return hashes == [row.get("sha256_left"), row.get("sha256_right")]
    if row.get("turns") is None:
        return hashes[0] == row["sha256"] and not tracks[1].any()
    masked = (_masked(track, row, side, settings) for side, track in enumerate(tracks))
    return all(map(np.array_equal, masked, tracks))


def _pairs(shard: OutputShard) -> Iterator[tuple[str, str]]:
    return zip(shard.files[::2], shard.files[1::2], strict=True)


def _sided(tracks: list[T], settings: Settings) -> list[T]:
    return tracks[::-1] if settings.swap else tracks


def _side(turn: ClipTurnRow, row: ClipRow, settings: Settings) -> int:
    """0: the left of the clip's own tracks, before `swap`."""
    left = row.get("left_speakers") if own_channels(settings) else None
    return 0 if turn["number"] in (left or (1,)) else 1


def _masked(pcm: Int16s, row: ClipRow, side: int, settings: Settings) -> Int16s:
    """The samples in which somebody on this side speaks; zeros elsewhere. All of a clip without
    turns is on the left."""
    turns = row.get("turns")
    if turns is None and side == 0:
        return pcm
    track, rate = np.zeros_like(pcm), row["sample_rate"]
    for turn in turns or ():
        if _side(turn, row, settings) == side:
            span = slice(round(turn["start"] * rate), round(turn["end"] * rate))
            track[span] = pcm[span]
    return track


def _words(row: ClipRow, settings: Settings) -> bytes:
    entries, turns = list[tuple[str, tuple[float, float], str]](), []
    speakers: dict[str, list[str]] = {side: [] for side in SIDES}
    for turn in row.get("turns") or ():
        side = SIDES[_side(turn, row, settings) ^ settings.swap]
        if turn["speaker"] not in speakers[side]:
            speakers[side].append(turn["speaker"])
        whole = {name: turn[name] for name in ("speaker", "start", "end", "text")}
        turns.append({"side": side, **whole})
        if turn["words"]:
            entries += [
                (word["word"].strip(), (word["start"], word["end"]), side) for word in turn["words"]
            ]
        elif turn["text"]:
            entries.append((turn["text"], (turn["start"], turn["end"]), side))
    if row.get("turns") is None:
        entries = [
            (row["text"], (0.0, row["num_samples"] / row["sample_rate"]), SIDES[settings.swap])
        ]
    entries.sort(key=lambda entry: (entry[1], entry[2]))
    entry = {"alignments": entries, "id": row["id"], "speakers": speakers, "turns": turns}
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode()


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    columns = ("num_samples", "sample_rate")
    for split, part in groupby(_lists.stream(shards, home, columns), lambda pair: pair[0].split):
        lines = [
            _line(path.removeprefix("duplex/"), row["num_samples"] / row["sample_rate"])
            for shard, rows in part
            for (path, _), row in zip(_pairs(shard), rows, strict=True)
        ]
        write_atomic(home / "duplex" / f"{split}.jsonl", "".join(lines).encode())


def _line(path: str, seconds: float) -> str:
    return json.dumps({"path": path, "duration": seconds}, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    entries = [
        json.loads(line)
        for path in sorted(home.glob(f"duplex/{split}.jsonl"))
        for line in path.read_text("utf-8").split("\n")
        if line
    ]
    return [
        _line(_lists.under(head, f"duplex/{entry['path']}"), entry["duration"]).rstrip("\n")
        for entry in entries
    ]
