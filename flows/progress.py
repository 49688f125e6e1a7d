"""Progress of a run, one line per stage: hours of audio done, speed, time left.

On a terminal these are live bars that share a console with Prefect's log lines; elsewhere (CI, a
file, a pipe) each stage prints one plain line when it ends, and a run says every EVERY seconds how
far it is. Everything goes to stderr.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TextIO

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from ..tasks.base.json_types import JsonObject
from ..tasks.base.logs import log
from ..tasks.runs.executor import Observer, Sharded
from .formatting import clock, hours, speed_of
from .run import ledger_items

EVERY = 30.0  # s between two lines if there are no bars
STALLED = 120.0  # s without progress, after which no time left is shown
WAITS = 5.0  # s that a stage may exceed its time left before none is shown


class _Logged(io.StringIO):
    """A stream whose lines go to the log."""

    def write(self, text: str) -> int:
        for line in filter(None, text.split("\n")):
            log.info("%s", line)
        return len(text)


#: Where progress goes; None: to stderr.
_output: ContextVar[TextIO | None] = ContextVar("output", default=None)


def output() -> TextIO:
    return _output.get() or sys.stderr


@contextmanager
def logged() -> Iterator[None]:
    """Inside, progress goes to the log, for a program that imports uttermill."""
    token = _output.set(_Logged())
    try:
        yield
    finally:
        _output.reset(token)


@contextmanager
def repeated(line: Callable[[], str], stream: TextIO) -> Iterator[None]:
    """Inside, print `line()` every EVERY seconds, from a thread."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(EVERY):
            print(line(), file=stream, flush=True)

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()  # a line that it has begun comes before what the caller prints next


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Print `what`, and every EVERY seconds that it still goes on."""
    began = time.monotonic()
    print(f"{what} …", file=output(), flush=True)
    with repeated(lambda: f"{what} … {clock(time.monotonic() - began)}", output()):
        yield


@dataclass
class Standing:
    """How far a stage is, in seconds of audio; `seconds` is its wall time so far, which stops while
    it has nothing to do, so that its speed does not fall while other stages run."""

    name: str
    listed: float = 0.0  # of all shards' recordings
    done: float = 0.0
    reused: float = 0.0  # part of `done` that was not computed now; not in the speed
    seconds: float = 0.0
    finished: bool = False
    left_out: float = 0.0  # of `listed`: dropped or failed before this stage, or stored
    still: float = 0.0  # of `seconds`: since it last did something
    began: float = field(default_factory=lambda: time.monotonic(), compare=False)
    moved: float = field(default_factory=lambda: time.monotonic(), compare=False)  # last did
    bar: TaskID | None = field(default=None, compare=False)

    @property
    def total(self) -> float:
        return self.done if self.finished else max(self.done, self.listed - self.left_out)

    @property
    def through(self) -> bool:
        """Whether all audio listed so far is done; more may be listed."""
        return 0 < self.total <= self.done + 0.5  # lengths in headers are less exact

    @property
    def speed(self) -> str:
        return speed_of(self.done - self.reused, self.seconds)

    @property
    def left(self) -> float | None:
        """Wall seconds left, counted down from the last progress at the speed until then; None
        while unknown, if it has stalled, and if the time is over but the stage is not."""
        computed = self.done - self.reused
        paced = self.seconds - self.still
        if computed <= 0 or paced <= 0 or self.still > STALLED:
            return None
        seconds = (self.total - self.done) * paced / computed - self.still
        return max(0.0, seconds) if seconds > -WAITS else None


class Progress(Observer):
    """Bars of a run, which it observes; a context manager; every method may be called from any
    thread.

    Seconds are seconds of audio. A stage may be started again with a larger total while recordings
    are still being found. `advance(..., reused=True)` moves the bar without changing the speed.
    Files that the sources skipped are listed in `folder`.
    """

    task_runs = 0  # recorded in Prefect

    def __init__(self, stream: TextIO | None = None, folder: Path | None = None) -> None:
        stream = stream if stream is not None else output()
        self._folder = folder
        self._lock = threading.RLock()
        self._stages: dict[str, Standing] = {}
        self._left_out: dict[tuple[str, str], float] = {}  # by stage and shard
        self._began = time.monotonic()
        self._without_workers = False
        self._stream = stream
        self._bars: Bars | None = None
        self._open = ExitStack()
        if stream.isatty():
            console = Console(file=stream, markup=False, highlight=False)  # log lines name files
            self._bars = Bars(
                TextColumn("{task.description:<10}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[hours]}"),
                TextColumn("{task.fields[speed]}"),
                TextColumn("{task.fields[left]}"),
                console=console,
                redirect_stdout=False,  # stdout is for results
                redirect_stderr=False,  # log lines come through the console, see below
                refresh_per_second=4,
            )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._open.enter_context(shared_console(self._bars.console, self._stream))
            self._open.enter_context(self._bars)
        else:
            self._open.enter_context(repeated(self.line, self._stream))
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def start(self, stage: str, total_seconds: float) -> None:
        """Show the stage, or set its new total, from which shards may leave out some audio.

        A stage that has ended begins anew: after a repair, a run does all its steps again.
        """
        with self._lock:
            standing = self._now(stage)
            if standing.finished:
                standing = self._stages[stage] = Standing(stage, bar=standing.bar)
                for place in [place for place in self._left_out if place[0] == stage]:
                    del self._left_out[place]
            standing.listed = total_seconds
            if self._bars is not None and standing.bar is None:
                standing.bar = self._bars.add_task(stage, hours="", speed="", left="")
            self._show(standing)

    def advance(self, stage: str, seconds: float, reused: bool = False) -> None:
        with self._lock:
            standing = self._now(stage)
            standing.done += seconds
            standing.moved, standing.still = time.monotonic(), 0.0
            if reused:
                standing.reused += seconds
            self._show(standing)

    def finish(self, stage: str) -> None:
        with self._lock:
            standing = self._now(stage)
            if standing.finished:
                return
            standing.finished = True
            self._show(standing)
            if self._bars is None:
                line = f"{stage}: {hours(standing.done)} of audio in {clock(standing.seconds)}"
                speed = f", {standing.speed}" if standing.speed else ""
                print(line + speed, file=self._stream, flush=True)

    def sharded(self, sharding: Sharded) -> None:
        if self._folder is not None:
            ledger_items.write_skipped(self._folder, sharding.skipped)

    def conclude(self, result: JsonObject, report: Path) -> None:
        """The run has ended well; `result`: of `run --json`."""

    def standing(self) -> list[Standing]:
        with self._lock:
            return [replace(self._now(name)) for name in self._stages]

    @contextmanager
    def while_workers_start(self) -> Iterator[None]:
        """Inside, nothing can be computed, and no stage's time passes."""
        self._without_workers = True
        try:
            yield
        finally:
            with self._lock:
                self._without_workers = False
                for stage in self._stages.values():
                    stage.began = stage.moved = time.monotonic()

    def _now(self, name: str) -> Standing:
        stage = self._stages.setdefault(name, Standing(name))
        if not stage.finished and not stage.through:
            now = time.monotonic()
            stage.seconds, stage.still = now - stage.began, now - stage.moved
        return stage

    def line(self) -> str:
        """The run on one line: each open stage's audio done, speed, and time left."""
        going = [stage for stage in self.standing() if not stage.finished]
        # `filter 1.20 of 3.10 h, 84 x real time, 1:20 left`
        open_stages = [
            f"{s.name} {s.done / 3600:.2f} of {hours(s.total)}"
            + "".join(f", {part}" for part in (s.speed, left_in_words(s)) if part)
            for s in going
            if s.total or s.done
        ]
        whole = clock(time.monotonic() - self._began)
        if open_stages:
            return f"{whole}  {'; '.join(open_stages)}"
        if going and not self._without_workers:
            return f"{whole}  {going[0].name} goes on"
        ended = ", ".join(stage.name for stage in self.standing() if stage.finished)
        if ended.endswith("package"):
            return f"{whole}  {ended} done, the report follows"
        return f"{whole}  {f'{ended} done' if ended else 'the workers start'}"

    def on_event(self, event: tuple[float, object]) -> None:
        """Handler for `Cluster.subscribe`: a worker's `{"stage": str, "shard": str}` with the
        `seconds` that it has done, or with those `left_out` of the shard."""
        match event[1]:
            case {"stage": str(stage), "seconds": float(seconds)}:
                self.advance(stage, seconds)
            case {"stage": str(stage), "shard": str(shard), "left_out": float(seconds)}:
                with self._lock:
                    standing = self._now(stage)
                    # A shard reports it again after a worker's death.
                    standing.left_out += seconds - self._left_out.get((stage, shard), 0.0)
                    self._left_out[stage, shard] = seconds
                    self._show(standing)

    def _show(self, stage: Standing) -> None:
        if self._bars is None or stage.bar is None:
            return
        self._bars.update(
            stage.bar,
            # A total of 0 would show an endless bar.
            total=stage.total or 1.0,
            completed=stage.done if stage.total or stage.done else float(stage.finished),
            hours=f"{stage.done / 3600:.2f}/{hours(stage.total)}",
            speed=stage.speed,
            left=left_in_words(stage),
        )


