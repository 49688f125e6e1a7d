"""Deadlines of calls, in wall seconds; the worker of a call that misses its own is restarted.

    a stage of a shard     item_timeout + timeout_factor x its audio
    write, check           item_timeout + timeout_factor x the audio of a tar
    probe                  20 s, and 2 s a recording, but half of item_timeout at most (all of it,
                           up to 20 s: a worker's first call loads libraries)
    decide, plan           item_timeout, and 30 s a shard
    link                   item_timeout + timeout_factor x the audio of the tars of a part

A probe reads headers and hashes bytes. When a batch misses its deadline, its recordings are probed
one by one, each with `item_timeout`: a recording that hangs costs little more than that (1.2 times,
by the defaults), and a batch that was only slow still succeeds. Judging the utterances of a
shard takes seconds, even for a shard of 24 h; planning a million clips takes 12 s
(`tests.bench.plan_million`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.cluster.settings import ClusterSettings
from tasks.publish.outcomes.shard_groups import ShardGroup
from tasks.publish.writing import table_parts
from tasks.settings.job import Job
from tasks.stages import isolate

HOUR = 3600.0
PROBE, PROBE_EACH = 20.0, 2.0  # s of a batch, and of each recording in it
SHARD_EACH = 30.0  # s of a shard
#: Steps whose second argument names work shards, and those that read or write a tar.
OF_SHARDS = ("decide", "plan")
TARS = ("write", "check", "link")
ONE_BY_ONE = 100  # factor for a shard whose items may each use up a time-out of their own


def _shards(given: Any) -> int:
    """Work shards among the argument of a call: their names, or groups of them."""
    if isinstance(given, ShardGroup):
        return len(given.shards)
    return sum(len(each.shards) if isinstance(each, ShardGroup) else 1 for each in given)


def of_audio(settings: ClusterSettings, seconds: float, isolated: bool) -> float:
    """Deadline of a call that handles so many seconds of audio. `isolated`: its items run one by
    one, and the isolation itself ends those that hang."""
    shared = settings.item_timeout + settings.timeout_factor * seconds
    return shared * ONE_BY_ONE if isolated else shared


def of_call(
    settings: ClusterSettings, step: str, args: Sequence[Any], isolated: bool = False
) -> float:
    """Deadline of a call that is not a stage, by its step and arguments."""
    item = settings.item_timeout
    if step == "probe":
        recordings = int(args[3]) - int(args[2])
        if isolated:
            return (isolate.START + item) * recordings
        return min(PROBE + PROBE_EACH * recordings, max(item / 2, PROBE), item)
    if step in OF_SHARDS:
        return item + SHARD_EACH * _shards(args[1])
    job = next((arg for arg in args if isinstance(arg, Job)), None)
    hours = job.package.tar_hours if job is not None and step in TARS else 0.0
    if step == "link" and job is not None:
        hours *= table_parts.groups_of_part(job.package)
    return of_audio(settings, hours * HOUR, isolated)
