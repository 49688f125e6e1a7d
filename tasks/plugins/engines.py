"""The plug-ins that a run's settings name, and the modules that those load late."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.job import Job
from tasks.plugins.loading import load, module
from tasks.settings import Plugin


def chosen(job: Job) -> Iterator[tuple[str, Plugin]]:
    """(shelf, plug-in) of all that a stage of the job uses."""
    shelves = {
        "diarizers": (job.speakers,),
        "segmenters": (job.filter.segmenter,),
        "filters": job.filter.filters,
        "enhance": (job.enhance,),
        "resamplers": (job.resample.resampler,),
        "levels": job.resample.levels,
        "asr": job.transcribe.recognisers,
        "text": job.transcribe.verdicts,
        "formats": job.package.formats,
    }
    return ((shelf, plugin) for shelf, some in shelves.items() for plugin in some)


def of(job: Job) -> dict[str, str]:
    """Modules that the job's stages reach, each with an attribute whose reading loads it: our
    plug-ins, and the libraries that plug-ins import when they are first used."""
    found: dict[str, str] = {}
    for shelf, plugin in chosen(job):
        found |= load(shelf, plugin.use).ENGINES
        if "." not in plugin.use:  # a user's module reports itself what it lacks
            found[module(shelf, plugin.use).__name__] = "Settings"
    if any(plugin.use != "none" for plugin in job.transcribe.recognisers):
        found["tasks.scoring.readings"] = "agreed"  # compares what was heard with what was read
    return found
