"""Runs units one by one in a disposable process, to find the one that kills it.

The parent sends units; the child returns the rows of each. If the child dies, hangs or exceeds the
memory limit, its current unit is quarantined and a new child continues with the next one. Each
culprit costs one start of an interpreter (a second or two), and a hang the item's timeout.

A SIGKILL that the parent did not send is most often the kernel's, for lack of memory, and says
nothing about the unit: it runs again `alone`, when the caller ensures that nothing else of the run
is working. A unit killed there repeatedly is blamed only if it had memory to spare and the next
unit survives.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeVar

import psutil

from ..base import environment, memory_limits
from ..base.counting import counted
from ..base.errors import KILLED, KilledFromOutside, MillError, RunError
from ..base.logs import log
from ..base.schema import AnyRow
from ..settings.job import Job
from . import contract, known_good
from .spawn_check import OF_ISOLATED, die_first, die_with_parent, ended

POLL = 0.2  # s between checks of the child's memory
START = 120.0  # s until a new process must reach its first unit
TRIES = 2  # attempts of a unit that is killed from outside while alone
PAUSE = 3.0  # s before the second attempt
MOST_KILLED = 3  # units in a row: the cause is not in them
SPARE = 0.8  # share of the memory limit below which a unit had memory to spare

Result = TypeVar("Result")
_alone: ContextVar[bool] = ContextVar("alone", default=False)
_resigned: ContextVar[bool] = ContextVar("resigned", default=False)


def alone(work: Callable[..., Result], *args: object) -> Result:
    """`work(*args)`, which isolates its units, while nothing else of the run is working."""
    token = _alone.set(True)
    try:
        return work(*args)
    finally:
        _alone.reset(token)


def resigned(work: Callable[..., Result], *args: object) -> Result:
    """`alone`, for the last time: units killed from outside get rows that say so."""
    token = _resigned.set(True)
    try:
        return alone(work, *args)
    finally:
        _resigned.reset(token)


def alone_now() -> bool:
    return _alone.get()


class _Death(NamedTuple):
    """A unit that was killed from outside at each attempt; `spare`: it had memory to spare."""

    unit: contract.Work
    peak: int  # bytes
    spare: bool


def results(stage: str, job: Job, units: Sequence[contract.Work]) -> Iterator[Sequence[AnyRow]]:
    """Rows of each unit, in order; a unit that kills its process gives the rows of its failure.

    KilledFromOutside if a unit's process was killed while others may have been working: call again
    `alone`, for the units without rows. Also if no unit survives alone and memory was short: other
    shards may show whether the machine or the unit is the cause (`resigned`). RunError if unit
    after unit is killed and none is blamed, or if a process does not come to its first unit.
    """
    module = contract.worker(stage)
    index = tries = lived = 0
    deaths: list[_Death] = []  # of earlier units without rows yet
    while index < len(units):
        with _Child(stage, job, units[index:]) as child:
            while index < len(units):
                rows, code, detail = child.next()
                if code == KILLED:
                    if not alone_now():
                        raise KilledFromOutside(f"{stage}: {units[index].name}: {detail}")
                    if (tries := tries + 1) < TRIES:
                        time.sleep(PAUSE)
                        break
                    spare = child.peak < SPARE * job.memory_limit
                    spare = spare and memory_limits.kills() == child.kills
                    deaths.append(_Death(units[index], child.peak, spare))
                    if len(deaths) == MOST_KILLED:
                        raise RunError(_again_and_again(stage, deaths))
                    index, tries = index + 1, 0
                    break
                yield from _failures(stage, deaths, job)
                deaths, tries, lived = [], 0, lived + 1
                if code:
                    log.warning("%s: %s is quarantined as %s", stage, units[index].name, code)
                    rows = module.failure(units[index], code, detail)
                index += 1
                yield rows
                if code:
                    break
    if not (lived or _resigned.get() or all(death.spare for death in deaths)):
        raise KilledFromOutside(_again_and_again(stage, deaths))
    yield from _failures(stage, deaths, job)


class Rehearsal(NamedTuple):
    """Trials on a known good clip, each with its seconds; and sentences about failures."""

    ran: tuple[tuple[str, float], ...]
    faults: tuple[str, ...]


def rehearse(job: Job) -> Rehearsal:
    """Run everything that the job computes with on a known good clip, in separate processes: for
    each stage, up to the first crash or failure."""
    ran: list[tuple[str, float]] = []
    faults: list[str] = []
    for stage in ("probe", *contract.PER_SHARD):
        with _Child(stage, job, None) as child:
            try:
                code, detail = child.begin()
            except MillError as error:
                code, detail = None, str(error)
            if code or detail:
                faults.append(f"{stage}: {detail}" if code else detail)
            spans = zip(child.trials, pairwise(child.began), strict=False)
            ran += [(trial.name, end - begin) for trial, (begin, end) in spans]
    return Rehearsal(tuple(ran), tuple(faults))


def _failures(stage: str, deaths: Sequence[_Death], job: Job) -> Iterator[Sequence[AnyRow]]:
    """The rows of units that were killed in a row before one survived. A single one with memory to
    spare is itself to blame."""
    for unit, peak, spare in deaths:
        took = f"with {peak >> 20} MiB of the {job.memory_limit >> 20} that a worker may take"
        if spare and len(deaths) == 1:
            code, detail = "crashed", f"it was killed (signal 9) {TRIES} times by itself, {took}"
        else:
            code, detail = KILLED, f"its process was killed from outside (signal 9), {took}"
        log.warning("%s: %s is quarantined as %s", stage, unit.name, code)
        yield contract.worker(stage).failure(unit, code, detail)


def _again_and_again(stage: str, deaths: Sequence[_Death]) -> str:
    limit = memory_limits.of_run()
    return (
        f"{stage}: something kills this run's processes (signal 9): those of "
        f"{counted(len(deaths), 'item')} in a row, {TRIES} times each, with nothing else of the "
        f"run at work; the last one took {deaths[-1].peak >> 20} MiB. Most often memory runs out: "
        f"the limit is {limit.bytes / 1e9:.2f} GB ({limit.source}); raise it, or end what else "
        "takes memory, then run again to continue from here"
    )


class _Child:
    """One disposable process that works through units in order. None: it tries everything that a
    unit of the stage may need, and ends."""

    def __init__(self, stage: str, job: Job, units: Sequence[contract.Work] | None) -> None:
        self.job = job
        self.stage = stage
        self.ready = False
        self.trials = known_good.untried(stage, job, units)
        self.trying: known_good.Trial | None = None  # the current trial on a known good clip
        self.began: list[float] = []  # start of each trial, and the end (monotonic s)
        self.peak = 0  # bytes of resident memory, as seen every POLL
        self.kills = memory_limits.kills()  # of the machine, until now
        reading, writing = os.pipe()
        self.answers = Connection(reading, writable=False)
        try:
            self.process = subprocess.Popen(
                environment.python("-m", "uttermill.tasks.stages.isolate", str(os.getpid())),
                stdin=subprocess.PIPE,
                stdout=writing,
                env=environment.of_child(),
            )
        finally:
            os.close(writing)
        assert self.process.stdin
        # A broken pipe: it died at once, which `begin` notices.
        with suppress(BrokenPipeError), self.process.stdin as task:
            pickle.dump((stage, job, units, [(one.name, one.plugin) for one in self.trials]), task)

    def next(self) -> tuple[Sequence[AnyRow], str | None, str]:
        """(rows, None, "") or ([], code, detail) of the next unit."""
        if not self.ready:  # the interpreter's start does not count against the first unit
            code, detail = self.begin()
            if code:
                return [], code, detail
        rows, code, detail = self._answer(self.job.item_timeout)
        assert not isinstance(rows, int)
        return rows, code, detail

    def begin(self) -> tuple[str | None, str]:
        """Wait until its trials are over. (None, ""), or how it was killed from outside; RunError
        if it ended otherwise, which no unit can cause."""
        while not self.ready:
            answer, code, detail = self._answer(max(START, self.job.item_timeout))
            if code == KILLED:
                return code, detail
            if code:
                raise RunError(self._not_begun(code, detail))
            self.began.append(time.monotonic())
            if isinstance(answer, int):
                self.trying = self.trials[answer]
            else:
                self.ready = True
                known_good.passed(self.trials)
        return None, ""

    def _not_begun(self, code: str, detail: str) -> str:
        if self.trying is None:
            return (
                f"{self.stage}: a process for items one by one does not begin on "
                f"{platform.node()} ({detail}); no recording is to blame: see what keeps this "
                "machine busy or takes its memory, and run again to continue from here"
            )
        if code == "crashed":
            return known_good.blamed(self.trying, "crashes", ended(self.process.returncode))
        return known_good.blamed(self.trying, "does not end", detail)

    def _answer(self, seconds: float) -> tuple[Sequence[AnyRow] | int, str | None, str]:
        deadline = time.monotonic() + seconds
        while not self.answers.poll(POLL):
            if time.monotonic() > deadline:
                self.process.kill()
                return [], "timeout", f"no result within {seconds:.0f} s"
            taken = 0
            with suppress(psutil.NoSuchProcess):
                taken = int(psutil.Process(self.process.pid).memory_info().rss)
            self.peak = max(self.peak, taken)
            if taken > self.job.memory_limit:
                self.process.kill()
                limit = self.job.memory_limit / 2**20
                return [], "out_of_memory", f"its process grew beyond {limit:.0f} MiB"
        try:
            answer = self.answers.recv()
        except (EOFError, OSError):  # at the start of an answer, or within one
            status = self.process.wait()
            if status == -signal.SIGKILL:
                return [], KILLED, "its process was killed from outside (signal 9)"
            return [], "crashed", f"its process ended with status {status}"
        if isinstance(answer, MemoryError):
            return [], "out_of_memory", str(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer, None, ""

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()


def main() -> None:
    """The child: units on stdin, rows on stdout."""
    die_with_parent(int(sys.argv[1]))
    die_first(OF_ISOLATED)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # a library's output must not end up between the answers
    stage, job, units, wanted = pickle.load(sys.stdin.buffer)
    module = contract.worker(stage)
    untried = {(one.name, one.plugin): one for one in known_good.untried(stage, job, units)}
    for number, key in enumerate(wanted):
        answers.send(number)
        try:
            known_good.attempt(untried[key])
        except Exception as error:  # the parent raises it
            answers.send_bytes(_pickled(error))
            return
    answers.send([])
    for unit in units or ():
        try:
            answer: Sequence[AnyRow] | BaseException = next(iter(module.compute([unit], job)))
        except Exception as error:  # our bug, or a damaged blob: the parent raises it
            answer = error
        answers.send_bytes(_pickled(answer))


def _pickled(answer: object) -> bytes:
    """An error that cannot be pickled is sent as its message, so that our bugs are reported."""
    try:
        data = pickle.dumps(answer)
        if isinstance(answer, Exception):
            pickle.loads(data)
        return data
    except Exception:  # pickle calls code of the error's class
        return pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))


if __name__ == "__main__":
    main()
