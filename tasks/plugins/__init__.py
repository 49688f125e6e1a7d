"""The shelves of plug-ins: finding, loading and checking them; `contracts` says what each has."""

from tasks.plugins.complaints import complaints
from tasks.plugins.loading import (
    MEASURING,
    Dataset,
    checked,
    columns,
    datasets,
    doubts,
    load,
    module,
    resolve,
    resolve_source,
)
