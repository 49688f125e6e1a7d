"""An interrupt ends a command even where Python itself would drop it."""

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pydantic import BaseModel, model_serializer

from tests.helpers.signals import interruptible, uninterruptible
from tests.helpers.tiers import nightly
from uttermill.flows import cli
from uttermill.flows.cli import command_line, process_setup, queries
from uttermill.flows.cli.process_setup import Heard


@contextmanager
def signalled_in_a_collection(number: signal.Signals) -> Iterator[None]:
    """The next garbage collection is interrupted in a callback, once."""
    left = [number]

    def callback(phase: str, info: dict[str, int]) -> None:
        if left:
            signal.raise_signal(left.pop())

    gc.callbacks.append(callback)
    try:
        yield
        assert not left
    finally:
        gc.callbacks.remove(callback)


def long_work() -> None:
    gc.collect()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_a_garbage_collection_ends_the_work(number: signal.Signals) -> None:
    before = sys.unraisablehook
    with (
        interruptible(),
        signalled_in_a_collection(number),
        process_setup.interrupts_heard(Heard()),
        pytest.raises(KeyboardInterrupt),
    ):
        long_work()
    assert sys.unraisablehook is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_swallows_comes_again(number: signal.Signals) -> None:
    def swallowing() -> None:
        with suppress(BaseException):  # `try: import … except: pass`
            signal.raise_signal(number)
        long_work()

    heard = Heard()
    with interruptible(), process_setup.interrupts_heard(heard), pytest.raises(KeyboardInterrupt):
        swallowing()
    assert heard.terminated is (number == signal.SIGTERM)


def test_an_interrupt_comes_once_where_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """What handles it is not interrupted again, nor what comes after the command."""
    again: list[int] = []
    monkeypatch.setattr(process_setup, "interrupt_main", again.append)
    with interruptible():
        try:
            with process_setup.interrupts_heard(Heard()):
                try:
                    signal.raise_signal(signal.SIGINT)
                finally:
                    time.sleep(3 * process_setup.AGAIN_SECONDS)
        except KeyboardInterrupt:
            pass
        time.sleep(3 * process_setup.AGAIN_SECONDS)
    assert again == []


def test_sigterm_during_a_garbage_collection_where_sigint_is_ignored() -> None:
    with (
        uninterruptible(),
        signalled_in_a_collection(signal.SIGTERM),
        process_setup.interrupts_heard(Heard()),
        pytest.raises(KeyboardInterrupt),
    ):
        long_work()


def test_other_errors_that_python_drops_are_told_as_before() -> None:
    told = []
    before, sys.unraisablehook = sys.unraisablehook, lambda args: told.append(args.exc_type)

    class Faulty:
        def __del__(self) -> None:
            raise ValueError

    try:
        with process_setup.interrupts_heard(Heard()):
            Faulty()
            gc.collect()
    finally:
        sys.unraisablehook = before
    assert told == [ValueError]


@pytest.mark.parametrize(("cause", "is_told"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_an_interrupt_that_prefect_logs_is_not_told(
    cause: type[BaseException], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Prefect catches what goes wrong while it is imported; Python had made another error of it."""
    with process_setup.interrupts_heard(Heard()):
        try:
            raise RuntimeError("Error calling __set_name__") from cause()
        except RuntimeError:
            logging.getLogger("prefect.plugins").exception("Failed to initialize plugins")
    assert bool(caplog.records) is is_told


INTERRUPTED_IMPORT = """
import signal, sys
from importlib.abc import MetaPathFinder

number = int(sys.argv.pop())
module = sys.argv.pop()

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == module:
            exec("signal.raise_signal(number)")  # as libraries make classes

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sys.meta_path.insert(0, Interrupting())
from uttermill.flows.cli import main
sys.argv.append("plugins")
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
@pytest.mark.parametrize(
    "module",
    [
        "uttermill.tasks", nightly("uttermill.flows.cli.command_line"), "pyarrow",
        nightly("uttermill.flows.cli.tool_commands"), "uttermill.tasks.plugins",
    ],
)  # fmt: skip
def test_an_interrupt_while_the_command_still_imports_prints_no_traceback(
    module: str, number: signal.Signals
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, str(int(number))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 128 + number
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


INTERRUPTED_AFTER = """
import atexit, os, signal, sys, threading
import uttermill.flows.cli.printing
from uttermill.tasks.base import environment
from uttermill.flows.cli import command_line, main

moment, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:]

def signalled():
    signal.raise_signal(number)

class Last:  # which Python drops when it takes modules apart
    def __del__(self, write=os.write):
        write(2, b"modules are taken apart")

class Scope:  # of which the command makes the last use
    def __exit__(self, *error):
        signalled()
    def __enter__(self):
        pass

def command(args):
    if moment == "thread":
        threading._register_atexit(signalled)
    elif moment == "exit":
        atexit.register(signalled)
    sys.modules["last"] = Last()
    print("done")
    return uttermill.flows.cli.printing.Exit(3)

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
command_line.COMMANDS["schema"] = command
if moment == "scope":
    environment.set_up = Scope
sys.argv.append("schema")
sys.exit(main())
"""


@pytest.mark.parametrize("number", [nightly(signal.SIGINT), signal.SIGTERM])
@pytest.mark.parametrize("moment", ["thread", "exit"])
def test_a_signal_after_the_command_leaves_its_exit_code(
    moment: str, number: signal.Signals
) -> None:
    """At Python's end of threads, and of what is registered; its end of modules is left out."""
    assert ended_after(moment, number) == (3, "done\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
def test_a_signal_while_the_command_restores_its_environment(number: signal.Signals) -> None:
    assert ended_after("scope", number) == (128 + number, "done\n", "")


def ended_after(moment: str, number: signal.Signals) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AFTER, moment, str(int(number))],
        capture_output=True, text=True,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


INTERRUPTED_CLASS = """
import signal, sys
from uttermill.flows.cli import command_line, main

def making_a_class(args):
    exec("signal.raise_signal(signal.SIGINT)")  # as `dataclass` does

signal.signal(signal.SIGINT, signal.default_int_handler)
command_line.COMMANDS["schema"] = making_a_class
sys.argv.append("schema")
sys.exit(main())
"""


def test_an_interrupt_while_a_class_is_made_ends_by_the_exit_code(tmp_path: Path) -> None:
    """`python -m` ended by SIGINT there, behind the sentence."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED_CLASS)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ended = subprocess.run(
        [sys.executable, "-m", "interrupted"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ended.returncode == 130
    assert ended.stderr == "uttermill: interrupted; run it again to continue from here\n"


def test_an_interrupt_that_a_library_turned_into_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Importing Prefect serializes its settings: Ctrl-C then ended in a traceback."""

    class Settings(BaseModel):
        @model_serializer
        def told(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(queries, "columns", lambda: Settings().model_dump())
    assert cli.main(["schema"]) == 130
    assert capsys.readouterr().err == "uttermill: interrupted; run it again to continue from here\n"


def test_an_interrupt_while_arguments_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "parser", interrupted)
    assert cli.main(["schema"]) == 130
