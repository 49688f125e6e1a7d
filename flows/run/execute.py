"""What a run does between taking OUT's lock and writing its report, with or without Prefect.

`opened` takes the lock and makes the run's folder. `Body.alone` runs the pipeline in this process
as long as nothing has to be computed, so that a run with nothing to do starts no server, no workers
and no flow run. `Body.work` runs it, or the rest of it, on the cluster.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...tasks import pipeline, storage
from ...tasks.accounting import broken, metrics, summary
from ...tasks.base import masking
from ...tasks.base.errors import UNREACHABLE, MillError, OutLocked
from ...tasks.base.json_types import Arrived, JsonObject
from ...tasks.base.logs import log
from ...tasks.insight import source_languages
from ...tasks.plugins import trusted
from ...tasks.publish import speakers
from ...tasks.publish.dataset import reader_drops
from ...tasks.publish.published import Dataset
from ...tasks.recording import unreachable
from ...tasks.runs.executor import Alone, LastBegun, Published, WorkersNeeded
from ...tasks.settings.job import Job
from ...tasks.shard_store import index
from ...tasks.stages.listing import entries
from ...tasks.storage import lock, owners, versions
from ..checks import check
from ..cluster import worker_counts
from ..settings import PrepareSettings
from . import estimates, ledger_items, plans, prometheus, report, run_folder

if TYPE_CHECKING:  # imports Dask and Prefect, which a run with nothing to do avoids
    from ..cluster.cluster import Cluster
    from ..progress import Progress
    from .cluster_executor import ClusterExecutor

#: Audio that is packaged without workers, s: starting them takes longer.
ALONE_SECONDS = 10 * 3600.0
HELD_S = 5.0  # s between two checks whether OUT is free
NO_LOSSES = {"deaths": 0, "timeouts": 0, "isolated": 0}  # of a run without workers

MakeProgress = Callable[[Job, Path], "Progress"]


@dataclass
class Body:
    """A run that holds OUT. `new`: whether OUT holds no run yet; `after_kill`: whether the previous
    run was killed, which Prefect has to record."""

    settings: PrepareSettings
    job: Job
    run: run_folder.Run
    new: bool
    after_kill: bool
    began: float
    _open: ExitStack
    _begun: pipeline.Begun = field(default_factory=pipeline.Begun)
    _cluster: Cluster | None = None

    def alone(self) -> JsonObject | None:
        """The result of a run that computes nothing; None if workers are needed: `work` then
        continues where this stopped."""
        folder = self.run.folder
        with metrics.recorded(folder) as measured:
            begun = LastBegun()
            executor = Alone(ALONE_SECONDS, begun, measured.here)
            try:
                ended = pipeline.run(self.job, executor, begun, self._begun)
            except WorkersNeeded:
                return None
            finally:
                if (sharded := self._begun.sharded) is not None:
                    ledger_items.write_skipped(folder, sharded.skipped)
        return self._finished(ended, measured, NO_LOSSES)

    def start_workers(self) -> None:
        from .cluster_executor import cluster_of

        self._cluster = cluster = cluster_of(self.job, self.settings.cluster, self.run.folder)
        self._open.callback(cluster.close)
        cluster.start()

    def work(self, shown: MakeProgress) -> JsonObject:
        """Run the pipeline on the cluster; returns what `run --json` prints, and `task_runs`."""
        from .cluster_executor import cluster_of
        from .cluster_executor import opened as opened_cluster

        folder, job = self.run.folder, worker_counts.with_threads(self.job, self.settings.cluster)
        measured, progress = metrics.Metrics(), shown(job, folder)
        cluster = self._cluster or cluster_of(job, self.settings.cluster, folder)
        with opened_cluster(cluster, measured, folder, progress) as executor:
            with metrics.recorded(folder, measured):
                ended = pipeline.run(job, executor, progress, self._begun)
            losses = vars(executor.dispatcher.losses)
            if any(losses.values()):
                pipeline.sweep(self.job.out)  # files that a worker was writing when it died
            result = self._finished(ended, measured, losses, progress.task_runs, executor)
            progress.conclude(result, self.run.place / report.NAME)
            return result

    def _finished(
        self,
        ended: pipeline.Run,
        measured: metrics.Metrics,
        losses: dict[str, int],
        task_runs: int = 0,
        executor: ClusterExecutor | None = None,
    ) -> JsonObject:
        result: JsonObject = {
            **result_of(self.job, ended),
            "deaths": losses,
            "task_runs": task_runs,
            "stragglers": metrics.stragglers(measured.table()),
            "wall_seconds": round(time.monotonic() - self.began, 3),
        }
        self.run.finish(result)
        prometheus.write_result(self.run.place.parent, self.run.folder, result)
        report.of_run(self.job, self.run.folder, result["new_version"], executor)
        return result


#: The run opened by `uttermill run`, for the flow that it then calls in this process.
current: ContextVar[Body | None] = ContextVar("current", default=None)


@contextmanager
def opened(
    settings: PrepareSettings, waits: Callable[[str], object] | None = None
) -> Iterator[Body]:
    """Check the settings, take OUT's lock, make the run's folder; inside a call that has opened its
    run, yields that. `waits`: if OUT is locked, is called with a sentence that says so, and the
    other run's end is waited for."""
    if (open_already := current.get()) is not None:
        yield open_already
        return
    began = time.monotonic()
    with ExitStack() as outer:
        outer.enter_context(entries.listed_once())
        trusted.trust(settings.model_dump(mode="json"))
        job = check(settings)
        estimates.check_disk(job, settings.cluster)
        plans.check_recompute(settings)
        # With OUT on an object store, only temporary copies take local space.
        places = [] if storage.store_of(job.out).remote else [job.out]
        outer.enter_context(owners.naming(Path(tempfile.gettempdir()), *places))
        outer.enter_context(_free(job.out, waits) if waits else lock.hold(job.out))
        versions.begin_layout(job.out, versions.next_number(job.out) - 1)
        new, after_kill = not index.is_there(job.out), run_folder.was_killed(job.out)
        with (
            run_folder.record(job.out, settings) as run,
            run.failing(),
            run_folder.scratch() as scratch,
            ExitStack() as open_later,
        ):
            placed = run_folder.placed(job, scratch, settings.cluster.kind == "local")
            numbered = replace(placed, number=run_folder.order(run.folder.name)[0])
            yield Body(settings, numbered, run, new, after_kill, began, open_later)


