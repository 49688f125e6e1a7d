"""The logger of uttermill, and ways to silence, thin and redirect it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from . import masking

log = logging.getLogger("uttermill")


@contextmanager
def silent() -> Iterator[None]:
    """Suppress all logging inside, for checks that run again later and log their messages then."""
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


@contextmanager
def once() -> Iterator[None]:
    """Log each message only once inside: for work whose parts report the same finding."""
    logged = set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        new = message not in logged
        logged.add(message)
        return new

    log.addFilter(is_new)
    try:
        yield
    finally:
        log.removeFilter(is_new)


@contextmanager
def sent_to(handler: logging.Handler, form: str) -> Iterator[None]:
    """Inside, the handler gets every record in this format, with credentials masked."""
    handler.setFormatter(logging.Formatter(form))
    handler.addFilter(masking.Filter())
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
