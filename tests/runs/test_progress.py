"""Progress: bars on a terminal without garbling, one plain line a stage elsewhere."""

import io
import logging
import os
import pty
import re
import threading
import time

import pytest

from uttermill.flows import progress
from uttermill.flows.progress import Progress
from uttermill.flows.server import artifacts

ESCAPE = re.compile(r"\x1b\[[0-9;?]*([A-Za-z])")


def screen(output: str) -> list[str]:
    """What a tall terminal shows after this output: enough of an emulator for bars and logs."""
    lines, row, column = [""], 0, 0
    at = 0
    while at < len(output):
        escape = ESCAPE.match(output, at)
        if escape:
            number = int(re.sub(r"\D", "", escape.group()) or 1)
            if escape.group(1) == "A":
                row = max(0, row - number)
            elif escape.group(1) == "K":  # rich erases whole lines
                lines[row] = ""
            at = escape.end()
            continue
        letter = output[at]
        at += 1
        if letter == "\n":
            row += 1
            column = 0
            lines += [""] * (row + 1 - len(lines))
        elif letter == "\r":
            column = 0
        else:
            lines[row] = lines[row][:column].ljust(column) + letter + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def on_a_terminal(action: object) -> str:
    """What `action(stream)` writes to a pseudo terminal."""
    master, slave = pty.openpty()
    written: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(master, 65536):
                written.append(data)
        except OSError:  # Linux: EIO when the other side closes
            pass

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w") as stream:
        assert callable(action)
        action(stream)
    reader.join(10)
    os.close(master)
    return b"".join(written).decode()


def two_stages_with_logs(log: logging.Logger, stream: io.TextIOBase) -> None:
    with Progress(stream=stream) as bars:  # type: ignore[arg-type]
        bars.start("filter", 7200)
        bars.start("transcribe", 7200)
        for number in range(30):
            bars.advance("filter", 240)
            log.warning("line %d of the log", number)
            bars.advance("transcribe", 120)
        bars.finish("filter")


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("columns")
@pytest.mark.parametrize("kind", ["plain", "prefect"])
def test_logs_and_bars_do_not_garble_each_other(kind: str) -> None:
    log = logging.getLogger(f"uttermill.test_progress.{kind}")
    log.propagate = False

    def action(stream: io.TextIOBase) -> None:
        handler: logging.Handler = logging.StreamHandler(stream)
        if kind == "prefect":
            from prefect.logging.handlers import PrefectConsoleHandler

            handler = PrefectConsoleHandler(stream=stream)  # type: ignore[arg-type]
        log.addHandler(handler)
        try:
            two_stages_with_logs(log, stream)
        finally:
            log.removeHandler(handler)

    shown = screen(on_a_terminal(action))
    assert [line for line in shown if "of the log" in line] == [
        f"line {number} of the log" for number in range(30)
    ]
    bars = [line for line in shown if line.startswith(("filter", "transcribe"))]
    assert len(bars) == 2, shown
    assert re.fullmatch(r"filter +━+ 2\.00/2\.00 h +\S+ x real time", bars[0])
    assert re.fullmatch(
        r"transcribe +\S+ ?\S* 1\.00/2\.00 h +\S+ x real time +\d+:\d\d left", bars[1]
    )


def test_without_a_terminal_each_stage_is_one_plain_line() -> None:
    stream = io.StringIO()
    with Progress(stream=stream) as bars:
        for stage in ("filter", "resample"):
            bars.start(stage, 3600)
            bars.advance(stage, 1800)
            bars.on_event((0.0, {"stage": stage, "seconds": 1800.0}))
            bars.finish(stage)
            bars.finish(stage)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"filter: 1\.00 h of audio in 0:00, \S+ x real time", lines[0])
    assert "\x1b" not in stream.getvalue()


def test_reused_audio_does_not_count_as_speed() -> None:
    stream = io.StringIO()
    with Progress(stream=stream) as bars:
        bars.start("filter", 3600)
        bars.advance("filter", 3600, reused=True)
        [standing] = bars.standing()
        assert (standing.done, standing.reused, standing.finished) == (3600, 3600, False)
        bars.finish("filter")
        [standing] = bars.standing()
        assert (standing.finished, bars.standing()) == (True, [standing]), "its time stands still"
    assert stream.getvalue() == "filter: 1.00 h of audio in 0:00\n"


def test_a_stage_that_begins_again_after_a_repair_counts_anew() -> None:
    bars = Progress(stream=io.StringIO())
    for left in (1800.0, 3000.0):
        bars.start("filter", 3600)
        bars.on_event((0.0, {"stage": "filter", "shard": "a", "left_out": left}))
        assert bars.standing()[0].total == 3600 - left
        bars.advance("filter", 3600 - left)
        bars.finish("filter")
        [standing] = bars.standing()
        assert (standing.done, standing.total) == (3600 - left, 3600 - left)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the bars, in seconds; only a test that adds to it lets time pass."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    return clock


