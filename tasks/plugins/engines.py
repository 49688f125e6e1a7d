"""The plug-ins that a run's settings name, and the modules that these import late."""

from __future__ import annotations

from operator import attrgetter

from ..settings import Plugin
from ..settings.job import Job
from .loading import load, module
from .trusted import PLACES


def chosen(job: Job) -> list[tuple[str, Plugin]]:
    """(kind, plug-in) of all plug-ins that a stage of the job uses, each once."""
    plugins_used: list[tuple[str, Plugin]] = []
    for place, shelf in PLACES.items():
        named = attrgetter(place)(job)
        plugins_used += [
            (shelf, plugin) for plugin in (named if isinstance(named, tuple) else [named])
        ]
    return [*dict.fromkeys(plugins_used)]  # the first of `backends` is `backend`


def modules(job: Job) -> dict[str, str]:
    """Modules that the job's stages need, each with an attribute whose reading loads it: our
    plug-ins, and the libraries that plug-ins import on first use."""
    engines: dict[str, str] = {}
    for shelf, plugin in chosen(job):
        engines |= load(shelf, plugin.use).ENGINES
        if "." not in plugin.use:  # a user's module reports missing libraries itself
            engines[module(shelf, plugin.use).__name__] = "Settings"
    if any(plugin.use != "none" for plugin in job.transcribe.recognisers):
        engines["uttermill.tasks.scoring.readings"] = (
            "agreed"  # compares hypotheses with references
        )
    if any(source.options.get("channels") == "auto" for source in job.sources):
        engines["onnxruntime"] = "InferenceSession"
    return engines
