"""The languages of sources that state none: those that hold a share of their speech."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from ..base.json_types import parsed
from ..settings.job import Job, Spoken
from ..storage import versions
from .utterance import LEAST_CLIPS, LEAST_SHARE, SURE_PROBABILITY

FROZEN = "source_languages"  # the entry of `frozen` in dataset.json
ASKED = ("dataset", "language", "probability", "seconds")
SHARE = 0.05  # least share of a source's speech in clips that are sure of one of its languages


def of_job(job: Job) -> Spoken:
    if job.languages is not None:
        return job.languages
    newest = versions.newest(job.out)
    return {} if newest is None else _published(versions.text_of(newest))


@lru_cache(maxsize=2)  # for commands that only read, each view of a shard needs them
def _published(dataset_json: bytes) -> Spoken:
    spoken: Spoken = parsed(dataset_json).get("frozen", {}).get(FROZEN, {})
    return spoken


def sums(heard: pa.Table) -> pa.Table:
    """Of clips (ASKED), by dataset and language: milliseconds, `all_sum`; the same times their
    probability, `certain_sum`; those of clips that are sure of it, `sure_sum`; `probability_min`
    and `all_count`."""
    ms, probability = pc.multiply(heard["seconds"], 1000.0), heard["probability"]
    sure = pc.if_else(pc.greater_equal(probability, SURE_PROBABILITY), ms, 0.0)
    lengths = {"certain": pc.multiply(ms, probability), "sure": sure, "all": ms}
    for name, value in lengths.items():  # integers, whose sum does not depend on their order
        heard = heard.append_column(name, pc.round(value).cast(pa.int64()))
    asked = [*((name, "sum") for name in lengths), ("probability", "min"), ("all", "count")]
    return heard.group_by(["dataset", "language"]).aggregate(asked)


def vote(sums_of_sources: pa.Table) -> Spoken:
    """The languages of sources with clips that are doubtful for these, the main one first.

    A vote is a clip's seconds times the probability of the language detected in it."""
    spoken: Spoken = {}
    for name in pc.unique(sums_of_sources["dataset"]).sort().to_pylist():
        rows = sums_of_sources.filter(pc.equal(sums_of_sources["dataset"], name)).to_pylist()
        rows.sort(key=lambda row: (-row["certain_sum"], row["language"]))
        whole = sum(row["all_sum"] for row in rows)
        sure = (row["language"] for row in rows[1:] if row["sure_sum"] >= SHARE * whole)
        languages = [rows[0]["language"], *sure]
        others = (row for row in rows if row["language"] not in languages)
        doubtful = any(row["probability_min"] < SURE_PROBABILITY for row in others)
        enough = sum(row["all_count"] for row in rows) >= LEAST_CLIPS
        if doubtful and enough and rows[0]["certain_sum"] >= LEAST_SHARE * whole:
            spoken[name] = languages
    return spoken
