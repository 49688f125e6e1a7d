"""Runs one stage for one shard: reuses what exists, computes and commits what is missing.

The only checkpoint logic. `tasks.stages.contract` defines what a stage provides; this file adds
reuse, commits, quarantine and counts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol, cast

import numpy as np

from .. import storage
from ..base.errors import RunError
from ..base.schema import AnyRow
from ..settings.job import Done, Job, Spent
from ..shard_store import blobs, manifest, recipe, whole_job
from ..shard_store.blobs import MadeAudio
from ..shard_store.shard_view import ShardView
from ..storage.local import HashedFile, Publish
from . import compaction, contract
from .call import cpu_seconds
from .contract import PER_SHARD as PER_SHARD
from .contract import Unit

COMMIT_EVERY = 120.0  # s; a kill loses at most this much work of a long shard
COMMIT_BYTES = 512 << 20  # approximate bytes of a blob


class Progress(Protocol):
    def ahead(self, seconds: float) -> None:
        """Announce the audio to compute: what earlier stages left, less what is stored."""

    def done(self, seconds: float) -> None:
        """Report more audio computed."""


def pending(stage: str, job: Job, shard: str) -> tuple[int, int]:
    """(items that the stage would compute for the shard, items that it would reuse), after removing
    damaged parts. CorruptManifest for a damaged listing of the shard.

    A run calls this for every new shard, so it looks nothing up if nothing is stored.
    """
    view = ShardView(job, shard, manifest.repair_results, again=True)
    if stage == PER_SHARD[0] and not manifest.files(job.out, stage, shard):
        return sum(not row["error_code"] for row in view.processed), 0
    units, reused = contract.find(stage).todo(view)
    return sum(unit.items for unit in units), reused


def run(
    stage: str, job: Job, shard: str, isolate: bool = False, progress: Progress | None = None
) -> Done:
    """Compute and commit what the shard lacks. CorruptManifest if a part or blob that it needs is
    damaged: the caller removes that and calls again.

    With `isolate` every unit runs in a disposable process, one after the other: the culprit of a
    crash, a hang or a memory overrun is quarantined and the rest completes.
    """
    began = time.monotonic()
    done = _round(stage, job, shard, isolate, progress)
    for _ in range(contract.find(stage).rounds(job) - 1):
        if not done.computed:
            break
        more = _round(stage, job, shard, isolate, progress)
        # The first round has counted these items already.
        done = replace(done, seconds=done.seconds + more.seconds, spent=done.spent + more.spent)
        if not more.computed:
            break
    if compaction.compact(job.out, stage, shard, contract.find(stage).SCHEMA):
        done = replace(done, new=True)
    return replace(done, wall=time.monotonic() - began)


def _round(stage: str, job: Job, shard: str, isolate: bool, progress: Progress | None) -> Done:
    began = time.monotonic()
    module = contract.find(stage)
    units, reused = module.todo(ShardView(job, shard, manifest.repair_results, again=True))
    if progress:
        progress.ahead(sum(unit.seconds for unit in units))
    load = seconds = 0.0
    if isolate:
        from . import isolate as isolation

        # A clip that kills a resampler must do so in the resample stage, whose items are clips.
        results = isolation.results(stage, replace(job, cache_bytes=0), units)
    else:
        if units:
            from . import known_good

            loading = time.monotonic()
            module.load(job)
            known_good.check(stage, job, units)
            load = time.monotonic() - loading
        results = module.compute(units, job)
    clock = None if job.only is None else Clock(stage)
    with Sink(stage, job, shard) as sink:
        try:
            for unit, rows in zip(units, results, strict=True):
                if clock is not None:
                    clock.lap(unit)
                sink.add(rows)
                seconds += unit.seconds
                if progress:
                    progress.done(unit.seconds)
                if sink.held > COMMIT_BYTES or time.monotonic() - sink.since > COMMIT_EVERY:
                    sink.commit()
                if clock is not None:
                    clock.start()
            sink.commit()
        except RunError:  # such as a server that is down: keep its results
            sink.commit()
            raise
    return Done(
        stage,
        shard,
        computed=sum(unit.items for unit in units),
        reused=reused,
        seconds=seconds,
        wall=time.monotonic() - began,
        load=load,
        spent=() if clock is None else clock.spent(batched=module.BATCHED),
        converted=sink.converted,
        converted_seconds=sink.converted_seconds,
    )


_warm: set[str] = set()  # stages for which this process has computed a unit


class Clock:
    """Measures the time of each unit of a sample, between `start` and `lap`."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.laps: list[Spent] = []
        self.start()

    def start(self) -> None:
        self.wall, self.cpu = time.monotonic(), cpu_seconds()

    def lap(self, unit: Unit) -> None:
        wall, cpu = time.monotonic() - self.wall, cpu_seconds() - self.cpu
        cold = self.stage not in _warm
        _warm.add(self.stage)
        self.laps.append(Spent(unit.recording_name, unit.seconds, wall, cpu, cold))

    def spent(self, batched: bool) -> tuple[Spent, ...]:
        """The measured times; for a `batched` stage each unit's share of the total, by its
        audio."""
        if not batched:
            return tuple(self.laps)
        audio = sum(lap.audio for lap in self.laps) or 1.0
        wall, cpu = sum(lap.wall for lap in self.laps), sum(lap.cpu for lap in self.laps)
        return tuple(
            replace(lap, wall=wall * lap.audio / audio, cpu=cpu * lap.audio / audio, cold=False)
            for lap in self.laps
        )


