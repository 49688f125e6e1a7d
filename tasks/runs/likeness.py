"""What has to be alike in all processes that compute for a run, because other data would come of
others: code, libraries, weights, and the kind of processor."""

from __future__ import annotations

import platform
import unicodedata
from collections.abc import Mapping
from hashlib import sha256

from ..plugins import source_code
from ..publish.dataset import datacard
from ..settings.job import Job
from ..shard_store import recipe, whole_job

Likeness = Mapping[str, str]

CODE, PLUGINS, WEIGHTS = (
    "uttermill's code",
    "the code of plug-ins",
    "weights or versions of plug-ins",
)
HASHES = {CODE, PLUGINS, WEIGHTS}  # of which only people who look know more
NOT_DATA = {"uttermill", "python"}  # uttermill's own is compared by its code


def of_this_process(job: Job) -> Likeness:
    """What this process would compute the job with. ConfigError for a model that is missing."""
    import soxr

    from ..audio import encoding  # which loads the decoders

    versions = {n: v for n, v in datacard.libraries().items() if n not in NOT_DATA}
    computing = [whole_job.recipes_of(job), recipe.weights_of(job.transcribe.recognisers)]
    return {
        CODE: source_code.of_package(),
        PLUGINS: _hash(sorted(source_code.of_own_plugins(job))),
        WEIGHTS: _hash(computing),
        **versions,
        **encoding.versions(),
        "libsoxr": soxr.__libsoxr_version__,
        "Unicode": unicodedata.unidata_version,
        "the processor": platform.machine(),
    }


def differences(ours: Likeness, theirs: Likeness) -> list[str]:
    """Each difference for people: `numpy 1.26.4 (here 2.3.1)`, or `uttermill's code`."""
    return [
        name if name in HASHES else f"{name} {theirs.get(name)} (here {ours.get(name)})"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    ]


def _hash(what: object) -> str:
    return sha256(repr(what).encode()).hexdigest()
