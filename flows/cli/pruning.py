"""`uttermill prune`: which runs and settings are kept, and the removal of the rest under OUT's
lock. What only lists needs no lock of its own, and writes nothing."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from flows.run import run_folder
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject
from tasks.publish.upkeep import prune as pruning
from tasks.publish.upkeep.needed import KeptSettings
from tasks.shard_store import recipe
from tasks.storage import lock


def prune(
    out: Path, keep: int, keep_runs: int | None = None, recipes: bool = False, yes: bool = False
) -> JsonObject:
    """List what no kept version and no current settings need, by kind; with `yes`, remove it.

    `recipes`: also keep what the settings of the kept versions use. OutLocked when a run holds OUT.
    """
    if not yes:
        lock.refuse_held(out)
    with lock.hold(out) if yes else nullcontext():
        last, good = (
            run_folder.settings_of(out).job(),
            run_folder.settings_of(out, ended_well=True).job(),
        )
        jobs = [last] if last == good else [last, good]
        asked = [KeptSettings(job, recipe.weights(job.transcribe.recognisers)) for job in jobs]
        kept = pruning.kept(out, keep)
        if recipes:
            asked += pruning.settings_of(out, kept)
        plan = pruning.plan(out, kept, asked, _old_runs(out, keep_runs))
        told = plan.as_dict()
        if yes:
            pruning.carry_out(plan, good)
    return {**told, "removed": yes}


def _old_runs(out: Path, keep: int | None) -> list[Path]:
    """Folders of runs older than the newest `keep`, except the newest run that ended well."""
    if keep is None:
        return []
    if keep < 1:
        raise ConfigError("--runs must be at least 1, because the newest run's settings are needed")
    every = [folder for folder in run_folder.folders(out) if folder.name[:1] != "."]
    stay = {*every[:keep], run_folder.newest(out), run_folder.newest(out, ended_well=True)}
    return [folder for folder in reversed(every) if folder not in stay]
