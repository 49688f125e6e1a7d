"""Hashes known recordings again, although nothing shows that their files changed.

A guard is only as reliable as the file system: a damaged disk, a tool that writes below the file
system, or a server that sets times itself leaves it unchanged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.compute as pc

from ... import audio
from ...base.counting import counted
from ...base.errors import ItemError
from ...base.logs import log
from ...base.schema import LEDGER_FILE, RecordingRow
from ...recording import Locator
from ...recording.guard import identity
from ...settings.job import Job
from ...shard_store import manifest
from ...shard_store.index import Index
from ...storage import is_url, tables, urls, versions
from .known_recordings import ROOT

SHARE, MOST_SECONDS = 0.03, 5.0  # defaults: a run with nothing to do takes seconds
THREADS = 4


def doubted(job: Job, index: Index) -> set[str]:
    """Names of recordings whose bytes differ from their digest: among a share of all, another one
    in each run, and those that changed while the last run read them. `index`: a listing of OUT."""
    share, deadline = job.shard.rehash, math.inf
    if share is None:  # without a run number there is no turn
        share, deadline = SHARE if job.number else 0.0, time.monotonic() + MOST_SECONDS
    listed = {name.split("/")[2] for name in index.files if name.startswith(f"{ROOT}/")}
    shards = due(sorted(listed), share, job.number)
    changed = set(differing(job.out, shards, deadline, index.repair))
    if changed:
        log.warning(
            "%s changed under the same size and times, such as %s; what changed is computed again",
            counted(len(changed), "recording has", "recordings have"),
            min(changed),
        )
    return changed | _changed_meanwhile(job)


def due(shards: Sequence[str], share: float, number: int) -> list[str]:
    """The shards that the run with this number hashes again: all in turn. Each round starts at
    another place of a run's portion, in case time runs out."""
    count = math.ceil(len(shards) * share)
    if not count:
        return []
    begin = number * count
    portion = [shards[index % len(shards)] for index in range(begin, begin + count)]
    turn = begin // len(shards) % count
    return portion[turn:] + portion[:turn]


def differing(
    out: Path,
    shards: Iterable[str],
    deadline: float = math.inf,
    damaged: manifest.OnDamage = manifest.leave,
) -> Iterator[str]:
    """Names of the shards' local recordings whose bytes differ from their digest; `damaged` is
    called for each damaged listing."""
    with ThreadPoolExecutor(THREADS) as threads:
        for shard in shards:
            if time.monotonic() > deadline:
                return
            rows = manifest.listed(out, shard, damaged).to_pylist()
            differs = threads.map(_differs, rows)
            yield from (row["recording"] for row, wrong in zip(rows, differs, strict=True) if wrong)


def _differs(row: RecordingRow) -> bool:
    locator = Locator.loads(row["locator"])
    sound = row["present"] and row["content"] and not row["error_code"]
    if not sound or is_url(locator.path):
        return False
    try:
        if identity(urls.guard(locator.path)) != identity(row["guard"]):
            return False  # the listing detects that
        return bool(audio.digest(locator)[0] != row["content"])
    except (ItemError, OSError):  # the run will report it
        return False


def _changed_meanwhile(job: Job) -> set[str]:
    newest = versions.newest(job.out)
    reasons = versions.described(newest)["reasons"] if newest else ()
    if newest is None or not any(name.endswith(".changed") for name in reasons):
        return set()
    rows = tables.read(
        newest / LEDGER_FILE, columns=["recording"], filters=pc.field("reason") == "changed"
    )
    return {*rows["recording"].to_pylist()}
