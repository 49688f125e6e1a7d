"""The shelves of plug-ins: finding, loading and checking them; `contracts` says what each has."""

from tasks.plugins.complaints import complaints
from tasks.plugins.datasets import Dataset, datasets
from tasks.plugins.loading import MEASURING, checked, columns, load, module, resolve, resolve_source

__all__ = [
    "MEASURING",
    "Dataset",
    "checked",
    "columns",
    "complaints",
    "datasets",
    "load",
    "module",
    "resolve",
    "resolve_source",
]
