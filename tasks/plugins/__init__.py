"""The kinds of plug-ins: finding, loading and checking them; `contracts` defines the members of
each."""

from .complaints import complaints
from .loading import (
    ASR,
    DIARIZERS,
    ENHANCE,
    FILTERS,
    FORMATS,
    LEVELS,
    MEASURING,
    RESAMPLERS,
    SEGMENTERS,
    SOURCES,
    TEXT,
    Dataset,
    Shelf,
    annotated,
    annotates,
    checked,
    columns,
    datasets,
    doubts,
    load,
    measuring,
    module,
    resolve,
    resolve_source,
)
