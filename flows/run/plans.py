"""The JSON of `uttermill plan`: what a run with these settings would compute and reuse, why, and
how long it would take.

Times are those of the last runs that used the same plug-ins, else of the newest estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...tasks import storage
from ...tasks.accounting import metrics
from ...tasks.base import masking
from ...tasks.base.errors import ConfigError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.schema import METRICS
from ...tasks.insight import source_languages
from ...tasks.insight.estimating import planning
from ...tasks.insight.estimating.planning import Amount
from ...tasks.publish import package
from ...tasks.settings.job import Job
from ...tasks.stages.contract import PER_SHARD
from ...tasks.stages.listing import copies
from ...tasks.storage import tables, versions
from ..settings import PrepareSettings, parse
from . import estimates, run_folder

LAST_RUNS = 20  # in which the speed of a stage is sought
ASKS = 3600.0  # s of audio: a run that would recompute more asks first


def check_recompute(settings: PrepareSettings) -> None:
    if settings.cluster.max_recompute_hours is not None:
        plan = make(settings, brief=True)
        if sentence := _too_much(settings, plan["stages"], plan["hours_again"]):
            raise ConfigError(sentence)


def _too_much(settings: PrepareSettings, stages: JsonObject, hours: float) -> str | None:
    limit = settings.cluster.max_recompute_hours
    if limit is None or hours <= limit:
        return None
    causes = {name for entry in stages.values() for name in entry["because"]}
    because = f" ({', '.join(sorted(causes))})" if causes else ""
    return (
        f"this would compute {hours:.4g} h of audio again that an earlier run has done{because}, "
        f"more than cluster.max_recompute_hours ({limit:g}) allows; to allow it once, run "
        "`uttermill run SETTINGS.yaml --set cluster.max_recompute_hours=null`"
    )


def make(settings: PrepareSettings, brief: bool = False, lenient: bool = False) -> JsonObject:
    """The output of `plan --json`; computes and writes nothing.

    `brief`: the headers of new recordings are read only if a run or an estimate gives the speed of
    the stages; otherwise `unread_bytes` is their size. `lenient`: for commands on OUT, which may be
    on another machine than its sources: if these cannot be listed, they count as the last run found
    them, and `unlisted` says why. `unjudged`: clips that filters have yet to measure and may drop,
    and `gone`: results that are gone, so that stages compute at most what is stated.
    """
    job = settings.job()
    before = run_folder.known_settings(job.out) or run_folder.estimated_settings(job.out)
    rates = _Rates(settings, job)
    if layout := versions.other_layout(job.out):  # all that it holds is made again
        job, before = replace(job, out=job.out / "manifests" / "none"), None
    headers = not brief or rates.known
    with versions.reading(versions.newest(job.out)):
        plan = planning.plan(job, before.job() if before else None, headers, lenient)
    stages = rates.stages(plan.stages)
    durations = [entry["seconds"] for entry in stages.values()]
    version = versions.newest(job.out)
    hours_again = stages["filter"]["hours"] if layout else round(plan.again / 3600, 6)
    missing, not_continued = list[str](), None
    try:  # the run that follows a brief plan compares bytes itself
        missing = (package.lost if brief else package.proved)(version) if version else []
    except RunError as error:
        not_continued = str(error)
    items, first = len(plan.unusable), masking.text(next(iter(plan.unusable), ""))
    optional = {
        "layout": layout,
        "lost": missing,
        "sources": None if brief else source_languages.notes(job),  # the run shows them at its end
        "unread_bytes": plan.unread,
        "unusable": {"items": items, "first": first} if items else None,
        "redescribed": plan.redescribed,
        "unjudged": plan.unjudged,
        "gone": [masking.text(words) for words in plan.gone],
        "unlisted": plan.unlisted and masking.sentence(plan.unlisted),
        "refusal": not_continued or plan.refusal or _too_much(settings, stages, hours_again),
        "stated": [masking.text(sentence) for sentence in plan.stated],
        "shared": [
            {**asdict(overlap), "says": f"{overlap}: {copies.outcome(job)}"}
            for overlap in plan.shared
        ],
    }
    return {
        "stages": stages,
        "changes": [masking.value(change._asdict()) for change in plan.changes],
        "seconds": None if None in durations else round(sum(durations), 1),
        "hours_again": hours_again,
        "version": {
            "newest": version.name if version else None,
            "clips": plan.clips[0],
            "clips_then": plan.clips[1],
            "new": plan.new,
        },
        "removed": plan.removed,
        "ignored": plan.ignored,
        "shards": plan.shards,
        **{name: value for name, value in optional.items() if value},
    }


class _Rates:
    """Seconds that stages take, by the newest run that computed them with the same plug-ins."""

    def __init__(self, settings: PrepareSettings, job: Job) -> None:
        self.settings = settings
        self.workers = settings.cluster.most_workers
        self.runs = [*islice(_runs(job.out), LAST_RUNS)]
        self.estimated = (estimates.newest(job) or {}).get("costs", {}).get("laps", {})

    @property
    def known(self) -> bool:
        return bool(self.runs or self.estimated)

    def stages(self, amounts: dict[str, Amount]) -> dict[str, JsonObject]:
        """What `plan` says of each stage. The call that filters audio resamples it, too, and its
        time is in filter's rate: of resample's audio only the rest takes time of its own."""
        stages: dict[str, JsonObject] = {}
        for name, amount in amounts.items():
            audio = amount.seconds
            if name == "resample":
                audio -= min(audio, amounts["filter"].seconds)
            seconds = self.seconds(name, amount, audio)
            stages[name] = {
                "compute": amount.compute,
                "reuse": amount.reuse,
                "hours": round(amount.seconds / 3600, 6),
                "seconds": None if seconds is None else round(seconds, 3),
                "because": list(amount.because) if amount.compute else [],
            }
        return stages

    def seconds(self, name: str, amount: Amount, audio: float) -> float | None:
        """Wall seconds for so much audio; None if no run and no estimate has them."""
        if not amount.compute:
            return 0.0
        if name == "resample" and not audio:
            return self.seconds("filter", amount, audio)
        for run in self.runs:
            same = _plugins(run.settings, name) == _plugins(self.settings, name)
            if same and (speed := run.speed(name)):
                rate, workers = speed
                size = audio if name in PER_SHARD else amount.compute
                return rate * size / (self.workers or workers)
        laps = [lap for group in self.estimated.get(name, {}).values() for lap in group]
        measured: float = sum(lap["audio"] for lap in laps)
        wall: float = sum(lap["wall"] for lap in laps)
        return wall / measured * audio / (self.workers or 1) if measured else None


@dataclass(frozen=True)
class _PastRun:
    folder: Path
    settings: PrepareSettings
    stages: JsonObject

    def speed(self, name: str) -> tuple[float, int] | None:
        """(a worker's seconds per second of audio, number of workers); of a stage that is one step,
        (wall seconds per item, 1), once the first worker has started."""
        calls = self.calls.filter(pc.equal(self.calls["stage"], name))
        if name not in PER_SHARD:
            entry = self.stages.get(name, {})
            waited = pc.min(calls["queue_seconds"]).as_py() or 0.0
            items = entry.get("items_computed")
            return (max(0.0, entry["seconds"] - waited) / items, 1) if items else None
        rows = metrics.rates(calls)
        audio = pc.sum(rows["audio_seconds"]).as_py()
        workers = len(set(pc.unique(self.calls["worker"]).to_pylist()) - {None, ""})
        cost = pc.sum(pc.multiply(rows["rate"], rows["audio_seconds"])).as_py()
        return (cost / audio, max(1, workers)) if audio else None

    @cached_property  # each stage asks for it
    def calls(self) -> pa.Table:
        try:
            return tables.read(self.folder / metrics.NAME)
        except (OSError, pa.ArrowException):  # there is none, or it is damaged
            return METRICS.empty_table()


def _runs(out: Path) -> Iterator[_PastRun]:
    for folder in run_folder.having(out, run_folder.SUMMARY):
        try:
            summary = run_folder.json_in(folder / run_folder.SUMMARY)
            settings = parse(storage.read_json(folder / run_folder.SETTINGS))
        except (OSError, ValueError, ConfigError):
            continue
        yield _PastRun(folder, settings, summary.get("stages", {}))


def _plugins(settings: PrepareSettings, name: str) -> Any:
    """The plug-ins that determine a stage's speed."""
    if name == "filter":
        return settings.filter.segmenter.use, sorted(p.use for p in settings.filter.filters)
    if name == "resample":
        return settings.resample.resampler.use, [p.use for p in settings.resample.levels]
    if name == "transcribe":
        several = settings.transcribe.recognisers
        chosen = [recogniser.model_dump(mode="json", exclude={"threads"}) for recogniser in several]
        return chosen if len(chosen) > 1 else chosen[0]
    return sorted(p.use for p in settings.package.formats) if name == "package" else None
