"""Names of flow runs: a typed name is kept, otherwise the name says of what and when.

The form in Prefect's pages proposes names of stars (`tau4-octantis`), from more words than a typed
one could be told from: those are kept too, and no two are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

MOST = 60  # characters of the datasets' names


def name_of(typed: str, kind: str, datasets: Sequence[str], now: datetime) -> str:
    """`typed`, unless Prefect made it up: then `podcasts 2026-01-31 02:00:05`, which no two runs of
    a deployment share. `kind` is `prepare` or `estimate`."""
    if not is_made_up(typed):
        return typed
    names = ", ".join(datasets)
    if len(names) > MOST:
        names = f"{names[: MOST - 1]}…"
    head = "" if kind == "prepare" else f"{kind} "
    return f"{head}{names} {now:%Y-%m-%d %H:%M:%S}"


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