@contextmanager
def _free(out: Path, waits: Callable[[str], object]) -> Iterator[None]:
    """Hold OUT's lock, once nobody else does."""
    holder = ""
    with ExitStack() as release:
        while True:
            try:
                release.enter_context(lock.hold(out))
            except OutLocked as error:
                if holder != str(error):
                    waits(f"{error}; this run begins when that one has ended")
                holder = str(error)
                time.sleep(HELD_S)
            else:
                break
        yield


def result_of(job: Job, ended: pipeline.Run) -> JsonObject:
    """The output of `run --json`, without what the clock and the workers add."""
    sharded, published, totals = ended.sharded, ended.published, ended.totals
    return {
        **_read_back(job, published),
        "dataset": str(published.path),
        "version": int(published.path.name[1:]),
        "new": published.arrived or dict.fromkeys(Arrived.__annotations__, 0),
        "new_version": published.new,
        **published.summary,
        "ignored": sharded.ignored,
        "sources": source_languages.notes(job),
        **({"stated": [*map(masking.text, sharded.stated)]} if sharded.stated else {}),
        "broken": _broken(published),
        "unreachable": _unreachable(published),
        "stages": totals.stages,
        "package_walls": published.walls,
        **({"restored": published.restored} if published.restored else {}),
        "tars": {**published.balance, "written": published.written, "linked": published.linked},
    }


def _read_back(job: Job, published: Published) -> JsonObject:
    results: JsonObject = {"scored": 0, "wer": None, "cer": None, "splits": {}, "reader_drops": []}
    with _spared_unless_new(published, "the error rates"):
        described = versions.described(published.path)
        splits = described["splits"]
        if sentence := speakers.unknown_warning(described):
            results["unknown_speakers"] = sentence
        if sentence := speakers.bands_warning_in(job, published.path):
            results["telephone"] = sentence
        if shared := described.get("leaks"):
            results["leaks"] = shared
        results |= {
            **summary.errors_of(published.path),
            "splits": {n: {of: s[of] for of in ("utterances", "hours")} for n, s in splits.items()},
            "reader_drops": reader_drops.of_version(
                published.path, job.package.formats, job.filter.segmenter
            ),
        }
    return results


def _broken(published: Published) -> list[dict[str, str]]:
    if not published.summary["recordings"]["failed"]:
        return []
    with _spared_unless_new(published, "the broken files"):
        ledger = Dataset(published.path).query(broken.ROWS)
        return [file._asdict() for file in broken.of_ledger(ledger)]
    return []


def _unreachable(published: Published) -> dict[str, int]:
    """Recordings of the published version that could not be read, by the system's error."""
    counts = Counter[str]()
    if any(name.endswith(f".{UNREACHABLE}") for name in published.summary["reasons"]):
        with _spared_unless_new(published, "the recordings that could not be read"):
            rows = Dataset(published.path).query(
                "SELECT coalesce(any_value(detail), '') AS detail FROM ledger "
                f"WHERE reason = '{UNREACHABLE}' GROUP BY recording ORDER BY recording"
            )
            counts.update(map(unreachable.why, rows["detail"].to_pylist()))
    return dict(counts)


@contextmanager
def _spared_unless_new(published: Published, what: str) -> Iterator[None]:
    """Inside, the version is read back. If nothing is new and its store is away, the run still
    succeeds without `what`."""
    try:
        yield
    except (MillError, OSError) as error:
        if published.new:
            raise
        why = owners.words(error, published.path)
        log.warning("could not read %s of %s: %s", what, published.path, why)
