"""Labels of clips by bounds over the whole corpus, which plug-ins freeze (`labelled`).

They are made when the rows of a part are written: what they follow from, measures and bounds, is
known then, and no rule goes by them.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import corpus, plugins, storage
from tasks.base.arrays import UInt64s
from tasks.base.json_types import JsonObject
from tasks.plugins.contracts import Measuring
from tasks.publish import row_digests
from tasks.settings import Plugin
from tasks.settings.job import Job
from tasks.shard_store import recipe, whole_job
from tasks.storage import tables

FILE = "bounds.json"  # in the scratch folder: what the plug-ins freeze


def chosen(job: Job) -> list[tuple[Measuring, Plugin]]:
    """(shelf, plug-in) of those that give labels by the corpus."""
    return [
        (shelf, plugin)
        for shelf, plugin in corpus.chosen(job)
        if plugins.measuring(shelf).load(plugin.use).labelled is not None
    ]


def save(job: Job, scratch: Path, frozen: JsonObject) -> None:
    """Save for the workers what the next version freezes, if a plug-in labels by it."""
    if chosen(job):
        storage.of(scratch).write(scratch / FILE, json.dumps(frozen).encode())


def labelled(job: Job, rows: pa.Table, scratch: Path) -> pa.Table:
    """Rows of a version with the labels in their columns."""
    for shelf, plugin in chosen(job):
        module, settings = plugins.measuring(shelf).resolve(plugin)
        assert module.labelled is not None
        frozen = storage.read_json(scratch / FILE).get(f"{shelf}.{plugin.use}", {})
        asked = rows.select(["language", *module.asks(settings)])
        for name, values in module.labelled(asked, settings, frozen).items():
            rows = tables.replaced(rows, name, pa.array(values, pa.string()))
    return rows


def content(job: Job, codes: UInt64s, scratch: Path) -> UInt64s:
    """Digests of rows that depend on the labels too: on the bounds, and the plug-ins' settings."""
    frozen = storage.read_json(scratch / FILE)
    what = [
        (whole_job.settings_of_plugin(shelf, plugin), frozen.get(f"{shelf}.{plugin.use}"))
        for shelf, plugin in chosen(job)
    ]
    return row_digests.joined(codes, np.uint64(int(recipe.digest(what)[:16], 16)))
