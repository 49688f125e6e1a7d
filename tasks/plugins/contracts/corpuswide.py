"""Verdicts that need every utterance of the corpus, of filters and of verdicts on text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks.json_types import JsonObject
from tasks.plugins.contracts.base import PluginSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from tasks.plugins.rules import Rejection

#: decide(rows, settings, frozen) -> (rejections by id, what it freezes)
#:
#: `rows` has the columns of `tasks.corpuswide.ROW`, in the order of ids, of all utterances that
#: were heard, kept so far or not. Only rows that are kept may be rejected. `frozen` is what it
#: returned when the version before was published ({} at first, and on `package.refit`), so that
#: bounds do not move under what is published already; it is written as JSON.
Decide = Callable[
    ["pa.Table", PluginSettings, JsonObject], tuple[dict[str, "Rejection"], JsonObject]
]
