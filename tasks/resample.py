"""Stage resample: kept utterances in, int16 PCM at the target rate out, exact to the sample.

An item is an utterance; a unit is a recording with all its utterances that lack PCM, because it is
decoded once for all of them. Before: a span of a recording. After: a row with `num_samples`, the
PCM's hash, and where it lies in a blob.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tasks import blobs, cutting, handover, pcm, view
from tasks.errors import ItemError
from tasks.job import Job
from tasks.manifest import Row
from tasks.recording import Locator
from tasks.schema import AUDIO
from tasks.segmenters import Span

log = logging.getLogger("uttermill")

SCHEMA = AUDIO


@dataclass(frozen=True, slots=True)
class Unit:
    """One recording and the spans of it to convert, with the recipes of their PCM."""

    recording: Row
    spans: tuple[tuple[int, int, str], ...]  # start, end, recipe
    rate: int

    @property
    def name(self) -> str:
        return str(self.recording["recording"])

    @property
    def items(self) -> int:
        return len(self.spans)

    @property
    def seconds(self) -> float:
        return sum(end - start for start, end, _ in self.spans) / self.rate


def meta(job: Job) -> dict[str, Any]:
    return {}


def todo(shard: view.ShardView) -> tuple[list[Unit], int]:
    """Recordings with kept utterances that lack PCM, and how many utterances have it."""
    missing: dict[str, list[view.Utterance]] = {}
    reused = 0
    seen: set[str] = set()
    lost: set[str] = set()
    for utterance in shard.resampled():
        if utterance.pcm is not None:
            reused += 1
        elif utterance.outcome.stage == "resample" and utterance.audio not in seen:
            seen.add(utterance.audio)  # a span that is given twice needs its PCM once
            lost.add(shard.lost.get(utterance.audio, ""))
            missing.setdefault(utterance.recording["recording"], []).append(utterance)
    for blob in sorted(lost - {""}):
        log.warning("audio blob %s is gone or cut short; its items are computed again", blob)
    units = [
        Unit(few[0].recording, tuple((u.start, u.end, u.audio) for u in few), few[0].rate)
        for few in missing.values()
    ]
    return units, reused


def compute(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """Rows of each unit, in order; `pcm` in a row is its int16 samples, still to be stored."""
    for unit in units:
        try:
            rows = _convert(unit, job)
        except ItemError as error:
            rows = failure(unit, error.code, error.detail)
        except MemoryError as error:
            rows = failure(unit, "out_of_memory", str(error))
        locator = Locator.loads(unit.recording["locator"])
        yield rows if cutting.unchanged(locator, unit.recording["guard"]) else []


def failure(unit: Unit, code: str, detail: str) -> list[Row]:
    return [
        {
            "audio": recipe, "recording": unit.name, "start": start, "end": end,
            "error_code": code, "error_detail": detail[:500],
        }
        for start, end, recipe in unit.spans
    ]  # fmt: skip


def _convert(unit: Unit, job: Job) -> list[Row]:
    content = unit.recording["content"]
    rows, rest = [], []
    for start, end, recipe in unit.spans:
        held = handover.take(job, content, start, end)
        if held is None:
            rest.append((start, end, recipe))
        else:
            rows.append(_row(unit, start, end, recipe, pcm.convert(*held, job.resample), job))
    if rest:
        recipes = {(start, end): recipe for start, end, recipe in rest}
        wanted = cutting.Known([Span(start, end) for start, end in recipes])
        locator = Locator.loads(unit.recording["locator"])
        for span, clip in cutting.spans(locator, cutting.Walk(), lambda _: wanted):
            assert clip is not None
            samples = pcm.convert(clip.samples(), clip.rate, job.resample)
            key = (span.start, span.end)
            rows.append(_row(unit, *key, recipes[key], samples, job))
    return sorted(rows, key=lambda row: (row["start"], row["end"]))


def _row(unit: Unit, start: int, end: int, recipe: str, samples: blobs.Pcm, job: Job) -> Row:
    return {
        "audio": recipe, "recording": unit.name, "start": start, "end": end,
        "rate": job.resample.rate, "num_samples": len(samples), "sha256": blobs.sha256(samples),
        "pcm": samples,
    }  # fmt: skip
