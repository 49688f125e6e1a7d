"""Forecasts a run from a sample: hours kept, work, wall time and disk, each with an interval.

A sample does not show the hours that duplicates, corpus-wide outliers, splits or limits on a
speaker's hours take; kept hours include them. Disk is the space that a run adds to OUT (resampled
audio, manifests, a dataset version), without temporary files elsewhere. Wall time follows the
sample's speed on the same number of workers, including their start and the loading of models;
`LEFT_OUT` lists what it excludes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...base.arrays import Float64s
from ...base.json_types import JsonObject
from ...settings.job import Done, Spent
from .sample import Key, Member, SampleResult

# Extrapolates totals from a sample to the corpus, with 90 % intervals.
#
# The length x of each recording is known from its header, and y (seconds kept, work, bytes) for the
# sampled ones. A stratum's total is its ratio of sums times the audio without a known y, plus the
# known y: the separate ratio estimator (Cochran, Sampling Techniques, 3rd ed. 1977, 6.10),
# with the variance of its residuals d = y - R x and the finite population correction (6.11,
# 6.44). The degrees of freedom of the t interval are Satterthwaite's (5.4, 5.16 there).
#
# The variance within strata of two or three recordings is uncertain, so it is shrunk towards that
# of all strata, as if POOL more recordings had shown that one; a stratum without any variance gets
# the common one. If no stratum shows a loss, a share gets the variance of half a recording lost and
# half a recording kept (as Agresti and Coull do, with Jeffreys's halves).
# tests/insight/test_estimate.py simulates the coverage: on populations of four kinds, 90 %
# intervals contain the truth in 86 to 91 % of 200 draws, with 50 recordings of 400 and with 120 of
# 1,500. They cover the randomness of the draw, not a machine that is busier later, or another one.

CONFIDENCE = 0.9
POOL = 2.0
LEAST_KNOWN = 2  # recordings with a known y that a stratum needs for a ratio of its own


class Interval(NamedTuple):
    """An expected value and the bounds of its 90 % interval."""

    expected: float
    low: float
    high: float

    def times(self, factor: float, plus: float = 0.0) -> Interval:
        """The interval of `factor * x + plus`."""
        return Interval(*(factor * x + plus for x in self))

    def as_dict(self, digits: int = 6) -> dict[str, float]:
        """Expected value and bounds, rounded to `digits`."""
        return {name: round(value, digits) for name, value in self._asdict().items()}


@dataclass(frozen=True, slots=True)
class Stratum:
    """The sampled recordings of one stratum, and the size of the rest."""

    x: Float64s  # lengths of sampled recordings, s
    y: Float64s  # their values
    rest: float  # audio of the recordings without a known value, s
    count: int  # their number


def interval_of_total(
    strata: Sequence[Stratum], known_sum: float = 0.0, share: bool = False
) -> Interval:
    """Sum of y over all recordings: `known_sum` plus the forecast of the rest, which is at least 0.

    `share`: whether y is a part of x, as kept seconds are of seconds.
    """
    from scipy import stats

    cells = collapsed(strata)
    if not cells:
        return Interval(known_sum, known_sum, known_sum)
    ratios = [_ratio(cell) for cell in cells]
    expected = sum(r * cell.rest for r, cell in zip(ratios, cells, strict=True))
    pooled = _pooled(cells, ratios, share)
    parts, freedom = [], []
    for r, cell in zip(ratios, cells, strict=True):
        n, m = len(cell.x), cell.count
        size = float(np.mean(np.square(cell.x))) * (1.0 if share else r**2)
        squares = float(np.square(cell.y - r * cell.x).sum())
        weight = n - 1 if squares > 1e-9 * size else 0
        spread = (squares + POOL * pooled * size) / (weight + POOL)
        # The rest of m recordings, from n: (1 - f) N^2 / n = m (n + m) / n. Scaled to the audio of
        # the rest, whose recordings may be longer or shorter than those of the sample.
        scale = cell.rest / (m * cell.x.mean()) if m and cell.x.mean() else 0.0
        parts.append(m * (n + m) / n * spread * scale**2)
        freedom.append(n - 1 + POOL)
    variance = sum(parts)
    if not variance:
        return Interval(known_sum + expected, known_sum + expected, known_sum + expected)
    df = variance**2 / sum(v**2 / f for v, f in zip(parts, freedom, strict=True))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, df)) * variance**0.5
    low, high = max(0.0, expected - half), expected + half
    if share:  # with overlapping windows or wrong headers, y may exceed x
        high = min(high, sum(c.rest * max(1.0, float((c.y / c.x).max())) for c in cells))
    return Interval(known_sum + expected, known_sum + low, known_sum + max(high, expected))


def collapsed(strata: Sequence[Stratum]) -> list[Stratum]:
    """The strata with recordings to forecast, each with at least LEAST_KNOWN known ones: strata
    with fewer are merged with each other and, if that is not enough, with the smallest others."""
    full = [s for s in strata if len(s.x) >= LEAST_KNOWN]
    few = [s for s in strata if len(s.x) < LEAST_KNOWN and (s.count or len(s.x))]
    if any(s.count for s in few):
        full.sort(key=lambda s: len(s.x), reverse=True)
        while sum(len(s.x) for s in few) < LEAST_KNOWN and full:
            few.append(full.pop())
        if sum(len(s.x) for s in few):
            full.append(
                Stratum(
                    np.concatenate([s.x for s in few]),
                    np.concatenate([s.y for s in few]),
                    sum(s.rest for s in few),
                    sum(s.count for s in few),
                )
            )
    return [s for s in full if s.count]


def _ratio(cell: Stratum) -> float:
    length = float(cell.x.sum())
    return float(cell.y.sum()) / length if length else 0.0


def _pooled(cells: Sequence[Stratum], ratios: Sequence[float], share: bool) -> float:
    """Variance of y / x around its stratum's ratio R, over all strata with equal weight for each
    recording; if y is not a share, variance of y / (R x)."""
    n = sum(len(c.x) for c in cells)
    squares = sum(
        float(np.square((c.y - r * c.x) / (c.x if share else r * c.x)).sum())
        for r, c in zip(ratios, cells, strict=True)
        if share or r
    )
    # With one recording in each stratum the variance is unknown; assume that of the ratio's size.
    variance = squares / (n - len(cells)) if n > len(cells) else 1.0
    if not share:
        return variance
    lost = n - sum(float((c.y / c.x).clip(0, 1).sum()) for c in cells)
    nearly = (lost + 0.5) / (n + 1)
    return max(variance, nearly * (1 - nearly) if min(lost, n - lost) < 0.5 else 0.0)


LEFT_OUT = (
    "hours that copies, outliers of the whole corpus, splits and limits on a speaker's hours take",
    "time for listing, for other programs on the machine, for workers idle at the end, for crashes",
    "disk of temporary files and of reports",
)


@dataclass(slots=True)
class Costs:
    """Costs of the sample's calls, s."""

    laps: dict[str, dict[str, list[Spent]]] = field(default_factory=dict)  # by stage, recording
    overhead: dict[str, float] = field(default_factory=dict)  # of one call, by stage
    load: float = 0.0  # loading models on one worker
    kinds: dict[str, str] = field(default_factory=dict)  # CPU or GPU: workers of each stage
    workers: dict[str, int] = field(default_factory=dict)  # number of each kind
    start: float = 0.0  # until the first worker was ready
    gap: float = 0.0  # between two calls of a worker: Prefect, the scheduler
    package: float = 0.0  # writing and checking, per second kept
    gather: float = 0.0  # planning on a single worker, per second kept


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes that a run adds to OUT."""

    row: float = 0.0  # manifests, per second of audio
    part: float = 0.0  # a shard's manifests without their rows
    formats: Mapping[str, float] = field(default_factory=dict)  # per second kept
    published: float = 0.0  # s of audio that the newest version has already


def costs(dones: Sequence[Done]) -> Costs:
    """The costs of the calls that computed something for the sample."""
    total = Costs()
    overheads: dict[str, list[float]] = {}
    for done in dones:
        if not done.computed:
            continue
        laps = total.laps.setdefault(done.stage, {})
        for lap in done.spent:
            laps.setdefault(lap.recording, []).append(lap)
        overhead = done.wall - done.load - sum(lap.wall for lap in done.spent)
        overheads.setdefault(done.stage, []).append(max(0.0, overhead))
        total.load = max(total.load, done.load)
    total.overhead = {stage: float(np.median(times)) for stage, times in overheads.items()}
    return total


class Forecast:
    """Totals over all recordings: known values, and the sample's ratios for the rest.

    `population`: all recordings, by stratum; `drawn`: the sampled ones, by stratum; `seen`: known
    results, by recording, sampled or not.
    """

    def __init__(
        self,
        population: Mapping[Key, Sequence[Member]],
        drawn: Mapping[Key, Sequence[Member]],
        seen: Mapping[str, SampleResult],
        spent: Costs,
        sizes: Sizes,
    ) -> None:
        self.population, self.drawn, self.seen = population, drawn, seen
        self.spent, self.sizes = spent, sizes
        self.members = [m for stratum in population.values() for m in stratum]
        self.rest = [m for m in self.members if m.recording not in seen]
        # Each worker's first unit must count if there are hardly any others.
        laps = [*chain(*spent.laps.get("filter", {}).values())]
        self._cold = 2 * sum(lap.cold for lap in laps) > len(laps)

    def strata(self, of: Callable[[Member], float | None]) -> list[Stratum]:
        """The strata with the sampled values that `of` returns, None for no value."""
        cells = []
        for key, every in self.population.items():
            pairs = [(m.seconds, of(m)) for m in self.drawn[key] if m.recording in self.seen]
            measured = [(x, y) for x, y in pairs if y is not None]
            rest = [m.seconds for m in every if m.recording not in self.seen]
            x, y = np.array(measured, dtype=np.float64).reshape(-1, 2).T
            cells.append(Stratum(x, y, float(sum(rest)), len(rest)))
        return cells

    def kept(self, dataset: str | None = None) -> Interval:
        """Seconds that would be packaged, of one dataset or of all."""

        def value(m: Member) -> float | None:
            return self.seen[m.recording].kept if dataset in (None, m.dataset) else 0.0

        known_seconds = sum(value(m) or 0.0 for m in self.members if m.recording in self.seen)
        strata = [
            stratum
            for stratum, members in zip(self.strata(value), self.population.values(), strict=True)
            if dataset is None or any(m.dataset == dataset for m in members)
        ]
        return interval_of_total(strata, known_seconds, share=True)

    def lap(self, m: Member, stage: str, what: str) -> float | None:
        """Seconds (`what`: wall or cpu) that a stage took for a recording; None if unknown."""
        laps = self.spent.laps.get(stage, {}).get(m.recording)
        if laps is None:  # it did not reach the stage, or its results were stored already
            return 0.0 if m.recording in self.spent.laps.get("filter", {}) else None
        if any(lap.cold for lap in laps) and not self._cold:
            return None
        return float(sum(getattr(lap, what) for lap in laps))

    def work(self, stages: Sequence[str], what: str) -> Interval | None:
        """Worker seconds (`what`: wall or cpu) that these stages will still take, without the
        overhead of calls; None if nothing was measured."""

        def value(m: Member) -> float | None:
            parts = [self.lap(m, stage, what) for stage in stages]
            return None if None in parts else sum(p for p in parts if p is not None)

        strata = self.strata(value)
        if self.rest and not any(len(s.x) for s in strata):
            return None
        return interval_of_total(strata)

    def wall(self) -> Interval | None:
        """Duration of a run, s; CPU and GPU workers run in parallel. None if nothing was
        measured."""
        shards = len({m.shard for m in self.rest})
        times = []
        for kind, count in self.spent.workers.items():
            stages = [s for s, on in self.spent.kinds.items() if on == kind]
            work = self.work(stages, "wall")
            if work is None:
                return None
            overheads = [self.spent.overhead.get(stage, 0.0) + self.spent.gap for stage in stages]
            calls = shards * sum(overheads)
            times.append(work.times(1 / count, calls / count))
        longest = max(times, key=lambda time: time.expected)
        kept = self.kept().expected
        new = max(0.0, kept - self.sizes.published)
        package = self.spent.package * new / max(self.spent.workers.get("CPU", 1), 1)
        package += self.spent.gather * kept
        load = self.spent.load if self.rest else 0.0
        return longest.times(1.0, self.spent.start + load + package)

    def computing(self) -> float | None:
        """CPU time divided by wall time of the sample's work; None without work. Far below a
        worker's number of threads if it waits for a GPU, a server or other programs on the
        machine."""
        laps = [*chain(*(laps for stage in self.spent.laps.values() for laps in stage.values()))]
        wall = sum(lap.wall for lap in laps)
        return round(sum(lap.cpu for lap in laps) / wall, 3) if wall else None

    def disk(self) -> Interval:
        """Bytes that the run will add to OUT."""
        per_kept = sum(self.sizes.formats.values())

        def value(m: Member) -> float | None:
            seen = self.seen[m.recording]
            return seen.pcm + seen.kept * per_kept + m.seconds * self.sizes.row

        kept = sum(self.seen[m.recording].kept for m in self.members if m.recording in self.seen)
        fixed = len({m.shard for m in self.rest}) * self.sizes.part
        return interval_of_total(
            self.strata(value), max(0.0, kept - self.sizes.published) * per_kept + fixed
        )

    def as_dict(self) -> JsonObject:
        """For `estimate --json`: hours (`in` from headers), seconds and bytes; None: unknown."""
        hours = 1 / 3600
        names = sorted({m.dataset for m in self.members})
        wall, disk, kept = self.wall(), self.disk(), self.kept()
        cpu = self.work(list(self.spent.kinds), "cpu")
        later = max(0.0, kept.expected - self.sizes.published)
        audio = interval_of_total(self.strata(lambda m: float(self.seen[m.recording].pcm)))
        package = {name: round(size * later) for name, size in self.sizes.formats.items()}
        lengths = {name: [m.seconds for m in self.members if m.dataset == name] for name in names}
        return {
            "hours": {
                "in": round(sum(m.seconds for m in self.members) * hours, 6),
                "kept": kept.times(hours).as_dict(),
            },
            "datasets": {
                name: {
                    "recordings": len(lengths[name]),
                    "hours_in": round(sum(lengths[name]) * hours, 6),
                    "kept": self.kept(name).times(hours).as_dict(),
                }
                for name in names
            },
            "stages": {stage: self._stage(stage) for stage in self.spent.kinds},
            "workers": dict(self.spent.workers),
            "wall_seconds": wall.as_dict(3) if wall else None,
            "cpu_seconds": cpu.as_dict(3) if cpu else None,
            "computing": self.computing(),
            "disk_bytes": disk.as_dict(0),
            "disk_parts": {"audio": round(audio.expected), "package": package},
            "confidence": CONFIDENCE,
            "leaves_out": list(LEFT_OUT),
        }

    def _stage(self, stage: str) -> JsonObject:
        """The remaining work of a stage, and its speed."""
        cpu = self.work([stage], "cpu")
        strata = [s for s in self.strata(lambda m: self.lap(m, stage, "cpu")) if len(s.x)]
        audio = [s.rest + float(s.x.sum()) for s in strata]
        weighed = sum(_ratio(s) * length for s, length in zip(strata, audio, strict=True))
        return {
            "cpu_hours": cpu.times(1 / 3600).as_dict() if cpu else None,
            "cpu_seconds_per_audio_second": round(weighed / sum(audio), 6) if sum(audio) else None,
        }
