"""The beginning and the end of a command's process: both end at once, by a signal, too.

This imports next to nothing: until `begin` is called, which is some 0.1 s after the interpreter has
started, Ctrl-C ends in a traceback of Python's, and SIGTERM by that signal.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from functools import partial

#: A process's handlers by default.
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_leaves_threads = False
_code: int | None = None  # of the command that is over


def begin() -> None:
    """Until the command begins, SIGINT and SIGTERM end this process silently: there is nothing to
    clean up, and a library in C that is interrupted while it is loaded may crash. A signal that
    somebody else has set stays as it is (`nohup … &`)."""
    for number, default in DEFAULTS.items():
        if signal.getsignal(number) is default:
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
            signal.signal(number, partial(_end_by, code))


def is_undecided(number: signal.Signals) -> bool:
    """Whether nobody but `begin` has set a handler for this signal."""
    return signal.getsignal(number) in (DEFAULTS[number], _end)


def _end(number: int, frame: object) -> None:
    os._exit(128 + number)


def _end_by(code: int, number: int, frame: object) -> None:
    os._exit(code)


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
