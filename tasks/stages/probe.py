"""Probe recordings that have no shard yet: content digest and header, one by one.

The module is shaped like a stage, so that a recording that kills its worker is found and
quarantined in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tasks import audio
from tasks.audio.types import Header
from tasks.base.errors import UNREACHABLE, ItemError, shortened
from tasks.base.schema import RecordingRow
from tasks.recording import Locator, tracks, unreachable
from tasks.recording.guard import file_state
from tasks.settings.job import Job
from tasks.stages.contract import OfRecording
from tasks.storage import urls


def compute(units: list[OfRecording], job: Job) -> Iterator[list[RecordingRow]]:
    """One row of each unit: with content digest and header, or with the error."""
    for unit in units:
        yield [_probed(unit.recording)]


def failure(unit: OfRecording, code: str, detail: str) -> list[RecordingRow]:
    return [{**unit.recording, "error_code": code, "error_detail": shortened(detail)}]


def _probed(row: RecordingRow) -> RecordingRow:
    probed = row.copy()
    locator = Locator.loads(row["locator"])
    if row["error_code"] == UNREACHABLE and locator.offset is None:  # while it was listed
        state = file_state(locator.path)
        if state.error is None:
            probed["size"], probed["guard"] = state.size, state.guard
            probed["error_code"] = probed["error_detail"] = None
    if probed["error_code"]:
        return row
    try:
        header = unreachable.patience.read(partial(_looked_into, probed))
    except ItemError as error:
        return {**probed, "error_code": error.code, "error_detail": shortened(error.detail)}
    seconds = header.frames / header.rate if header.frames is not None else None
    return {
        **probed,
        "header_rate": header.rate,
        "header_channels": header.channels,
        "header_seconds": seconds,
        "format": tracks.noted(header.format, header.track),
        "channels": None if header.picked is None else list(header.picked),
    }


def _looked_into(row: RecordingRow) -> Header:
    """The header; notes content and size in the row. ItemError."""
    locator = Locator.loads(row["locator"])
    with unreachable.listed():
        row["content"], row["size"] = audio.digest(locator)
        if urls.guard(locator.path) != row["guard"]:
            raise ItemError("changed", "it was written to while it was hashed")
        return audio.probe(locator)
