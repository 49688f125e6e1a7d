"""Probe recordings that have no shard yet: content digest and header, one by one.

The module is shaped like a stage, so that a recording that kills its worker is found and
quarantined in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

from tasks import audio
from tasks.errors import ItemError
from tasks.job import Job
from tasks.recording import Locator
from tasks.schema import Row
from tasks.stages.contract import OfRecording
from tasks.storage import urls


def compute(units: list[OfRecording], job: Job) -> Iterator[list[Row]]:
    """One row of each unit: with content digest and header, or with the error."""
    for unit in units:
        yield [_probed(unit.recording)]


def failure(unit: OfRecording, code: str, detail: str) -> list[Row]:
    return [{**unit.recording, "error_code": code, "error_detail": detail[:500]}]


def _probed(row: Row) -> Row:
    if row["error_code"]:
        return row
    locator = Locator.loads(row["locator"])
    try:
        content, size = audio.digest(locator)
        row = {**row, "content": content, "size": size}
        if urls.guard(locator.path) != row["guard"]:
            raise ItemError("changed", "it was written to while it was hashed")
        header = audio.probe(locator)
    except ItemError as error:
        return {**row, "error_code": error.code, "error_detail": error.detail[:500]}
    except FileNotFoundError:
        return {**row, "error_code": "missing", "error_detail": "it vanished during the run"}
    except OSError as error:
        return {**row, "error_code": "unreadable", "error_detail": error.strerror or str(error)}
    seconds = header.frames / header.rate if header.frames is not None else None
    return {
        **row,
        "header_rate": header.rate,
        "header_channels": header.channels,
        "header_seconds": seconds,
        "format": header.format,
    }
