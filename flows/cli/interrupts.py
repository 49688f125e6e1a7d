"""Handles Ctrl-C and SIGTERM: both end a command at any moment, in the same way.

`uttermill serve` has handlers of its own (`flows/serve.py`), `uttermill explore` those of uvicorn.
"""

from __future__ import annotations

import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

AGAIN_SECONDS = 0.02  # after which a lost interrupt is raised again


@contextmanager
def heard() -> Iterator[None]:
    """Within, both raise KeyboardInterrupt in the main thread, where this must be called."""
    with _by_sigterm(), _never_lost():
        yield


def became(error: BaseException) -> bool:
    """Whether an error is what a library made of an interrupt: of one in a serializer pydantic
    makes an error that only names it."""
    known: BaseException | None = error
    while known is not None:
        if isinstance(known, KeyboardInterrupt) or KeyboardInterrupt.__name__ in str(known):
            return True
        known = known.__cause__ or known.__context__
    return False


@contextmanager
def _by_sigterm() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, also where SIGINT is ignored (`nohup … &`)."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _never_lost() -> Iterator[None]:
    """An interrupt that Python drops is raised again a moment later.

    It drops one that comes in a finalizer or in a callback of the garbage collector; distributed
    has such a callback, and importing Prefect calls it often.
    """
    before = sys.unraisablehook

    def hook(unraisable: UnraisableHookArgs) -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            before(unraisable)
            return
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        number = signal.SIGTERM if ignored else signal.SIGINT
        again = threading.Timer(AGAIN_SECONDS, interrupt_main, [number])
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
