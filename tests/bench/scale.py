"""Tables of a large corpus: CPU seconds and memory of `package`, of nightly runs, and of commands.

    python -m tests.bench.scale 100000 [--nights 3] [--share 0.003] [--workers 2] [--json]
                                       [--out DIR] [--only STEP ...] [--set a.b=c ...]

It makes a synthetic OUT of that many utterances (`synthetic_out.py`), publishes a version, adds
`share` of them each night, and runs the commands, each in a process of its own. No audio is read or
written. Prints one line for each step; `rss_mb` is that of the largest process, `cpu_seconds` the
sum of all.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.bench._measured import MIB, Measured, Spent, measured
from tests.helpers import synthetic_out
from uttermill.tasks.plugins import trusted
from uttermill.tasks.runs import publish
from uttermill.tasks.runs.executor import Published
from uttermill.tasks.settings import TranscribeSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import stage
from uttermill.tasks.stages.call import Call
from uttermill.tasks.stages.stage import PER_SHARD

Line = dict[str, Any]


def make(job: Job, first: int, shards: int) -> int:
    """Checkpoints of some shards."""
    for number in range(first, first + shards):
        synthetic_out.make(job, number)
    return shards


def package(
    job: Job, workers: int, scratch: Path, looks: bool = False
) -> tuple[dict[str, Spent], bool]:
    """Everything after the chains of a run; what each function cost on the workers. `looks`: also
    what the chains look up in shards that may be incomplete."""
    caller = Measured(workers)
    shards, state = synthetic_out.chained(job)
    for shard in shards if looks else ():
        for name in PER_SHARD if state.items(shard) is None else ():
            stage.pending(name, job, shard)
    published = publish.publish(job, shards, caller, scratch, state)
    caller.pool.shutdown()
    assert isinstance(published, Published)
    return caller.spent, published.new


def ledger(job: Job) -> None:
    from uttermill.flows.cli import queries

    queries.ledger(job.out)


@contextmanager
def away(job: Job) -> Iterator[None]:
    """Inside, the sources cannot be listed; else they are empty."""
    source = Path(job.sources[0].path)
    moved = source.rename(source.with_name("away"))
    try:
        yield
    finally:
        moved.rename(source)


def status(job: Job) -> None:
    from uttermill.flows.cli import queries

    with away(job):
        queries.status(job.out)


def status_without_sources(job: Job) -> None:
    from uttermill.flows.cli import queries

    queries.status(job.out)


def verify(job: Job) -> None:
    from uttermill.tasks.publish.upkeep import verify
    from uttermill.tasks.storage import versions

    newest = versions.newest(job.out)
    assert newest is not None
    faults = verify.verify(newest)
    assert not faults, faults[:3]


def prune(job: Job) -> None:
    from uttermill.flows.cli import queries

    queries.prune(job.out, 1)


def what_if(job: Job) -> None:
    from uttermill.tasks.insight.estimating import what_if

    what_if.kept(job, limited(job))


def limited(job: Job) -> Job:
    """The job with another limit on texts."""
    rates = {"use": "char_rate", "max_alphabetic": 25.0}
    verdicts = [rates if p.use == "char_rate" else p for p in job.transcribe.verdicts]
    given = {"backend": job.transcribe.backend, "verdicts": verdicts}
    return replace(job, transcribe=TranscribeSettings.model_validate(given))


def plan(job: Job) -> None:
    from uttermill.tasks.insight.estimating import planning

    with away(job):
        planning.plan(limited(job), job, lenient=True)


def report(job: Job) -> None:
    from uttermill.flows.run import report as reports

    reports.page(job, job.out / "runs" / "bench")


def estimate(job: Job, workers: int) -> dict[str, Spent]:
    """What `estimate` does with an OUT beside the work on its sample, of which all is done here."""
    from uttermill.flows import estimate as flow
    from uttermill.flows.settings import SampleSettings
    from uttermill.tasks.insight.estimating import sample
    from uttermill.tasks.insight.estimating.forecast import Costs, Forecast, Sizes

    caller = Measured(workers)
    shards = manifest.shards(job.out)
    members, _ = sample.frame(job.out, shards)
    wanted = SampleSettings()
    count = sample.size(len(members), wanted.fraction, wanted.least)
    drawn = sample.draw(members, count, job.package.seed)
    seen = flow.known_results(job, shards, [m for some in drawn.values() for m in some], caller)
    costs = Costs(kinds={"filter": "CPU"}, workers={"CPU": workers})
    told = Forecast(sample.strata(members, count), drawn, seen, costs, Sizes()).as_dict()
    assert told["hours"]["kept"]["expected"] > 0
    caller.pool.shutdown()
    return caller.spent


def note_run(job: Job) -> None:
    """What a run that ended well leaves: its folder, where the commands look for its settings."""
    from uttermill.flows.settings import parse

    stages = ("filter", "transcribe", "package")
    told: dict[str, Any] = {name: getattr(job, name).model_dump(mode="json") for name in stages}
    told |= {"out": str(job.out), "sources": [s.model_dump(mode="json") for s in job.sources]}
    home = job.out / "runs" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    settings = parse(told).model_dump(mode="json")
    (home / "settings.json").write_text(json.dumps(settings))
    (home / "summary.json").write_text(json.dumps({"wall_seconds": 1.0}))


def in_process(work: Callable[..., Any], *args: Any) -> tuple[Any, float, int]:
    """`measured` in a new process, which may have workers of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measured, work, args).result()


