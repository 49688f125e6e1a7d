"""Probes recordings that have no shard yet: content digest and header, one by one.

The module has the shape of a stage, so that a recording that kills its worker is found and
quarantined in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .. import audio
from ..base.errors import UNREACHABLE, ItemError, shortened
from ..base.schema import RecordingRow
from ..recording import Locator, unreachable
from ..recording.guard import file_state
from ..settings.job import Job
from ..storage import urls
from .contract import OfRecording
from .listing import file_parts


def compute(units: list[OfRecording], job: Job) -> Iterator[list[RecordingRow]]:
    """The rows of each unit: with content digest and header, or with the error; several rows for a
    file that its source wants divided."""
    for unit in units:
        yield _probed(unit.recording)


def failure(unit: OfRecording, code: str, detail: str) -> list[RecordingRow]:
    return [{**unit.recording, "error_code": code, "error_detail": shortened(detail)}]


def _probed(row: RecordingRow) -> list[RecordingRow]:
    probed = row.copy()
    locator = Locator.loads(row["locator"])
    if row["error_code"] == UNREACHABLE and locator.offset is None:  # during listing
        state = file_state(locator.path)
        if state.error is None:
            probed["size"], probed["guard"] = state.size, state.guard
            probed["error_code"] = probed["error_detail"] = None
    if probed["error_code"]:
        return [row]
    try:
        return unreachable.patience.read(partial(_looked_into, probed))
    except ItemError as error:
        return [{**probed, "error_code": error.code, "error_detail": shortened(error.detail)}]


def _looked_into(row: RecordingRow) -> list[RecordingRow]:
    """The rows with their headers; sets content and size in `row`. ItemError if that fails."""
    locator = Locator.loads(row["locator"])
    with unreachable.listed():
        row["content"], row["size"] = audio.digest(locator)
        if urls.guard(locator.path) != row["guard"]:
            raise ItemError("changed", "it was written to while it was hashed")
        if row.get("parts"):
            return [file_parts.probed_again(row, locator)]
        if locator.apart or locator.every_track:
            return file_parts.of_file(row, locator)
        return [file_parts.with_header(row, audio.probe(locator))]
