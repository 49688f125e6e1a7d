"""The kinds of plug-ins: finding, loading and checking them; `contracts` defines the members of
each."""

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
    checked,
    columns,
    complaints,
    datasets,
    doubts,
    load,
    module,
    resolve,
    resolve_source,
)
