"""The shelves: a file's name is its registration, a dotted name imports your own module."""

from tasks.plugins.loading import (
    MOST_FAULTS,
    checked,
    explain,
    load,
    module_of,
    resolve,
    resolve_source,
)

__all__ = ["MOST_FAULTS", "checked", "explain", "load", "module_of", "resolve", "resolve_source"]
