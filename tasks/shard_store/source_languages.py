"""The languages of sources that state none: those that hold a share of their speech."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from ..base.json_types import parsed
from ..scoring.speech_by_language import ORDER, SURE, sums
from ..settings.job import Job, Spoken
from ..storage import versions
from .utterance import LEAST_CLIPS, LEAST_SHARE

FROZEN = "source_languages"  # the entry of `frozen` in dataset.json
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


def vote(heard: Iterable[pa.Table]) -> Spoken:
    """The languages of sources with clips that are doubtful for these, the main one first.

    A vote is a clip's seconds times the probability of the language detected in it."""
    spoken: Spoken = {}
    rows_of_all = sums(heard).sort_by(ORDER).to_pylist()
    for name, group in groupby(rows_of_all, key=itemgetter("dataset")):
        rows = [*group]
        whole = sum(row["all"] for row in rows)
        sure = (row["language"] for row in rows[1:] if row["sure"] >= SHARE * whole)
        languages = [rows[0]["language"], *sure]
        others = (row for row in rows if row["language"] not in languages)
        doubtful = any(row["least"] < SURE for row in others)
        enough = sum(row["clips"] for row in rows) >= LEAST_CLIPS
        if doubtful and enough and rows[0]["certain"] >= LEAST_SHARE * whole:
            spoken[name] = languages
    return spoken
