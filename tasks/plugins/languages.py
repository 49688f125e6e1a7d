"""Checks the languages that settings state, before any clip is heard in one.

A list may also state a language for each of its lines: a clip in one that the recogniser does not
know fails alone, because the other clips are good.
"""

from __future__ import annotations

from tasks import language_codes
from tasks.errors import ConfigError
from tasks.job import Job
from tasks.plugins.explaining import joined
from tasks.plugins.loading import datasets, resolve


def check(job: Job) -> None:
    """ConfigError if a source or recogniser has a language that is no code, or if the first
    recogniser refuses a source's. A further recogniser may: the others count alone then."""
    found: list[str] = []
    segmenter, own = resolve("segmenters", job.filter.segmenter)
    hearing = segmenter.hears(own)
    for plugin in (*job.transcribe.recognisers, *([hearing] if hearing else [])):
        recogniser, own = resolve("asr", plugin)
        stated = getattr(own, "language", None)
        if stated and isinstance(stated, str):
            fault = language_codes.fault(stated) or recogniser.language_fault(own, stated)
            found += [f"language of the recogniser {plugin.use}: {fault}"] if fault else []
    first = job.transcribe.backend
    recogniser, own = resolve("asr", first)
    for dataset in datasets(job.sources):
        stated = dataset.settings.language
        if not stated:
            continue
        fault = language_codes.fault(stated)
        if fault is None and (refused := recogniser.language_fault(own, stated)):
            fault = (
                f"the recogniser {first.use} refuses {stated!r} ({refused}); "
                f"`uttermill plugins asr.{first.use}` says what it hears"
            )
        found += [f"language of the source {dataset.name!r}: {fault}"] if fault else []
    if found:
        raise ConfigError(joined([*dict.fromkeys(found)]))
