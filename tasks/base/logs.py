"""The one logger of uttermill: what a run says beside its results."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.base import masking

log = logging.getLogger("uttermill")


@contextmanager
def silent() -> Iterator[None]:
    """Inside, nothing is said: for checks that are made again where what they say counts."""
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


@contextmanager
def once() -> Iterator[None]:
    """Inside, the same words are said once: for answers whose parts come to the same findings."""
    spoken = set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        words = record.getMessage()
        new = words not in spoken
        spoken.add(words)
        return new

    log.addFilter(is_new)
    try:
        yield
    finally:
        log.removeFilter(is_new)


@contextmanager
def sent_to(handler: logging.Handler, form: str) -> Iterator[None]:
    """Inside, the handler gets every record, without credentials, in this form."""
    handler.setFormatter(logging.Formatter(form))
    handler.addFilter(masking.Filter())
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
