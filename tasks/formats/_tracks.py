"""The two tracks of a conversation's clip, where a format's setting `tracks` asks for them.

With `own`, left is the recording's channel 0 and right channel 1, as they were recorded. With
`by_turns`, and for a clip whose speakers have no channels of their own, each track is the clip's
audio where somebody on its side speaks, and silence elsewhere: left is who speaks first in the
recording, everybody else is on the right, and who speaks at once is heard on both. All of a clip
without turns is on the left.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..base.arrays import Bools, Int16s
from ..base.schema import ClipRow, ClipTurnRow
from ..settings import StageSettings
from ..shard_store import blobs
from . import ReadPcm

Tracks = Literal["mix", "own", "by_turns"]

#: The columns that the tracks are made of, beside those of the clip.
COLUMNS = ("turns", "sha256_left", "sha256_right")


def chosen(settings: StageSettings) -> Tracks:
    tracks: Tracks = getattr(settings, "tracks", "mix")
    return tracks


def own_channels(settings: StageSettings) -> bool:
    return chosen(settings) == "own"


def needs(settings: StageSettings) -> tuple[str, ...]:
    return () if chosen(settings) == "mix" else ("turns",)


def turns(row: ClipRow, tracks: Tracks) -> list[ClipTurnRow]:
    """The turns of a clip, each with the number of its track (0: left) as its `channel`; as they
    are, if the clip is the mix."""
    spoken = row.get("turns") or []
    if tracks == "mix":
        return spoken
    apart = tracks == "own" and all(turn["channel"] in (0, 1) for turn in spoken)
    return [
        {**turn, "channel": turn["channel"] if apart else int(turn["number"] != 1)}
        for turn in spoken
    ]


def made(row: ClipRow, pcm: ReadPcm, tracks: Tracks) -> Int16s:
    """The samples of a clip: int16 [n] of a mix, else [n, 2]."""
    if tracks == "mix":
        return pcm(row)
    sides = blobs.sides(row) if tracks == "own" else []
    if sides:
        return np.stack([pcm(side) for side in sides], axis=1)
    return np.where(_speaking(row, tracks), pcm(row)[:, None], np.int16(0))


def are_of(row: ClipRow, samples: Int16s, tracks: Tracks) -> bool:
    """Whether int16 [n, 2] may be the row's tracks: by their hashes; or silent where nobody on them
    speaks, and equal where both do."""
    hashes = [row.get("sha256_left"), row.get("sha256_right")]
    if tracks == "own" and all(hashes):
        return [*map(blobs.sha256, samples.T)] == hashes
    if row.get("turns") is None:
        return blobs.sha256(samples[:, 0]) == row["sha256"] and not samples[:, 1].any()
    speaking = _speaking(row, tracks)
    both = samples[speaking.all(axis=1)]
    return not samples[~speaking].any() and np.array_equal(both[:, 0], both[:, 1])


def _speaking(row: ClipRow, tracks: Tracks) -> Bools:
    """Whether somebody on each side speaks; bool [n, 2]."""
    speaking = np.zeros((row["num_samples"], 2), bool)
    speaking[:, 0] = row.get("turns") is None
    for turn in turns(row, tracks):
        start, end = (round(edge * row["sample_rate"]) for edge in (turn["start"], turn["end"]))
        speaking[start:end, turn["channel"]] = True
    return speaking
