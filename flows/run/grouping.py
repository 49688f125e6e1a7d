"""Which shards share their task runs in Prefect's history, so that it stays small.

A task run costs some 20 ms of CPU in flow and server together, and a row and five events in
Prefect's database. That is little beside a stage of an hour of audio, but not beside one of a
minute, and 100,000 hours would make 300,000 of them. So a task run stands for a stage of

    one shard           up to 1,000 shards
    a group of shards   above 1,000 shards: 1,000 groups at most, of 20 shards at least
    a group of shards   above 16 shards of the default size that hold less than 5 minutes each
                        in the mean: 15 minutes of audio at least

A size of your own (`shard.hours`) below 5 minutes asks for small units: each is shown, up to 1,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

MOST_SHARDS = 1000  # that are shown one by one
MOST_GROUPS = 1000
LEAST_SHARDS = 20  # of a group, above MOST_SHARDS
SMALL_SECONDS = 300.0  # of audio: a shard that holds less is small
FEW_SMALL = 16  # up to this many small shards are shown one by one
GROUP_SECONDS = 900.0  # least audio of a group of small shards


def size(count: int, seconds: float, chosen: bool) -> int:
    """Shards of a group, for `count` shards that hold so much audio; 1: each is shown by itself.

    `chosen`: the size of the shards was set by the user.
    """
    wanted = 1
    if count > MOST_SHARDS:
        wanted = max(LEAST_SHARDS, ceil(count / MOST_GROUPS))
    mean = seconds / count if count else 0.0
    if not chosen and count > FEW_SMALL and mean < SMALL_SECONDS:
        wanted = max(wanted, ceil(GROUP_SECONDS / mean) if mean else count)
    return min(wanted, max(count, 1))


def groups(seconds: Mapping[str, float], each: int) -> list[list[str]]:
    """Groups of `each` shards that follow each other by name; the group with the longest shard
    comes first, and in a group the longest shard. `seconds`: audio of each shard."""
    names = sorted(seconds)
    found = [names[i : i + each] for i in range(0, len(names), each)]
    for group in found:
        group.sort(key=lambda shard: (-seconds[shard], shard))
    return sorted(found, key=lambda group: (-seconds[group[0]], min(group)))
