"""A filter for tests: on which side of the corpus's median a clip is; the median freezes."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from uttermill.tasks.api import Clip, Label, Rejection, StageSettings
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins.contracts.base import Rows

VERSION = 1
COLUMNS = {"relative": ("s", "length of the clip")}
ANNOTATIONS = {"relative_side": Label("side of the median", ("below", "above"))}
Settings = StageSettings


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"relative": clip.seconds}


def asks(settings: Settings) -> tuple[str, ...]:
    return ("relative",)


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], JsonObject]:
    values = [table["relative"].to_numpy() for table in rows.tables("relative")]
    return (), frozen or {"median": float(np.median(np.concatenate(values)))}


def labelled(rows: pa.Table, settings: Settings, frozen: JsonObject) -> dict[str, list[str | None]]:
    values = rows["relative"].to_pylist()
    return {"relative_side": ["above" if v > frozen["median"] else "below" for v in values]}
