"""Samples that are the same each time, and intervals that hold what they promise."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers import corpus, tiers
from uttermill.flows import settings
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run import estimates
from uttermill.tasks import pipeline
from uttermill.tasks.accounting import summary
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.insight.estimating import forecast, sample
from uttermill.tasks.insight.estimating.forecast import Costs, Forecast, Sizes, Stratum
from uttermill.tasks.insight.estimating.sample import Member, SampleResult
from uttermill.tasks.publish import foreseen
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Done, Spent
from uttermill.tasks.stages import stage
from uttermill.tasks.storage import local, versions


def members(count: int, seed: int = 0) -> list[Member]:
    draw = np.random.default_rng(seed)
    found = []
    for n in range(count):
        dataset = int(draw.choice(3, p=[0.5, 0.3, 0.2]))
        seconds = float(np.exp(draw.normal(np.log((4, 12, 60)[dataset]), 0.7)))
        kind = "mp3" if draw.random() < 0.3 else "wav"
        found.append(Member(f"r{n}", f"shard-{n % 7:06d}", f"d{dataset}", kind, seconds))
    return found


def test_a_draw_is_the_same_each_time_and_grows() -> None:
    every = members(400)
    small = {m.recording for some in sample.draw(every, 50, 0).values() for m in some}
    assert small == {m.recording for s in sample.draw(every[::-1], 50, 0).values() for m in s}
    large = {m.recording for some in sample.draw(every, 120, 0).values() for m in some}
    assert small < large
    assert small != {m.recording for s in sample.draw(every, 50, 1).values() for m in s}


def test_two_of_every_stratum_and_the_rest_by_audio() -> None:
    every = members(2000)
    drawn, held = sample.draw(every, 150, 0), sample.strata(every, 150)
    assert list(drawn) == list(held)
    assert sum(map(len, drawn.values())) == 150
    assert all(len(drawn[key]) >= min(2, len(some)) for key, some in held.items())
    assert {key[2] for key in held} == {0, 1, 2}
    audio = {key: sum(m.seconds for m in some) for key, some in held.items()}
    for key, some in drawn.items():
        if 2 < len(some) < len(held[key]):
            part = audio[key] / sum(audio.values())
            assert len(some) == pytest.approx(150 * part, rel=0.3, abs=2)


@pytest.mark.parametrize(
    ("sizes", "seconds", "wanted", "counts"),
    [
        ([10, 10], [90.0, 10.0], 10, [8, 2]),
        ([3, 10], [90.0, 10.0], 10, [3, 7]),  # all of one stratum, more of the other
        ([1, 5], [1.0, 5.0], 50, [1, 5]),  # a census
        ([10, 10, 10], [1.0, 1.0, 1.0], 3, [2, 2, 2]),  # more, because there are two of each
    ],
)
def test_allocation(sizes: list[int], seconds: list[float], wanted: int, counts: list[int]) -> None:
    assert sample.allocate(sizes, seconds, wanted) == counts


def test_too_many_strata_are_put_together() -> None:
    every = [Member(f"r{n}", "s", f"d{n % 40}", f"f{n % 3}", 10.0) for n in range(400)]
    assert len(sample.strata(every, 120)) == 120
    assert len(sample.strata(every, 50)) == 40
    assert len(sample.strata(every, 10)) == 1


def test_sizes() -> None:
    assert sample.size(10, 0.005, 50) == 10
    assert sample.size(1000, 0.005, 50) == 50
    assert sample.size(100_000, 0.005, 50) == 500


Values = Callable[[np.random.Generator, Member], float]
POPULATIONS: dict[str, tuple[Values, bool]] = {
    "kept or not": (lambda g, m: m.seconds * (g.random() < 0.9 - 0.2 * int(m.dataset[1])), True),
    "a part is kept": (lambda g, m: m.seconds * float(g.beta(4, 1 + int(m.dataset[1]))), True),
    "hardly any loss": (lambda g, m: m.seconds * (g.random() < 0.98), True),
    "cost": (lambda g, m: (0.08 if m.format == "mp3" else 0.02) * m.seconds
             * float(np.exp(g.normal(0, 0.4))) + 0.01, False),
}  # fmt: skip


def covered(kind: str, population: int, wanted: int, draws: int) -> tuple[float, float]:
    """Share of draws whose interval holds the truth, and the mean error of what is expected."""
    value, share = POPULATIONS[kind]
    hits, errors = 0, []
    for seed in range(draws):
        if seed % 20 == 0:  # some populations, some draws of each
            every = members(population, seed)
            chance = np.random.default_rng(seed)
            y = {m.recording: value(chance, m) for m in every}
            truth, held = sum(y.values()), sample.strata(every, wanted)
        drawn = sample.draw(every, wanted, seed)
        strata, known = [], 0.0
        for key, some in held.items():
            inside = {m.recording for m in drawn[key]}
            rest = [m.seconds for m in some if m.recording not in inside]
            found = np.array([y[m.recording] for m in drawn[key]])
            known += float(found.sum())
            x = np.array([m.seconds for m in drawn[key]])
            strata.append(Stratum(x, found, sum(rest), len(rest)))
        told = forecast.interval_of_total(strata, known, share)
        hits += told.low <= truth <= told.high
        errors.append(told.expected / truth - 1)
    return hits / draws, float(np.mean(errors))


@pytest.mark.full
@pytest.mark.parametrize("kind", POPULATIONS)
@pytest.mark.parametrize(("population", "wanted"), [(400, 50), tiers.nightly(1500, 120)])
def test_ninety_percent_intervals_hold_the_truth_that_often(
    kind: str, population: int, wanted: int
) -> None:
    rate, error = covered(kind, population, wanted, draws=100)
    assert 0.8 <= rate <= 1.0, rate  # 100 draws: 90 % is 0.83 to 0.97
    assert abs(error) < 0.03


def test_a_census_has_no_interval() -> None:
    stratum = Stratum(np.array([1.0, 2.0]), np.array([1.0, 0.0]), 0.0, 0)
    told = forecast.interval_of_total([stratum], known_sum=1.0, share=True)
    assert (told.expected, told.low, told.high) == (1.0, 1.0, 1.0)
    assert forecast.interval_of_total([], known_sum=3.0).expected == 3.0


def test_no_loss_in_the_sample_is_no_promise() -> None:
    x = np.full(20, 10.0)
    told = forecast.interval_of_total([Stratum(x, x, 1000.0, 100)], 200.0, share=True)
    assert told.expected == pytest.approx(1200.0)
    assert 200 < told.low < 1190
    assert told.high == pytest.approx(1200.0), "no more is kept than there is"


def test_strata_of_one_are_put_together() -> None:
    one = Stratum(np.array([10.0]), np.array([5.0]), 100.0, 10)
    none = Stratum(np.array([]), np.array([]), 50.0, 5)
    full = Stratum(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]), 6.0, 3)
    (whole,) = forecast.collapsed([one, none])
    assert (len(whole.x), whole.rest, whole.count) == (1, 150.0, 15)
    assert sum(s.rest for s in forecast.collapsed([one, none, full])) == 156.0
    assert np.isfinite(forecast.interval_of_total([one, none, full]).high)


def spent(name: str, audio: float, wall: float, cold: bool = False) -> Spent:
    return Spent(name, audio, wall, wall / 2, cold)


def told(workers: int = 2, load: float = 0.0, start: float = 0.0) -> Forecast:
    """Ten recordings of 10 s in two shards, of which four are sampled; the first one is cold."""
    every = [Member(f"r{n}", f"shard-{n % 2:06d}", "d", "wav", 10.0) for n in range(10)]
    seen = {f"r{n}": SampleResult(kept=8.0, pcm=320_000) for n in range(4)}
    laps = {f"r{n}": [spent(f"r{n}", 10.0, 50.0 if n == 0 else 1.0, n == 0)] for n in range(4)}
    costs = Costs(
        laps={"filter": laps}, overhead={"filter": 0.5}, load=load, kinds={"filter": "CPU"},
        workers={"CPU": workers}, start=start, package=0.01, gather=0.02,
    )  # fmt: skip
    return Forecast(
        {(): every}, {(): every[:4]}, seen, costs,
        Sizes(row=5.0, part=1000.0, formats={"wenet": 32_000.0}),
    )  # fmt: skip


def test_a_forecast_is_the_sample_in_the_proportion_of_the_rest() -> None:
    cast = told()
    assert cast.kept().expected == pytest.approx(80.0)
    # 6 recordings of 1 s of work and 2 calls of 0.5 s on two workers; then the package.
    wall = cast.wall()
    assert wall is not None
    assert wall.expected == pytest.approx((6 + 2 * 0.5) / 2 + 80 * 0.01 / 2 + 80 * 0.02)
    alone = told(workers=1, load=3.0, start=7.0).wall()
    assert alone is not None
    assert alone.expected == pytest.approx(7 + 3 + 7 + 0.8 + 1.6)
    rest = 6 * (320_000 + 10 * 5) + 60_000 * 0
    package = 80 * 32_000
    assert cast.disk().expected == pytest.approx(rest + package + 2 * 1000)
    facts = cast.as_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["stages"]["filter"]["cpu_seconds_per_audio_second"] == pytest.approx(0.05)
    assert facts["datasets"]["d"]["kept"] == facts["hours"]["kept"]


def test_kinds_of_workers_work_beside_each_other() -> None:
    cast = told(workers=2)
    laps = {f"r{n}": [spent(f"r{n}", 8.0, 4.0)] for n in range(4)}
    cast.spent.laps["transcribe"] = laps
    cast.spent.kinds["transcribe"] = "GPU"
    cast.spent.workers["GPU"] = 1
    wall = cast.wall()
    assert wall is not None
    assert wall.expected == pytest.approx(6 * 4.0 + 80 * 0.01 / 2 + 80 * 0.02)
    assert cast.computing() == pytest.approx(0.5)


def test_nothing_measured_is_no_time() -> None:
    cast = told()
    cast.spent.laps = {}
    assert cast.wall() is None
    assert cast.as_dict()["wall_seconds"] is None


def test_costs_of_calls() -> None:
    first = Done("filter", "s0", 2, 0, 20.0, 3.0, spent=(spent("a", 10, 1), spent("b", 10, 1.5)))
    other = Done("filter", "s1", 1, 0, 10.0, 2.0, load=1.0, spent=(spent("c", 10, 0.9),))
    found = forecast.costs([first, other, Done("filter", "s2", 0, 3)])
    assert found.overhead["filter"] == pytest.approx(0.3)  # the median of 0.5 and 0.1
    assert found.load == 1.0
    assert set(found.laps["filter"]) == {"a", "b", "c"}


def test_a_sample_changes_no_recipe_and_is_reused(tmp_path: Path) -> None:
    """Some recordings first, then all: the same bytes, and what was done is not done again."""
    corpus.make(tmp_path / "in", 6)
    alone, _ = corpus.run(corpus.job(tmp_path, out=tmp_path / "alone"))
    job = corpus.job(tmp_path)
    versions.begin_layout(job.out, 0)
    found = pipeline.run_shard_stage(job, Executor(), tmp_path / "listing")
    every, failed = sample.frame(job.out, found.shards)
    assert (len(every), failed) == (6, 0)
    assert sample.known(job, found.shards) == {}
    only = frozenset(m.recording for m in every[1::3])
    part = replace(job, only=only)
    for name in stage.PER_SHARD:
        dones = [stage.run(name, part, each) for each in found.shards]
        computed = 0 if name == "resample" else 2  # filter has converted what it cut
        assert sum(done.computed for done in dones) == computed
        if computed:
            assert {lap.recording for done in dones for lap in done.spent} == only
    seen = sample.known(job, found.shards)
    assert set(seen) == only
    kept = sum(corpus.seconds_of(n) for n in (1, 4))
    assert sum(s.kept for s in seen.values()) == pytest.approx(kept, abs=1e-3)
    assert sum(s.pcm for s in seen.values()) == pytest.approx(32_000 * kept, abs=8)
    rows, bare = sample.manifest_bytes(job, found.shards)
    assert rows > 0
    assert bare > 0
    published, counts = corpus.run(job)
    assert {name: counts[name] for name in stage.PER_SHARD} == dict.fromkeys(
        stage.PER_SHARD, (4, 2)
    )
    assert corpus.content(published.path) == corpus.content(alone.path)


def prepared(tmp: Path, **cluster: Any) -> Any:
    corpus.make(tmp / "in", 2)
    return corpus.wishes(tmp, cluster=cluster)


def left(chosen: Any, need: int, used: int = 0, name: str = "20260101T000000.000000Z") -> None:
    """An estimate of these settings that forecast so many bytes at most."""
    job = chosen.job()
    folder = job.out / "runs" / name
    folder.mkdir(parents=True)
    told = {"key": estimates.key(job), "run": name, "used_bytes": used,
            "disk_bytes": {"expected": need / 2, "low": 0, "high": need}}  # fmt: skip
    (folder / estimates.NAME).write_text(json.dumps(told))


def test_a_run_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = prepared(tmp_path)
    job, cluster = chosen.job(), chosen.cluster
    estimates.check_disk(job, cluster)  # no estimate, no refusal
    monkeypatch.setattr(local.Local, "free", lambda _store, out: 3 * 10**9)
    left(chosen, 2 * 10**9)
    estimates.check_disk(job, cluster)
    left(chosen, 5 * 10**9, name="20260102T000000.000000Z")
    with pytest.raises(ConfigError, match=r"up to 5\.00 GB more at .*, where 3\.00 GB are free.*"
                       r"cluster\.check_disk: false"):  # fmt: skip
        estimates.check_disk(job, cluster)
    estimates.check_disk(job, ClusterSettings(check_disk=False))
    other = settings.parse({**chosen.model_dump(mode="json"), "resample": {"rate": 8000}})
    estimates.check_disk(other.job(), cluster)  # an estimate of other settings says nothing
    same = settings.parse({**chosen.model_dump(mode="json"), "cluster": {"workers": 1}})
    assert estimates.key(same.job()) == estimates.key(job)
    # What came to OUT since then is no longer needed.
    (job.out / "audio").mkdir()
    with (job.out / "audio" / "x.pcm").open("wb") as file:
        os.truncate(file.fileno(), int(2.5e9))  # a hole: it takes no room
    estimates.check_disk(job, cluster)
    left(chosen, 10**9, name="20260103T000000.000000Z")  # the newest one counts
    (job.out / "audio" / "x.pcm").unlink()
    estimates.check_disk(job, cluster)


def test_a_file_with_two_names_is_counted_once(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / "datasets" / version).mkdir(parents=True)
    (tmp_path / "datasets" / "v1" / "a").write_bytes(b"12345")
    os.link(tmp_path / "datasets" / "v1" / "a", tmp_path / "datasets" / "v2" / "a")
    assert estimates.bytes_used(tmp_path) == 5


def test_reasons_of_a_sample_are_those_of_the_ledger(tmp_path: Path) -> None:
    """Windows overlap, and a second of audio has one outcome."""
    corpus.make(tmp_path / "in", 3)
    windows = {"use": "applio", "mode": "simple", "window_seconds": 0.5, "overlap_seconds": 0.2}
    dropped = {"segmenter": windows, "filters": [{"use": "duration", "min": 20.0}]}
    job = corpus.job(
        tmp_path, filter=dropped, package={"max_failed_fraction": 1.0, "formats": ["wenet"]}
    )
    versions.begin_layout(job.out, 0)
    found = pipeline.run_shard_stage(job, Executor(), tmp_path / "listing")
    for name in stage.PER_SHARD:
        for shard in found.shards:
            stage.run(name, job, shard)
    with foreseen.version(job, found.shards) as version:
        booked = summary.of_ledger(pa.concat_tables(version.ledger()))
    assert booked["seconds"]["overlap"] > 0, "a control"
    seen = sample.known(job, found.shards)
    assert sample.results_of(seen.values())["reasons"] == booked["reasons"]