def test_what_was_dropped_before_a_stage_is_not_waited_for(now: list[float]) -> None:
    """A run on hours of sparse speech said that two hours were left, and took a minute."""
    bars = Progress(stream=io.StringIO())
    bars.start("transcribe", 7200.0)
    now[0] += 60
    for _ in range(2):  # the second time after its worker's death
        bars.on_event((0.0, {"stage": "transcribe", "shard": "a", "left_out": 3540.0}))
    bars.on_event((0.0, {"stage": "transcribe", "shard": "a", "seconds": 60.0}))
    [standing] = bars.standing()
    assert (standing.total, standing.done) == (3660.0, 60.0)
    assert standing.left == pytest.approx(60 * standing.seconds)
    bars.on_event((0.0, {"stage": "transcribe", "shard": "b", "left_out": 3540.0}))
    [standing] = bars.standing()
    assert standing.left == pytest.approx(standing.seconds)
    bars.finish("transcribe")
    assert bars.standing()[0].total == 60.0


def test_the_speed_of_a_stage_that_waits_for_others_does_not_fall(now: list[float]) -> None:
    """While others recognised, the filter's 24 x real time became 2 x, and 0:00 was left."""
    stream = io.StringIO()
    bars = Progress(stream=stream)
    for stage in ("filter", "transcribe"):
        bars.start(stage, 3600)
    now[0] += 60
    bars.advance("filter", 3600)
    now[0] += 540
    bars.advance("transcribe", 600)
    assert bars.line() == (
        "10:00  filter 1.00 of 1.00 h, 60 x real time; "
        "transcribe 0.17 of 1.00 h, 1.0 x real time, 50:00 left"
    )
    bars.finish("filter")
    assert stream.getvalue() == "filter: 1.00 h of audio in 1:00, 60 x real time\n"


def test_the_time_left_of_a_stalled_stage_does_not_count_up(now: list[float]) -> None:
    """It grew with the time since the last clip, as if the stage had become slower."""
    bars = Progress(stream=io.StringIO())
    bars.start("transcribe", 3600)
    now[0] += 60
    bars.advance("transcribe", 600)
    told = []
    for _ in range(3):
        now[0] += 50
        told.append(bars.standing()[0].left)
    assert told == [pytest.approx(250.0), pytest.approx(200.0), None]
    assert bars.line().endswith("transcribe 0.17 of 1.00 h, 2.9 x real time, nothing done for 2:30")
    assert "| nothing done for 2:30 |" in artifacts._stages(bars.standing())
    bars.advance("transcribe", 600)
    assert bars.standing()[0].left == pytest.approx(2400 * 210 / 1200)


def test_a_stage_that_waits_for_another_is_not_said_to_end_now(now: list[float]) -> None:
    """`0:00 left` stood for two minutes beside a filter that had a third of its audio left."""
    bars = Progress(stream=io.StringIO())
    bars.start("filter", 1200)
    now[0] += 10
    bars.advance("filter", 800)
    now[0] += 30
    assert bars.line().endswith("filter 0.22 of 0.33 h, 20 x real time")


def test_no_worker_starts_after_package() -> None:
    bars = Progress(stream=io.StringIO())
    assert bars.line().endswith("the workers start")
    for stage in ("transcribe", "package"):
        bars.start(stage, 60)
        bars.advance(stage, 60)
        bars.finish(stage)
    assert bars.line().endswith("  transcribe, package done, the report follows")


def test_no_time_of_a_stage_passes_while_workers_start(now: list[float]) -> None:
    bars = Progress(stream=io.StringIO())
    bars.start("shard", 0.0)
    with bars.while_workers_start():
        now[0] += 40
        assert bars.line().endswith("  the workers start")
    now[0] += 10
    assert bars.line().endswith("  shard goes on")
    assert bars.standing()[0].seconds == 10


def test_many_threads_lose_nothing() -> None:
    stream = io.StringIO()
    with Progress(stream=stream) as bars:
        bars.start("filter", 3600)

        def advance() -> None:
            for _ in range(900):
                bars.advance("filter", 1.0)

        threads = [threading.Thread(target=advance) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bars.finish("filter")
    assert stream.getvalue().startswith("filter: 1.00 h")


def test_without_bars_a_run_shows_every_while_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    stream = io.StringIO()
    with Progress(stream=stream) as shown:
        until(stream, "the workers start")
        shown.start("shard", 0.0)
        until(stream, "shard goes on")
        shown.start("filter", 7200.0)
        shown.advance("filter", 600.0)
        shown.advance("filter", 1200.0, reused=True)
        until(stream, "left")
        shown.finish("filter")
    line = next(line for line in stream.getvalue().splitlines() if "left" in line)
    assert re.fullmatch(
        r"\d+:\d\d  filter 0\.50 of 2\.00 h, \d+ x real time, \d+:\d\d left", line
    ), line
    ended = stream.getvalue()
    time.sleep(0.2)
    assert stream.getvalue() == ended, "it ends with the run"


def test_waiting_says_what_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.05)
    told = ""
    with progress.waiting("The server starts"):
        end = time.monotonic() + 60
        while told.count("\n") < 2 and time.monotonic() < end:
            time.sleep(0.01)
            told += capsys.readouterr().err
    lines = told.splitlines()
    assert lines[0] == "The server starts …"
    assert lines[1] == "The server starts … 0:00"


def test_a_repeated_line_is_printed_before_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.001)
    stream, begun = io.StringIO(), threading.Event()

    def line() -> str:
        begun.set()
        time.sleep(0.2)
        return "still at work"

    with progress.repeated(line, stream):
        assert begun.wait(10)
    print("ended", file=stream)
    time.sleep(0.4)
    assert stream.getvalue().splitlines() == ["still at work", "ended"]


def until(stream: io.StringIO, words: str) -> None:
    end = time.monotonic() + 60
    while words not in stream.getvalue():
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.01)
