"""Which spans of the ledger a report shows, and what is known of each: text, measures, where the
audio lies. A seeded draw: at most PER_REASON of each reason, and as many packaged ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks import manifest, storage
from tasks.job import Job
from tasks.manifest import Row
from tasks.recording import Locator
from tasks.report.facts import REMOVED, Ledger
from tasks.stage import view_of
from tasks.storage import tables
from tasks.view import Utterance, final_text

PER_REASON = 8
IN_ALL = 80
SHARDS = 4096  # of which recordings are looked up; in a larger corpus, of so many of its shards


@dataclass(slots=True)
class Sample:
    """One span of the ledger, with all that a report says of it."""

    row: Row
    shard: str | None = None
    locator: Locator | None = None
    text: str | None = None
    text_source: str | None = None
    heard: str | None = None
    reference: str | None = None
    measures: dict[str, float] = field(default_factory=dict)
    pcm: Row | None = None

    @property
    def kept(self) -> bool:
        return bool(self.row["outcome"] == "packaged")


def choose(ledger: Ledger, seed: int) -> list[Sample]:
    """Samples in the order of reasons, packaged ones first; within one, in the ledger's order."""
    codes, reasons = ledger.reasons()
    groups = {
        reason: np.flatnonzero(codes == code)
        for code, reason in enumerate(reasons)
        if reason[1] != REMOVED
    }
    most = _quota([len(rows) for rows in groups.values()])
    chosen: list[int] = []
    for index, rows in enumerate(groups.values()):
        draw = np.random.default_rng([seed, index])
        chosen += draw.choice(rows, min(len(rows), most), replace=False).tolist()
    samples = [Sample(row) for row in ledger.rows(chosen)]
    return sorted(samples, key=lambda s: (not s.kept, s.row["stage"], s.row["reason"]))


def _quota(counts: Sequence[int]) -> int:
    """How many of each reason, so that all of them are at most IN_ALL; 1 at least."""
    for most in range(PER_REASON, 1, -1):
        if sum(min(count, most) for count in counts) <= IN_ALL:
            return most
    return 1


def look_up(job: Job, samples: Sequence[Sample]) -> None:
    """Fill in what the manifests know; a sample whose recording is not found stays as it is."""
    wanted: dict[str, list[Sample]] = {}
    for sample in samples:
        wanted.setdefault(sample.row["recording"], []).append(sample)
    for shard, names in _shards_of(job, set(wanted)).items():
        view = view_of(job, shard)
        view.recordings = [r for r in view.recordings if r["recording"] in names]
        here = [s for r in view.recordings for s in wanted[r["recording"]]]
        locators = {r["recording"]: Locator.loads(r["locator"]) for r in view.recordings}
        utterances = {u.id: u for u in view.decided()} if any(
            s.row["utterance"] for s in here) else {}  # fmt: skip
        for sample in here:
            sample.shard, sample.locator = shard, locators[sample.row["recording"]]
            utterance = utterances.get(sample.row["utterance"])
            if utterance is not None:
                _tell(job, sample, utterance)


def _tell(job: Job, sample: Sample, utterance: Utterance) -> None:
    sample.reference = utterance.reference
    heard = utterance.heard
    if heard is not None and not heard["error_code"]:
        sample.text, sample.text_source = final_text(job, utterance)
        sample.heard = heard["text"]
    elif utterance.reference:
        sample.text, sample.text_source = utterance.reference, "reference"
    values: dict[str, Any] = {**utterance.measures, **utterance.texts}
    sample.measures = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if utterance.pcm is not None and not utterance.pcm["error_code"]:
        sample.pcm = utterance.pcm


def _shards_of(job: Job, recordings: set[str]) -> dict[str, set[str]]:
    """Which shard holds which of these recordings; only names are read of the manifests."""
    shards = manifest.shards(job.out)
    if len(shards) > SHARDS:
        draw = np.random.default_rng(job.package.seed)
        shards = sorted(draw.choice(shards, SHARDS, replace=False).tolist())
    found: dict[str, set[str]] = {}
    left = set(recordings)
    for shard in shards:
        parts = storage.names(manifest.folder(job.out, "shard", shard), ".parquet")
        newest = max(parts, key=manifest.number_of, default=None)
        if newest is None or not left:
            continue
        names = tables.read(newest, columns=["recording"])["recording"].to_pylist()
        here = left.intersection(names)
        if here:
            found[shard] = here
            left -= here
    return found
