"""The plug-ins that a run's settings name, and the modules that those load late."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.job import Job
from tasks.plugins.loading import load, module


def chosen(job: Job) -> Iterator[tuple[str, str]]:
    """(shelf, name) of every plug-in that a stage of the job uses."""
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
    return ((shelf, plugin.use) for shelf, some in shelves.items() for plugin in some)


def of(job: Job) -> dict[str, str]:
    """Modules that the job's stages reach, each with an attribute whose reading loads it: our
    plug-ins, and the libraries that plug-ins import when they are first used."""
    found: dict[str, str] = {}
    for shelf, use in chosen(job):
        found |= load(shelf, use).ENGINES
        if "." not in use:  # a user's module reports itself what it lacks
            found[module(shelf, use).__name__] = "Settings"
    return found
