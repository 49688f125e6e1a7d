"""What SIGINT does to a test and to the processes that it starts, and how a fork of it ends.

A suite that is started with `nohup … &` in a script inherits an ignored SIGINT, as do its children.
Tests of interrupts must not depend on that: they choose.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt here, and has its default effect on children started here."""
    with _disposition(signal.default_int_handler):
        yield


@contextmanager
def uninterruptible() -> Iterator[None]:
    """SIGINT is ignored here, and by children started here."""
    with _disposition(signal.SIG_IGN):
        yield


@contextmanager
def _disposition(handler: signal._HANDLER) -> Iterator[None]:
    # A handler is not inherited over exec: children get the default in its place.
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def forked(work: Callable[..., None], *args: Any) -> int:
    """The signal that ended a call in a fork of this process; 0 for none, negative for an error."""
    child = os.fork()
    if not child:
        try:
            work(*args)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return -os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
