"""Loads a recogniser's model in the process that uses it."""

from __future__ import annotations

from tasks.plugins import gpu
from tasks.plugins.contracts.asr import Backend, WarmedBackend
from tasks.plugins.loading import ASR
from tasks.settings import Plugin


def loaded(plugin: Plugin) -> Backend:
    """The recogniser's model, loaded and warmed up. ConfigError as `Shelf.resolve` raises it."""
    recogniser, settings = ASR.resolve(plugin)
    if recogniser.wants_gpu(settings):
        gpu.load_libraries()
    backend = recogniser.Backend(settings)
    if isinstance(backend, WarmedBackend):
        backend.warm()
    return backend
