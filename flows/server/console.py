"""Limits what Prefect prints on the terminal during a run to its own warnings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flows.progress import handlers
from tasks.base.errors import MillError

OURS = ("uttermill", "prefect.flow_runs", "prefect.task_runs")


class _NotTwice(logging.Filter):
    """Drops records that the terminal already shows: ours, and errors that end in a sentence.

    Prefect would print them again for each flow and task run. Tracebacks of bugs pass.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith(OURS):
            return False
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, MillError | KeyboardInterrupt)


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Prefect's console handlers print only warnings; its history keeps every record."""
    from prefect.logging.handlers import PrefectConsoleHandler

    twice = _NotTwice()
    with ExitStack() as restore:
        for handler in handlers():
            if isinstance(handler, PrefectConsoleHandler):
                restore.callback(handler.setLevel, handler.level)
                restore.callback(handler.removeFilter, twice)
                handler.setLevel(logging.WARNING)
                handler.addFilter(twice)
        yield
