"""The decisions by people that apply to a job.

A run pins the file of decisions at its beginning (`pinned`): the file's length and hash travel with
the job, and each worker reads that much of it. Queries between runs use the current file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ..base.counting import counted
from ..base.errors import RunError
from ..base.json_types import Reviews
from ..base.logs import log
from ..recording import forgotten
from ..settings.job import Job, Pinned
from ..storage import versions
from . import decision_log
from .decision_log import Decision


def pinned(job: Job) -> Job:
    """The job with the current decisions; unchanged if it already has some."""
    if job.reviews is not None:
        return job
    data = decision_log.stored(job.out)
    return replace(job, reviews=Pinned(len(data), hashlib.sha256(data).hexdigest()))


def by_utterance(job: Job) -> Mapping[str, Decision]:
    """The decision that counts for each utterance, by id. Raises RunError if the pinned part of the
    file has changed."""
    if job.reviews is not None and not job.reviews.size:
        return {}
    data = decision_log.stored(job.out)
    if job.reviews is not None:
        data = data[: job.reviews.size]
        if hashlib.sha256(data).hexdigest() != job.reviews.sha256:
            raise RunError(
                f"{decision_log.path(job.out)} was changed during the run, "
                "other than by appending; run again"
            )
    return _last(data)


@lru_cache(maxsize=2)
def _last(data: bytes) -> Mapping[str, Decision]:
    return decision_log.last(decision_log.read(data))


def warn_of_gone(job: Job, newest: Path) -> None:
    """Warn if OUT has decisions on fewer utterances than its newest version was made with, and
    nothing was removed on request. An undone decision stays in the file."""
    reviews = versions.described(newest).get("reviews")
    then = sum(n for n in reviews.values() if isinstance(n, int)) if reviews else 0
    now = len({decision.id for decision in decision_log.read(decision_log.stored(job.out))})
    if now < then and not forgotten.read(job.out).recordings:
        log.warning(
            "%s has decisions by people on %s, and %s was made with %d: the others do not count "
            "any more; restore the file if they should",
            decision_log.path(job.out),
            counted(now, "utterance"),
            newest.name,
            then,
        )


def identity(by_id: Mapping[str, Decision]) -> str:
    """Hash of the effects of decisions, without their times; empty if there are none."""
    if not by_id:
        return ""
    effects = [
        [d.id, d.decision, d.text, d.who, d.note, *([d.start, d.end] if d.end else [])]
        for _, d in sorted(by_id.items())
    ]
    return hashlib.sha256(json.dumps(effects).encode()).hexdigest()


def described(job: Job) -> Reviews | None:
    """The entry for dataset.json; None without decisions."""
    by_id = by_utterance(job)
    if not by_id:
        return None
    kinds = Counter(decision.decision for decision in by_id.values())
    reviews: Reviews = {
        "keep": kinds["keep"],
        "drop": kinds["drop"],
        "retext": kinds["retext"],
        "sha256": identity(by_id),
    }
    if kinds["recut"]:
        reviews["recut"] = kinds["recut"]
    return reviews
