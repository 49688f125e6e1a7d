"""What each source was taken for, and what of it is not taken, for plans and runs."""

from __future__ import annotations

from collections.abc import Sequence

from tasks import plugins
from tasks.base import masking
from tasks.base.errors import MillError
from tasks.base.json_types import JsonObject
from tasks.settings import Source


def of(sources: Sequence[Source]) -> list[JsonObject]:
    """`{source, kind, says}` of each source that says something; one that cannot be looked at now
    says nothing, as whoever lists it tells why."""
    told = []
    for dataset in plugins.datasets(sources):
        try:
            says = [masking.text(each) for each in dataset.source.notes(dataset.settings)]
        except (MillError, OSError):
            continue
        if says:
            told.append({"source": dataset.name, "kind": dataset.settings.kind, "says": says})
    return told
