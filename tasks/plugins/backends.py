"""Loads recognisers' models in the process that uses them."""

from __future__ import annotations

from collections.abc import Collection

from ..settings import Plugin
from . import gpu
from .contracts.asr import Backend
from .loading import ASR


def loaded(plugin: Plugin) -> Backend:
    """The recogniser's model, loaded and warmed up. ConfigError as by `Shelf.resolve`."""
    recogniser, settings = ASR.resolve(plugin)
    if recogniser.wants_gpu(settings):
        gpu.load_libraries()
    backend = recogniser.Backend(settings)
    if hasattr(backend, "warm"):
        backend.warm()
    return backend


#: This worker process's models, by plug-in: not by its JSON, which hides secrets.
_kept: dict[Plugin, Backend] = {}


def kept(plugin: Plugin, chosen: Collection[Plugin]) -> Backend:
    """A recogniser's model: `loaded` once, then cached as long as the settings choose it."""
    for other in _kept.keys() - {*chosen}:
        del _kept[other]
    if plugin not in _kept:
        _kept[plugin] = loaded(plugin)
    return _kept[plugin]