class Sink(ExitStack):
    """Collects rows and commits them as parts: audio first, then the rows that point to it. PCM is
    written as it arrives; a commit names its blob.

    Rows of the filter stage may come with those of PCM, which are results of the resample stage:
    `converted` of them, with so many seconds of audio."""

    def __init__(self, stage: str, job: Job, shard: str) -> None:
        super().__init__()
        self.stage, self.job, self.shard = stage, job, shard
        self.converted, self.converted_seconds = 0, 0.0
        self.rows = defaultdict[str, list[AnyRow]](list)  # by their stage
        self._placed: list[MadeAudio] = []  # rows with PCM in the blob
        self.since = time.monotonic()
        self._staged: tuple[HashedFile, Publish] | None = None

    @property
    def held(self) -> int:
        return self._staged[0].size if self._staged else 0

    def add(self, rows: Sequence[AnyRow]) -> None:
        for row in rows:
            if "pcm" in row:
                audio_row = cast(MadeAudio, row)
                samples = audio_row.pop("pcm")
                audio_row["offset"] = self.held
                if self._staged is None:
                    home = blobs.folder(self.job.out, self.shard)
                    self._staged = self.enter_context(storage.store_of(home).staged(home))
                self._staged[0].write(np.ascontiguousarray(samples, dtype="<i2").data)
                self._placed.append(audio_row)
            stage = "resample" if self.stage == "filter" and "audio" in row else self.stage
            self.rows[stage].append(row)
            if stage != self.stage:
                audio = cast(MadeAudio, row)
                self.converted += 1
                if not audio.get("error_code"):
                    self.converted_seconds += audio["num_samples"] / audio["rate"]

    def commit(self) -> None:
        taken, self.rows, self.since = self.rows, defaultdict(list), time.monotonic()
        placed, self._placed = self._placed, []
        staged, self._staged = self._staged, None
        if staged is not None:
            name = staged[1]("{}.pcm".format).name
            self.close()
            for row in placed:
                row["blob"] = name
        job = self.job
        for stage in reversed(PER_SHARD):  # PCM before the rows that it came with
            if rows := taken.get(stage):
                module = contract.find(stage)
                meta = module.meta(job)
                weights = recipe.weights_of(job.transcribe.recognisers)
                meta[compaction.RECIPE] = whole_job.of_stage(stage, job, weights)
                manifest.commit(job.out, stage, self.shard, rows, module.schema_of(rows), meta)
