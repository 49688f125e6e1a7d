"""Run units one by one in a disposable process, to find the one that kills it.

The parent sends units; the child returns the rows of each. When the child dies, hangs or exceeds
the memory limit, its current unit is quarantined and a new child continues with the next one. Each
culprit costs one start of an interpreter (a second or two), and a hang the item's timeout.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

import psutil

from tasks import environment
from tasks.job import Job
from tasks.logs import log
from tasks.schema import Row
from tasks.stages import contract

POLL = 0.2  # s between checks of the child's memory
START = 120.0  # s that a new process may take to reach its first unit


def results(stage: str, job: Job, units: Sequence[contract.Work]) -> Iterator[list[Row]]:
    """Rows of each unit, in order; a unit that kills its process gives the rows of its failure."""
    module = contract.worker(stage)
    at = 0
    while at < len(units):
        with _Child(stage, job, units[at:]) as child:
            while at < len(units):
                rows, code, detail = child.next()
                if code:
                    log.warning("%s: %s is quarantined as %s", stage, units[at].name, code)
                    rows = module.failure(units[at], code, detail)
                at += 1
                yield rows
                if code:
                    break


class _Child:
    """One disposable process that works through units in order."""

    def __init__(self, stage: str, job: Job, units: Sequence[contract.Work]) -> None:
        self.job = job
        self.ready = False
        reading, writing = os.pipe()
        self.answers = Connection(reading, writable=False)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tasks.stages.isolate", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=writing,
                env=environment.of_child(),
            )
        finally:
            os.close(writing)
        assert self.process.stdin
        # A broken pipe: it died at once, which `next` notices, and names the first unit.
        with suppress(BrokenPipeError), self.process.stdin as task:
            pickle.dump((stage, job, units), task)

    def next(self) -> tuple[list[Row], str | None, str]:
        """(rows, None, "") or ([], code, detail) of the next unit."""
        if not self.ready:  # the start of the interpreter is not counted against the first unit
            _, code, detail = self._answer(max(START, self.job.item_timeout))
            if code:
                return [], code, detail
            self.ready = True
        return self._answer(self.job.item_timeout)

    def _answer(self, seconds: float) -> tuple[list[Row], str | None, str]:
        deadline = time.monotonic() + seconds
        while not self.answers.poll(POLL):
            if time.monotonic() > deadline:
                self.process.kill()
                return [], "timeout", f"no result within {seconds:.0f} s"
            if self._memory() > self.job.memory_limit:
                self.process.kill()
                limit = self.job.memory_limit / 2**20
                return [], "out_of_memory", f"its process grew beyond {limit:.0f} MiB"
        try:
            answer = self.answers.recv()
        except (EOFError, OSError):  # at an answer's begin, or within one
            status = self.process.wait()
            return [], "crashed", f"its process ended with status {status}"
        if isinstance(answer, MemoryError):
            return [], "out_of_memory", str(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer, None, ""

    def _memory(self) -> int:
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()


def main() -> None:
    """The child: units on stdin, rows on stdout."""
    from tasks.stages import process

    process.die_with_parent(int(sys.argv[1]))
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # a library's output must not end up between the answers
    stage, job, units = pickle.load(sys.stdin.buffer)
    module = contract.worker(stage)
    answers.send([])
    for unit in units:
        try:
            answer: list[Row] | BaseException = next(iter(module.compute([unit], job)))
        except Exception as error:  # our bug, or a damaged blob: the parent raises it
            answer = error
        answers.send_bytes(_pickled(answer))


def _pickled(answer: object) -> bytes:
    """An error that cannot be pickled is sent as its message: our bugs stay loud."""
    try:
        data = pickle.dumps(answer)
        if isinstance(answer, Exception):
            pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(RuntimeError(f"{type(answer).__name__}: {answer}"))


if __name__ == "__main__":
    main()
