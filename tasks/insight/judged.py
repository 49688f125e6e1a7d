"""Clips as the last run judged them: their view, and their stored audio."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from ..base.arrays import Int16s
from ..base.schema import EnhancedRow
from ..settings.job import Job
from ..shard_store import blobs, hidden
from ..shard_store.shard_view import ShardView
from ..shard_store.utterance import Utterance


def of_recordings(job: Job, shard: str, names: Container[str]) -> ShardView:
    """The view of a shard, of these recordings alone."""
    view = ShardView(job, shard)
    view.recordings = [row for row in view.recordings if row["recording"] in names]
    return view


def packed(utterance: Utterance | None) -> EnhancedRow | None:
    """Where the PCM of a clip lies; None if it has none."""
    row = utterance.packed if utterance is not None else None
    return None if row is None or row["error_code"] else row


def stored_pcm(out: Path, shard: str, utterance: Utterance | None) -> tuple[Int16s, int] | None:
    """The PCM of a clip, silent where it is muted, int16 [n], and its rate in Hz; None if it has
    none. CorruptManifest or OSError if it cannot be read."""
    row = packed(utterance)
    if utterance is None or row is None:
        return None
    return hidden.silenced(blobs.read(out, shard, row), utterance.muted), int(row["rate"])
