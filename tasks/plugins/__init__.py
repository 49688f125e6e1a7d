"""The shelves of plug-ins: finding, loading and checking them; `contracts` says what each has."""

from tasks.plugins.datasets import Dataset, datasets
from tasks.plugins.loading import (
    MEASURING,
    MOST_FAULTS,
    checked,
    columns,
    explain,
    load,
    module,
    resolve,
    resolve_source,
)

__all__ = [
    "MEASURING",
    "MOST_FAULTS",
    "Dataset",
    "checked",
    "columns",
    "datasets",
    "explain",
    "load",
    "module",
    "resolve",
    "resolve_source",
]