def left_in_words(stage: Standing) -> str:
    """`1:20 left`, or how long nothing has been done; empty while unknown, and at the end."""
    if stage.finished or stage.through:
        return ""
    if stage.still > STALLED:
        return f"nothing done for {clock(stage.still)}"
    return "" if stage.left is None else f"{clock(stage.left)} left"


@contextmanager
def shared_console(console: Console, stream: TextIO) -> Iterator[None]:
    """Inside, log handlers that write to `stream` print through `console`, above the bars, which
    they would garble. Prefect's handlers have their own console; plain handlers write to the
    stream."""
    with ExitStack() as restore:
        for handler in handlers():
            previous = getattr(handler, "console", None)
            if isinstance(previous, Console) and previous.file in (stream, sys.stderr):
                restore.callback(setattr, handler, "console", previous)
                handler.console = console  # type: ignore[attr-defined]
            elif isinstance(handler, logging.StreamHandler) and handler.stream is stream:
                restore.callback(handler.setStream, stream)
                handler.setStream(FileProxy(console, stream))
        yield


def handlers() -> list[logging.Handler]:
    loggers = [logging.getLogger(), *logging.root.manager.loggerDict.values()]
    # One handler may serve several loggers; placeholders in the list have none.
    by_id = {id(h): h for log in loggers if isinstance(log, logging.Logger) for h in log.handlers}
    return list(by_id.values())