def steps(options: argparse.Namespace, out: Path) -> Iterator[Line]:
    chosen: dict[str, Any] = {}
    for each in options.set:
        name, _, value = each.partition("=")
        chosen[name.removeprefix("package.")] = yaml.safe_load(value)
    job = synthetic_out.job(out, chosen)
    scratch = out.parent / "scratch"
    total = synthetic_out.shards_for(options.utterances)
    have = len(manifest.shards(out))
    if have < total:
        caller = Measured(options.workers)
        step = 20
        ranges = [(job, low, min(step, total - low)) for low in range(have, total, step)]
        caller.map(Call("shard", "make", make), ranges)
        caller.pool.shutdown()
        yield _line("make", total, *caller.spent.values())
        have = total
    if options.wants("package"):
        yield from _packaged("package", have, job, options.workers, scratch)
    for night in range(1, options.nights + 1):
        fresh = max(1, round(have * options.share))
        make(job, have, fresh)
        have += fresh
        yield from _packaged(f"night {night}", have, job, options.workers, scratch)
    note_run(job)
    if options.wants("estimate"):
        spent, cpu, rss = in_process(estimate, job, options.workers)
        yield _line("estimate: flow", have, Spent(cpu, rss))
        for step, each in spent.items():
            yield _line(f"estimate: {step}", have, each)
    asked = (ledger, status, status_without_sources, what_if, plan, report, verify, prune)
    for work in (again, *asked):
        if options.wants(work.__name__):
            _, cpu, rss = in_process(work, job)
            yield _line(work.__name__, have, Spent(cpu, rss))
    if options.wants("threshold"):
        yield from _packaged("threshold", have, limited(job), options.workers, scratch, True)


def again(job: Job) -> None:
    """A run with nothing to do, after its shard stage."""
    package(job, 1, job.out.parent / "scratch")


def _packaged(
    name: str, shards: int, job: Job, workers: int, scratch: Path, looks: bool = False
) -> Iterator[Line]:
    (spent, new), cpu, rss = in_process(package, job, workers, scratch, looks)
    assert new, "nothing was published"
    whole = Spent(cpu, rss)
    for step, each in spent.items():
        yield _line(f"{name}: {step}", shards, each)
        whole.cpu, whole.rss = whole.cpu + each.cpu, max(whole.rss, each.rss)
    yield _line(f"{name}: flow", shards, Spent(cpu, rss))
    yield _line(name, shards, whole)


def _line(step: str, shards: int, spent: Spent) -> Line:
    return {
        "step": step,
        "utterances": shards * synthetic_out.SHARD * synthetic_out.UTTERANCES,
        "cpu_seconds": round(spent.cpu, 2),
        "rss_mb": round(spent.rss / MIB),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("utterances", type=int)
    parser.add_argument("--nights", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.003)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.wants = lambda step: not options.only or step in options.only
    os.environ["OMP_NUM_THREADS"] = "1"  # as workers have it; it also is Arrow's number of threads
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # likewise
    trusted.allow(["tests.helpers.synthetic_format"])
    home = options.out or Path(tempfile.mkdtemp(prefix="scale-"))
    try:
        for line in steps(options, home / "out"):
            if options.json:
                print(json.dumps(line), flush=True)
            else:
                print(
                    f"{line['step']:<28}{line['utterances']:>12,} utterances "
                    f"{line['cpu_seconds']:>9.2f} CPU s {line['rss_mb']:>7} MB",
                    flush=True,
                )
    finally:
        if options.out is None:
            shutil.rmtree(home)


if __name__ == "__main__":
    main()
