"""Labels that a plug-in derives from its frozen corpus-wide bounds (`labelled` of the contract).

They are computed while the rows are written: by then the measures and bounds are known,
and no rule reads these labels.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from .. import corpus, plugins, storage
from ..base.json_types import JsonObject
from ..plugins.contracts import Measuring
from ..settings import Plugin
from ..settings.job import Job
from ..storage import tables

FILE = "bounds.json"  # in the scratch folder: the frozen state of all plug-ins


def chosen(job: Job) -> list[tuple[Measuring, Plugin]]:
    """(kind, plug-in) of the corpus-wide plug-ins that define `labelled`."""
    return [
        (shelf, plugin)
        for shelf, plugin in corpus.chosen(job)
        if plugins.measuring(shelf).load(plugin.use).labelled is not None
    ]


def save(job: Job, scratch: Path, frozen: JsonObject) -> None:
    """Save the next version's frozen state for the workers, if a plug-in derives labels from it."""
    if chosen(job):
        storage.of(scratch).write(scratch / FILE, json.dumps(frozen).encode())


def labelled(job: Job, rows: pa.Table, scratch: Path) -> pa.Table:
    """Rows of a version, with the labels filled in."""
    for shelf, plugin in chosen(job):
        module, settings = plugins.measuring(shelf).resolve(plugin)
        assert module.labelled is not None
        frozen = storage.read_json(scratch / FILE).get(f"{shelf}.{plugin.use}", {})
        inputs = rows.select(["language", *module.asks(settings)])
        for name, values in module.labelled(inputs, settings, frozen).items():
            rows = tables.replaced(rows, name, pa.array(values, pa.string()))
    return rows
