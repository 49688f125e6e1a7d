"""Clips to tars: equal in duration, shuffled by seed, the same whatever the work shards were."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from heapq import heapify, heapreplace

from tasks.manifest import Row


def shuffle_key(seed: int, utterance: str) -> bytes:
    """Sort key that looks random and depends on nothing but seed and id."""
    return hashlib.sha256(f"{seed}:{utterance}".encode()).digest()


def tars(rows: Sequence[Row], hours: float, seed: int) -> list[list[Row]]:
    """Groups of rows of about `hours` each; longest clips are dealt first, to the lightest group.

    Any two groups differ by at most one longest clip; there is no tiny last one.
    """
    total = sum(row["num_samples"] / row["sample_rate"] for row in rows)
    count = min(max(1, round(total / 3600 / hours)), max(1, len(rows)))
    groups: list[list[tuple[bytes, Row]]] = [[] for _ in range(count)]
    heap = [(0, index) for index in range(count)]
    heapify(heap)
    keyed = [(shuffle_key(seed, row["id"]), row) for row in rows]
    for key, row in sorted(keyed, key=lambda k: (-k[1]["num_samples"], k[0])):
        load, index = heap[0]
        groups[index].append((key, row))
        heapreplace(heap, (load + row["num_samples"], index))
    return [[row for _, row in sorted(group, key=lambda k: k[0])] for group in groups]
