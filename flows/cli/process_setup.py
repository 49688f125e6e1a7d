"""The process of a command: file names are UTF-8, standard streams are open, and Ctrl-C and SIGTERM
end it in the same way at any moment.

Until `begin` is called, which is some 0.1 s after the interpreter has started, Ctrl-C ends in a
traceback of Python's, and SIGTERM by that signal. So this imports little.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
import threading
import weakref
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from sys import UnraisableHookArgs

AGAIN_SECONDS = 0.02  # after which a lost interrupt is raised again
#: A process's handlers by default.
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_leaves_threads = False
_code: int | None = None  # of the command that is over


def begin() -> None:
    """Until the command begins, SIGINT and SIGTERM end this process silently: there is nothing to
    clean up, and a library in C that is interrupted while it is loaded may crash. A signal that
    somebody else has set stays as it is (`nohup … &`)."""
    for number in DEFAULTS:
        if _is_undecided(number):
            signal.signal(number, _end)
    atexit.register(_leave)  # the first to be registered is the last to be called


def leave_threads() -> None:
    """This process ends as soon as its command has: some threads would go on for minutes."""
    global _leaves_threads
    _leaves_threads = True


def over(code: int) -> None:
    """The command is over and has printed its result: from now on both end the process with its
    exit code, because other threads and exit handlers may take their time."""
    global _code
    _code = code
    if _leaves_threads:
        _leave()
    for number in DEFAULTS:
        if signal.getsignal(number) is _end:
            signal.signal(number, lambda *_: os._exit(code))


def _is_undecided(number: signal.Signals) -> bool:
    """Whether nobody but `begin` has set a handler for this signal."""
    return signal.getsignal(number) in (DEFAULTS[number], _end)


def _end(number: int, frame: object) -> None:
    os._exit(128 + number)


def _leave() -> None:
    """End without clearing the modules, which takes a fifth of a short command's time. An error
    that nobody caught ends as Python has it; it resets its handlers then: a signal would kill."""
    for number in DEFAULTS:
        signal.signal(number, signal.SIG_IGN)
    if _code is not None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(_code)


def ensure_utf8() -> None:
    """Start this process again in Python's UTF-8 mode, unless names are read as UTF-8 already. Its
    children inherit the mode."""
    if sys.getfilesystemencoding() == "utf-8":
        return
    words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, words, {**os.environ, "PYTHONUTF8": "1"})


@contextmanager
def streams_kept() -> Iterator[None]:
    """Inside, all three streams can be used, and writing to standard error, which only accompanies
    the work, never fails. Nothing is left at the end that Python would fail to write, with a
    message. A reader of standard output that ends (`| head -1`) raises BrokenPipeError."""
    _open_closed()
    out, error = sys.stdout, sys.stderr
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Results(1, "w", closefd=False)),
        out.encoding,
        out.errors,
        line_buffering=out.isatty(),
        write_through=getattr(out, "write_through", False),
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Accompanying(2, "w", closefd=False)),
        error.encoding,
        "backslashreplace",
        line_buffering=True,
    )
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            _into_nothing(1)


def _open_closed() -> None:
    """Open closed standard streams: else a file that is written would get a stream's number, and
    with it all that libraries and child processes print there."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - for all of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


class _Results(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


class _Accompanying(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:  # its reader has ended, or its disk is full
            _into_nothing(self.fileno())
            return len(data)


def _into_nothing(descriptor: int) -> None:
    """From now on, discard what is written to the descriptor."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


@dataclass
class Heard:
    terminated: bool = False  # by SIGTERM, not by Ctrl-C
    over: bool = False

    def again(self, number: signal.Signals) -> None:
        """Interrupt the main thread a moment later, unless the command has ended by then."""

        def interrupt() -> None:
            if not self.over:
                interrupt_main(number)

        later = threading.Timer(AGAIN_SECONDS, interrupt)
        later.daemon = True
        later.start()


class _KeyboardInterrupt(KeyboardInterrupt):
    """Its end can be noticed: Python's own has no weak references. Also, if Python's own comes
    while a library executes a string, as to make a class, `python -m` ends by SIGINT even if it was
    handled."""


@contextmanager
def interrupts_heard(heard: Heard) -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM raise KeyboardInterrupt in the main thread, where this must be
    called; also where SIGINT is ignored (`nohup … &`), SIGTERM does.

    Either is raised again if it was lost: Python drops exceptions in finalizers and callbacks of
    the garbage collector (distributed has one, and importing Prefect calls it often), and some
    libraries have an `except:` around their imports. The end of the exception object shows it:
    whoever handles an interrupt holds it until the command ends. None that Python drops is printed,
    nor one that Prefect logs when the import of its plug-ins is interrupted.
    """
    import logging  # here: it registers an exit handler, and that of `begin` comes before all

    def interrupt(number: int, frame: object) -> None:
        heard.terminated = number == signal.SIGTERM
        error = _KeyboardInterrupt()
        weakref.finalize(error, heard.again, signal.Signals(number)).atexit = False
        try:
            raise error
        finally:
            del error  # else its traceback, which has this frame, would hold it

    def hook(unraisable: UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:  # Python's own
            heard.again(signal.SIGINT)
        elif unraisable.exc_type is not _KeyboardInterrupt:
            former(unraisable)

    def is_told(record: logging.LogRecord) -> bool:
        error = record.exc_info and record.exc_info[1]
        return not (error and was_interrupt(error))

    numbers = [signal.SIGTERM]
    if _is_undecided(signal.SIGINT):
        numbers.append(signal.SIGINT)
    former, prefect = sys.unraisablehook, logging.getLogger("prefect.plugins")
    before = {number: signal.signal(number, interrupt) for number in numbers}
    sys.unraisablehook = hook
    prefect.addFilter(is_told)
    try:
        yield
    finally:
        heard.over = True
        sys.unraisablehook = former
        prefect.removeFilter(is_told)
        for number, handler in before.items():
            signal.signal(number, handler)


def was_interrupt(error: BaseException) -> bool:
    """Whether an error is an interrupt that a library converted: pydantic turns one in a serializer
    into an error that only names it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt) or KeyboardInterrupt.__name__ in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
