"""Prefect's task runs of a run with many shards, or small ones: each stands for a stage of a group
of shards, and shows the result of each shard.

The task run of a stage begins with the first shard of the group to start the stage and ends with
the last to finish it. Shards still chain on their own, so the stages of a group overlap.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import ceil
from pathlib import Path
from typing import Any, Self, cast

from prefect.utilities.urls import url_for

from ...tasks.base.counting import counted
from ...tasks.base.errors import CorruptManifest
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.runs import prefect_tasks
from ...tasks.runs.executor import Step
from ...tasks.settings.job import Done, Job
from ...tasks.stages.contract import PER_SHARD
from ..cluster.calls import NotBegun
from ..progress import Progress
from ..server import artifacts, history
from ..server.artifacts import escaped, markdown, table

#: In one flow run, each with three task runs: a Prefect server on SQLite records some 25 of them a
#: second, and a person reads some hundred lines.
MOST_GROUPS = 100
SMALL_SECONDS = 1200.0  # of audio; a shard with less is small
#: Up to this many small shards are shown one by one. A task run costs some 0.045 CPU s in the run
#: and in Prefect's server, which is much if a shard itself takes a second.
FEW_SMALL = 8
GROUP_SECONDS = 3600.0  # least audio of a group of small shards
END_SECONDS = 30.0  # that a run's end waits for Prefect to record the ends of its last task runs

#: Runs work as a task run: its name, its label, the work.
RunTask = Callable[[str, str, Callable[[], Any]], Any]


def group_size(count: int, seconds: float, chosen: bool) -> int:
    """Shards per group, at most MOST_GROUPS groups; 1: each shard is shown by itself. Small shards
    share task runs of GROUP_SECONDS at least, unless the user has `chosen` their size."""
    wanted = ceil(count / MOST_GROUPS)
    mean = seconds / count if count else 0.0
    if not chosen and count > FEW_SMALL and mean < SMALL_SECONDS:
        wanted = max(wanted, ceil(GROUP_SECONDS / mean) if mean else count)
    return max(1, min(wanted, count))


def grouped(seconds: Mapping[str, float], size: int) -> list[list[str]]:
    """Groups of `size` shards that follow each other by name, longest first, as are the shards in
    each."""
    names = sorted(seconds)
    groups = [names[i : i + size] for i in range(0, len(names), size)]
    for group in groups:
        group.sort(key=lambda shard: (-seconds[shard], shard))
    return sorted(groups, key=lambda group: (-seconds[group[0]], min(group)))


class TaskRunGroup:
    """The shards that share task runs; a board of `flows.server.artifacts`. Thread-safe."""

    def __init__(self, shards: Sequence[str], seconds: Mapping[str, float], run: RunTask) -> None:
        self.seconds = {shard: seconds[shard] for shard in sorted(shards)}
        self.title = history.group_name(shards)
        self._run = run
        self._lock = threading.RLock()
        self._stages: dict[str, _StageRun] = {}
        self._changed = self._closed = False

    def step(self, stage: str, shard: str, work: Callable[[], Step]) -> Step:
        with self._lock:
            shown = self._stages.get(stage)
            if shown is None:
                label = history.task_run_name(stage, self.title, sum(self.seconds.values()))
                shown = self._stages[stage] = _StageRun(stage, label, len(self.seconds), self._run)
            is_over = shown.over.is_set()
        if is_over:  # a later stage found damage, and this stage's results are made again
            label = history.task_run_name(stage, shard, self.seconds[shard])
            return cast(Step, self._run(stage, label, work))
        began = time.monotonic()
        self._note(shown, shard, "running")
        try:
            done = work()
        except CorruptManifest:  # the chain of this shard begins again
            raise
        except BaseException as error:
            # A stage that did not begin because of another failure must not hide that failure.
            if shown.error is None or isinstance(shown.error, NotBegun):
                shown.error = error
            self._note(shown, shard, f"**failed**: {escaped(str(error) or type(error).__name__)}")
            raise
        assert isinstance(done, Done)
        reused = f"{done.reused} reused"
        if done.computed:
            more = f", {reused}" if done.reused else ""
            reused = f"{done.computed} computed{more}, {time.monotonic() - began:.1f} s"
        self._note(shown, shard, reused, done)
        return done

    def _note(self, shown: _StageRun, shard: str, text: str, done: Done | None = None) -> None:
        with self._lock:
            shown.texts[shard] = text
            shown.done.pop(shard, None)  # of a stage that is run again
            if done is not None:
                shown.done[shard] = done.computed, done.reused
                if shown.lacking == 0:
                    shown.over.set()
            self._changed = True

    def close(self, error: BaseException | None) -> None:
        with self._lock:
            self._closed = True
            for shown in self._stages.values():
                shown.close(error)

    def join(self, until: float) -> None:
        """`until` in monotonic s."""
        for shown in list(self._stages.values()):
            shown.thread.join(max(0.0, until - time.monotonic()))

    @property
    def over(self) -> bool:
        with self._lock:
            ended = {stage for stage, shown in self._stages.items() if shown.over.is_set()}
            return self._closed or ended.issuperset(PER_SHARD)

    def news(self) -> str | None:
        """A table of its shards, stage by stage, if it has changed since the last call."""
        with self._lock:
            if not self._changed:
                return None
            self._changed = False
            texts = {stage: dict(shown.texts) for stage, shown in self._stages.items()}
            if self.over:
                for shown in self._stages.values():  # a long run has many groups
                    shown.texts.clear()
        rows = []
        for shard, seconds in self.seconds.items():
            cells = [texts.get(stage, {}).get(shard, "") for stage in PER_SHARD]
            rows.append([shard, f"{seconds / 3600:.2f}", *cells])
        return table(("shard", "hours", *PER_SHARD), rows)


class _StageRun:
    """One task run. Its thread waits in it until the last of `count` shards has ended the stage."""

    def __init__(self, stage: str, label: str, count: int, run: RunTask) -> None:
        self.texts: dict[str, str] = {}  # how each shard is
        self.done: dict[str, tuple[int, int]] = {}  # items of each shard: computed, reused
        self.error: BaseException | None = None
        self.over = threading.Event()
        self._count = count

        def ended() -> Done:
            self.over.wait()
            if self.error is not None:
                raise self.error
            computed, reused = zip(*self.done.values(), strict=True)
            return Done(stage, "", sum(computed), sum(reused))

        def hold() -> None:
            try:
                run(stage, label, ended)
            except BaseException as error:  # the chain of the shard raises it, too
                log.debug("%s: %s", label, error)

        # A thread starts with an empty context, in which the task run would have no flow run.
        context = contextvars.copy_context()
        self.thread = threading.Thread(target=context.run, args=(hold,), name=label, daemon=True)
        self.thread.start()

    @property
    def lacking(self) -> int:
        return self._count - len(self.done)

    def close(self, error: BaseException | None) -> None:
        if self.lacking and self.error is None:
            stopped = error is not None and not isinstance(error, Exception)  # or cancelled
            lacking = f"{self.lacking} of {counted(self._count, 'shard')} did not finish"
            self.error = KeyboardInterrupt() if stopped else NotBegun(lacking)
        self.over.set()


class TaskRunObserver(Progress):
    """The observer of a flow run: its steps are Prefect task runs, and an artifact shows how far it
    is and in the end its result, as the board that it is."""

    title = artifacts.ABOUT

    def __init__(self, job: Job, folder: Path | None = None) -> None:
        super().__init__(folder=folder)
        self._out = job.out
        self.text: str | None = None  # of the artifact in the end
        self._counting = threading.Lock()
        self._chosen_size = job.shard.hours is not None
        self._group_of: dict[str, TaskRunGroup] = {}  # of each shard, while grouped chains run

    def __enter__(self) -> Self:
        key, patience = artifacts.KEY, artifacts.RUN_CLOSE_SECONDS
        self._open.enter_context(artifacts.Poster([self], key, patience))
        return super().__enter__()

    @property
    def over(self) -> bool:
        return self.text is not None

    def news(self) -> str:
        return self.text or self._markdown()

    def conclude(self, result: JsonObject, report: Path) -> None:
        self.text = self._markdown(result, report)

    def _markdown(self, result: JsonObject | None = None, report: Path | None = None) -> str:
        run, seconds = history.current_run(), time.monotonic() - self._began
        link = url_for("flow-run", obj_id=run.id) if run else None
        return markdown(self._out, seconds, self.standing(), result, report, link)

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        if group := self._group_of.get(shard):
            return group.step(name, shard, work)
        label = history.task_run_name(name, shard, seconds) if shard else name
        return self._task_run(name, label, work)

    def _task_run(self, name: str, label: str, work: Callable[[], Step]) -> Step:
        with self._counting:
            self.task_runs += 1
        return prefect_tasks.run(name, label, work)

    @contextmanager
    def chains(self, shards: Mapping[str, float]) -> Iterator[Sequence[str]]:
        size = group_size(len(shards), sum(shards.values()), self._chosen_size)
        if size == 1:
            yield [*shards]
            return
        parts = grouped(shards, size)
        groups = [TaskRunGroup(part, shards, self._task_run) for part in parts]
        log.info("Prefect shows the %d shards in %d groups", len(shards), len(groups))
        self._group_of = {shard: group for group in groups for shard in group.seconds}
        with artifacts.Poster(groups), ExitStack() as ended:
            ended.push(lambda _, error, __: end(groups, error))
            ended.callback(self._group_of.clear)
            yield [shard for part in parts for shard in part]


def end(groups: Sequence[TaskRunGroup], error: BaseException | None) -> None:
    """End all groups as their chains have ended: by this error, or well."""
    for group in groups:
        group.close(error)
    until = time.monotonic() + END_SECONDS
    for group in groups:
        group.join(until)
