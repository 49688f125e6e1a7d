"""Labels that a plug-in derives from its frozen corpus-wide bounds (`labelled` of the contract).

They are computed while the rows are written: by then the measures and bounds are known,
and no rule reads these labels.
"""

from __future__ import annotations

import pyarrow as pa

from .. import corpus, plugins
from ..base.json_types import JsonObject
from ..settings.job import Job
from ..storage import tables


def labelled(job: Job, rows: pa.Table, frozen: JsonObject) -> pa.Table:
    """Rows of a version, with the labels filled in. `frozen`: the state of all plug-ins."""
    for shelf, plugin in corpus.chosen(job):
        module, settings = plugins.measuring(shelf).resolve(plugin)
        if module.labelled is None:
            continue
        inputs = rows.select(["language", *module.asks(settings)])
        bounds = frozen.get(f"{shelf}.{plugin.use}", {})
        for name, values in module.labelled(inputs, settings, bounds).items():
            rows = tables.replaced(rows, name, pa.array(values, pa.string()))
    return rows
