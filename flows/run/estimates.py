"""OUT/runs/<id>/estimate.json, and the check that a run's forecast fits the disk.

`uttermill estimate` writes it: what `estimate --json` prints, a hash of the settings, and what the
sample cost. Later plans and estimates take times from it.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ...tasks import storage
from ...tasks.base import masking
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.settings.job import Job
from ...tasks.shard_store import whole_job
from ...tasks.storage import write_atomic
from ..cluster.settings import ClusterSettings
from ..formatting import gigabytes
from . import run_folder

if TYPE_CHECKING:
    from ...tasks.insight.estimating.forecast import Costs

NAME = "estimate.json"
ROOTS = ("manifests", "audio", "datasets")


def key(job: Job) -> str:
    """Equal for settings that give the same dataset."""
    settings = json.dumps(whole_job.settings_of(job), sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()


def keep(job: Job, folder: Path, result: JsonObject, costs: Costs) -> None:
    result["fits"] = lacking(result, job.out) is None
    fields = asdict(costs)
    kept = {name: fields[name] for name in ("laps", "overhead", "load", "start", "gap")}
    whole = {"key": key(job), **result, "costs": kept}
    write_atomic(folder / NAME, json.dumps(masking.value(whole), indent=1).encode())


def newest(job: Job) -> JsonObject | None:
    for folder in run_folder.having(job.out, NAME):
        with suppress(OSError, ConfigError):
            estimate = run_folder.json_in(folder / NAME)
            if estimate.get("key") == key(job):
                return estimate
    return None


def bytes_used(out: Path) -> int:
    """Bytes that runs keep in OUT; a file with several names counts once."""
    store = storage.store_of(out)
    files = (file for root in ROOTS for file in store.files(out / root))
    return sum({file.inode: file.size for file in files}.values())


def lacking(estimate: JsonObject, out: Path) -> tuple[int, int] | None:
    """(bytes that a run still needs, bytes free) if the disk is too small; else None. By the
    forecast's upper bound, because a run that fills the disk has wasted hours, without what was
    added to OUT since, so that a run killed half-way may continue."""
    room = storage.store_of(out).free(out)
    need = round(estimate["disk_bytes"]["high"])
    if room is None or need <= room:
        return None
    need -= max(0, bytes_used(out) - estimate["used_bytes"])
    return (need, room) if need > room else None


def check_disk(job: Job, cluster: ClusterSettings) -> None:
    """Raises ConfigError if the disk is too small by the newest estimate of these settings, if no
    later run has ended well: it does not include what that run wrote."""
    if not cluster.check_disk or storage.store_of(job.out).remote:
        return
    if (estimate := newest(job)) is None:
        return
    ended = next(run_folder.having(job.out, run_folder.SUMMARY), None)
    if ended and run_folder.order(ended.name) > run_folder.order(estimate["run"]):
        return
    if short := lacking(estimate, job.out):
        need, room = short
        raise ConfigError(
            f"by the estimate of {estimate['run']} this run needs up to "
            f"{gigabytes(need)} more at {job.out}, where {gigabytes(room)} are free; free some, "
            "move OUT, estimate again if OUT was pruned since, or set cluster.check_disk: false"
        )
