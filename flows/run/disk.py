"""Estimates made for an OUT, and whether the forecast of a run fits its disk.

OUT/runs/<id>/estimate.json     what `estimate --json` prints, its key, and the costs of its sample
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from flows.cluster.settings import ClusterSettings
from flows.run import runs
from tasks import storage
from tasks.errors import ConfigError
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.recipe import whole_job

NAME = "estimate.json"
ROOTS = ("manifests", "audio", "datasets")


def key(job: Job) -> str:
    """A hash that is equal for settings that give the same dataset."""
    return hashlib.sha256(
        json.dumps(whole_job.settings_of(job), sort_keys=True).encode()
    ).hexdigest()


def newest(job: Job) -> JsonObject | None:
    """The newest estimate of these settings, if there is one."""
    wanted = key(job)
    for folder in runs.having(job.out, NAME):
        try:
            found: JsonObject = json.loads(storage.read(folder / NAME))
        except (OSError, ValueError):
            continue
        if found.get("key") == wanted:
            return found
    return None


def used(out: Path) -> int:
    """Bytes that runs keep in OUT; a file with several names counts once."""
    store = storage.of(out)
    files = (file for root in ROOTS for file in store.files(out / root))
    return sum({file.inode: file.size for file in files}.values())


def lacking(found: JsonObject, out: Path) -> tuple[int, int] | None:
    """(bytes that a run still needs, bytes free) if the disk is too small; else None.

    The forecast's upper bound counts, because a run that fills the disk has wasted hours. Bytes
    added to OUT since the estimate are subtracted, so that a run killed half-way may continue.
    """
    room = storage.of(out).free(out)
    need = round(found["disk_bytes"]["high"])
    if room is None or need <= room:
        return None
    need -= max(0, used(out) - found["used_bytes"])
    return (need, room) if need > room else None


def check(job: Job, cluster: ClusterSettings) -> None:
    """ConfigError when the disk is too small by the newest estimate of these settings.

    An estimate no longer counts once a later run has ended well: it did not include what that run
    wrote.
    """
    found = newest(job) if cluster.check_disk and not storage.of(job.out).remote else None
    short = lacking(found, job.out) if found else None
    if short and found:
        done = next(runs.having(job.out, "summary.json"), None)
        short = None if done and done.name > found["run"] else short
    if short:
        need, room = short
        raise ConfigError(
            f"by the estimate of {found['run'] if found else ''} this run needs up to "
            f"{gigabytes(need)} more at {job.out}, where {gigabytes(room)} are free; free some, "
            "move OUT, estimate again if OUT was pruned since, or set cluster.check_disk: false"
        )


def gigabytes(size: float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size / 1e6:,.2f} MB"
