"""A person's program that decides beside others: imports little, as tests start many of them."""

from __future__ import annotations

from tasks import storage
from tasks.reviews import log
from tasks.reviews.log import Decision

WHEN = "2026-01-31T12:00:00Z"


def drop_some(out: str, number: int, count: int) -> None:
    """Drop so many utterances, one after the other."""
    for at in range(count):
        log.append(storage.place(out), [Decision(f"u-{number}-{at}", "drop", when=WHEN)])
