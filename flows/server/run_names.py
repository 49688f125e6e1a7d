"""Names of flow runs and task runs in Prefect.

A name that a person typed for a flow run is kept; one that Prefect made up is replaced by the names
of the datasets and the time. The form in Prefect's UI proposes names of stars (`tau4-octantis`).
Those are kept as well: they come from too many words to be told apart from typed names, and no two
are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

MOST = 60  # characters of the datasets' names


def flow_run(typed: str, kind: str, datasets: Sequence[str], now: datetime) -> str:
    """`typed`, unless Prefect made it up: then `podcasts 2026-01-31 02:00:05`, which no two runs of
    a deployment share. `kind` is `prepare` or `estimate`."""
    if not is_made_up(typed):
        return typed
    names = ", ".join(datasets)
    if len(names) > MOST:
        names = f"{names[: MOST - 1]}…"
    head = "" if kind == "prepare" else f"{kind} "
    return f"{head}{names} {now:%Y-%m-%d %H:%M:%S}"


def task_run(stage: str, what: str, seconds: float) -> str:
    """`filter · shard 000007 · 1.02 h`; `what`: a shard or a group of them."""
    return f"{stage} · {what.replace('shard-', 'shard ')} · {seconds / 3600:.2f} h"


def group(shards: Sequence[str]) -> str:
    """`20 shards, 000100 to 000119`; the numbers between them may belong to others."""
    numbers = sorted(shard.removeprefix("shard-") for shard in shards)
    if len(numbers) == 1:
        return f"shard {numbers[0]}"
    return f"{len(numbers)} shards, {numbers[0]} to {numbers[-1]}"


def is_made_up(name: str) -> bool:
    """Whether a name is of Prefect's kind, `adjective-animal`, in its own words."""
    words = name.split("-")
    return len(words) >= 2 and all(word in _vocabulary() for word in words)


@cache
def _vocabulary() -> frozenset[str]:
    from coolname.data import config  # what Prefect draws its names from

    found: Any = config
    lists = (entry["words"] for entry in found.values() if entry["type"] == "words")
    return frozenset(word for words in lists for word in words)
