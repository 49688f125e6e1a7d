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
