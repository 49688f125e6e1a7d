"""New files with the bytes of others, which a run will not process again.

A listing does not show what a file holds, so files are read here: as many bytes as take a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from tasks import audio
from tasks.base.errors import ItemError
from tasks.base.schema import RecordingRow
from tasks.recording import Locator
from tasks.settings.job import Job
from tasks.shard_store import manifest
from tasks.stages.listing import copies, fingerprints, shard_choice
from tasks.stages.listing.copies import NewCopy
from tasks.stages.listing.known_recordings import KnownRecordings
from tasks.storage.urls import is_url

MOST_BYTES = 256 << 20  # read in less than a second


def among(job: Job, fresh: Sequence[RecordingRow], had: KnownRecordings) -> dict[str, NewCopy]:
    """The copies among new recordings, by name; none if the new files are more than are read."""
    sound = [row for row in fresh if not row["error_code"]]
    if (
        job.filter.duplicate_files == "keep"
        or sum(row["size"] for row in sound) > MOST_BYTES
        or any(is_url(Locator.loads(row["locator"]).path) for row in sound[:1])
    ):
        return {}
    hashed = list(filter(None, map(_hashed, sound)))
    contents = fingerprints.contents(row["content"] for row in hashed)
    numbers = shard_choice.with_bytes(had, contents)
    others: list[RecordingRow] = []
    for number in np.unique(numbers[numbers >= 0]):
        others += manifest.listed(job.out, had.shards[number]).to_pylist()
    names = {row["recording"] for row in hashed}
    others = [row for row in others if row["recording"] not in names]
    before = copies.former(others)
    rows = [*others, *hashed]
    copies.mark(rows, before)
    return {copy.recording: copy for copy in copies.new(rows, before) if copy.recording in names}


def _hashed(row: RecordingRow) -> RecordingRow | None:
    """The row with its content; None if it cannot be read, as the run will say, or if its file is
    to be divided."""
    locator = Locator.loads(row["locator"])
    if locator.apart or locator.every_track:
        return None
    with suppress(OSError, ItemError):
        return {**row, "content": audio.digest(locator)[0], "present": True}
    return None
