"""The languages that the last run detected in sources that state none, and the setting to state
one.

Languages are weighted by seconds times probability, over all clips with a detected language,
packaged or not.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from .. import plugins
from ..base.errors import CorruptManifest
from ..publish.outcomes import shard_batches
from ..scoring import speech_by_language
from ..settings.job import Job
from ..stages.listing import skipped
from ..stages.listing.skipped import SourceNotes

COLUMNS = ["dataset", "language", "language_probability", "seconds"]
SHOWN = 0.02  # least share that is listed
NEARLY_ALL = 0.8  # least share, of the sum of probabilities, of a language that is proposed


def notes(job: Job) -> list[SourceNotes]:
    """The notes on each source, with the languages detected in it."""
    noted = skipped.notes_of(job.sources)
    sentences = of_sources(job)
    by_source = {one["source"]: one for one in noted}
    for dataset in plugins.datasets(job.sources):
        if (says := sentences.get(dataset.name)) is None:
            continue
        if dataset.name in by_source:
            by_source[dataset.name]["says"].append(says)
        else:
            noted.append({"source": dataset.name, "kind": dataset.settings.kind, "says": [says]})
    return noted


def of_sources(job: Job) -> dict[str, str]:
    """A sentence, without a full stop, for each source that states no language; {} before the first
    run, and after one whose recogniser does not listen."""
    if not plugins.ASR.load(job.transcribe.backend.use).LISTENS:
        return {}
    try:
        batches = shard_batches.stored(job.out)
        parts = [one.table(shard_batches.LIMITS, COLUMNS).select(COLUMNS) for one in batches]
    except (CorruptManifest, OSError, pa.ArrowException):  # damaged: the next run makes it again
        return {}
    names = ["dataset", "language", "probability", "seconds"]
    heard = (part.drop_null().rename_columns(names) for part in parts)
    shares: dict[str, dict[str, float]] = {}
    whole = Counter[str]()
    for row in speech_by_language.sums(heard).to_pylist():
        shares.setdefault(row["dataset"], {})[row["language"]] = row["certain"]
        whole[row["dataset"]] += row["all"]
    stated = {d.name for d in plugins.datasets(job.sources) if d.settings.language}
    return {
        name: _sentence({code: share / whole[name] for code, share in languages.items()})
        for name, languages in sorted(shares.items())
        if name not in stated and whole[name]
    }


def _sentence(shares: dict[str, float]) -> str:
    first, *others = sorted(shares, key=lambda code: (-shares[code], code))
    codes = [first, *(code for code in others if shares[code] >= SHOWN)]
    listed = ", ".join(f"{code} {shares[code]:.0%}" for code in codes)
    rest = 1 - sum(shares[code] for code in codes)
    says = f"no language is set, and the last run heard {listed}"
    says += f", uncertain {rest:.0%}" if rest >= SHOWN else ""
    if shares[first] >= NEARLY_ALL * sum(shares.values()):
        return f"{says}; if all of it is {first}, set language: {first}"
    return f"{says}; split the source by language, or set its language"
