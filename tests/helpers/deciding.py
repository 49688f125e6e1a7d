"""A person's program that decides beside others: imports little, as tests start many of them."""

from uttermill.tasks import storage
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.shard_store.decision_log import Decision

WHEN = "2026-01-31T12:00:00Z"


def drop_some(out: str, number: int, count: int) -> None:
    """Drop so many utterances, one after the other."""
    for at in range(count):
        decision_log.append(storage.place(out), [Decision(f"u-{number}-{at}", "drop", when=WHEN)])
