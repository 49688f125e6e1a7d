"""Voices: the people that a diarizer distinguishes in a recording, each with an embedding.

A voice's embedding is the mean of its turns' embeddings, weighted by duration and scaled to length
1. If the source names a speaker of a recording, that recording has no voices: the source's names
are used.
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import pyarrow as pa

from ..base.schema import RecordingRow
from ..recording.turns import Turn
from ..shard_store.cuts import segments_of
from ..shard_store.shard_view import ShardView
from ..shard_store.stored_shard import part_of
from ..speech.embedding import SIZE, unit

BYTES = 2 * SIZE
VOICES = pa.schema(
    {
        "recording": pa.string(),
        "number": pa.int32(),  # of the person within the recording, from 1
        "content": pa.string(),  # of the recording, by `part_of`
        "seconds": pa.float64(),  # for which the person speaks
        "vector": pa.binary(BYTES),  # float16 [192], of length 1
    }
)


class VoiceRow(TypedDict):
    """A row of VOICES."""

    recording: str
    number: int
    content: str
    seconds: float
    vector: bytes


def rows(view: ShardView) -> list[VoiceRow]:
    """The voices of a shard's recordings, whatever the outcome of their utterances."""
    voice_rows = []
    for recording in view.processed:
        cut = view.cut_of(recording)
        if cut is None or cut.error_code or _stated(recording):
            continue
        if turns := view.turned(recording)[1]:
            voice_rows += of_turns(recording, turns, cut.rate)
    return voice_rows


def _stated(recording: RecordingRow) -> bool:
    """Whether the source names a speaker of the recording."""
    segments = segments_of(recording) or ()
    return recording["speaker"] is not None or any(s.speaker is not None for s in segments)


def of_turns(recording: RecordingRow, turns: tuple[Turn, ...], rate: int) -> list[VoiceRow]:
    """The voices of one recording. `turns` are in samples at `rate` Hz; those named by the source
    count as speech but have no embedding."""
    sums: dict[int, np.ndarray] = {}
    seconds: dict[int, float] = {}
    for turn in turns:
        length = (turn.end - turn.start) / rate
        seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + length
        if len(turn.voice) == BYTES and turn.name is None:
            vector = np.frombuffer(turn.voice, "<f2").astype(np.float64)
            sums[turn.speaker] = sums.get(turn.speaker, np.zeros(SIZE)) + length * vector
    return [
        {
            "recording": recording["recording"],
            "number": speaker + 1,
            "content": part_of(recording),
            "seconds": seconds[speaker],
            "vector": unit(total.astype(np.float32)).astype("<f2").tobytes(),
        }
        for speaker, total in sorted(sums.items())
        if np.isfinite(total).all() and total.any()
    ]
