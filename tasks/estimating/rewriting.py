"""How many published clips a run writes again because the content of their tars changes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting import summary
from tasks.dataset import versions
from tasks.dataset.versions import Proved
from tasks.job import Job
from tasks.json_types import JsonObject, JsonValue
from tasks.packaging.layout import LAYOUT_SETTINGS
from tasks.recipe import whole_job
from tasks.schema import UTTERANCES_FILE
from tasks.storage import tables

COLUMNS = ["id", "shard", "recording", "num_samples", "sample_rate"]


class Rewriting(NamedTuple):
    """`clips`: of the newest version; `staying`: those that the next version keeps, and known new
    ones; `written`: how many of these are written to new tars, with `seconds` of audio."""

    clips: int
    staying: int
    written: int
    seconds: float


def of_version(
    job: Job, before: Job | None, stay: Mapping[str, float], scanned: Set[str], gone: Set[str]
) -> Rewriting:
    """`stay`: seconds, by id, of the utterances of the recordings `scanned` that are packaged
    unchanged. Clips of other recordings stay too, unless those are in `gone` (left or
    changed)."""
    newest = versions.newest(job.out)
    if newest is None:
        return Rewriting(0, len(stay), len(stay), sum(stay.values()))
    writes_all = before is None or _writes_all(job, before) or _all_differ(job, newest)
    others, kept = pa.array([*scanned, *gone], pa.string()), pa.array([*stay], pa.string())
    new, proved = dict(stay), Proved(newest)
    clips = staying_then = written_then = 0
    seconds = 0.0
    for part in tables.parts(newest / UTTERANCES_FILE):  # of whole tars
        table = tables.read(part, columns=COLUMNS, opened=proved)
        is_kept = pc.is_in(table["id"], kept)
        for name in table["id"].filter(is_kept).to_pylist():
            new.pop(name, None)
        stays = pc.or_(pc.invert(pc.is_in(table["recording"], others)), is_kept)
        staying = written = stays.to_numpy(zero_copy_only=False)
        if not writes_all:
            tars = table["shard"].combine_chunks().dictionary_encode().indices.to_numpy()
            written = staying & np.isin(tars, np.unique(tars[~staying]))
        clips += len(table)
        staying_then += int(staying.sum())
        written_then += int(written.sum())
        seconds += float(summary.seconds_of(table)[written].sum())
    seconds += sum(new.values())
    return Rewriting(clips, staying_then + len(new), written_then + len(new), seconds)


def _writes_all(job: Job, before: Job) -> bool:
    """Whether all tars are written again: other formats, another layout, or `rebalance: full`."""
    now, then = (whole_job.settings_of(each)["package"] for each in (job, before))
    full = job.package.rebalance == "full"
    names = ("formats", *LAYOUT_SETTINGS)
    return full or any(now[name] != then[name] for name in names)


def _all_differ(job: Job, newest: Path) -> bool:
    """Whether the version's clips sound or read otherwise, or are dealt to splits anew. Their ids
    stay, and nothing is left to compute if an earlier run had this job's settings."""
    now, then = whole_job.settings_of(job), versions.described(newest)["settings"]
    if now["resample"] != then["resample"] or _of_clips(now) != _of_clips(then):
        return True
    # What was published in a split stays there, whatever its share is later.
    return bool(now["package"]["splits"]) != bool(then["package"].get("splits"))


def _of_clips(settings: JsonObject) -> list[JsonValue]:
    """The settings that say which audio and which text of a clip are packaged."""
    names = {"transcribe": ("backend", "text"), "package": ("text_form", "audio")}
    return [settings[part].get(name) for part, parts in names.items() for name in parts]
