"""Warns of speakers whom a version's splits may not keep apart: unknown ones, and people recorded
both over the telephone and in wideband, who may get two names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from ...base.counting import counted
from ...base.json_types import DatasetJson
from ...base.schema import LEDGER_FILE, UTTERANCES_FILE
from ...recording import ids
from ...settings.job import Job
from ...settings.package import keeps_speakers_apart
from ...shard_store import recipe
from ...storage import tables

WIDE = 16_000  # Hz; voices in recordings of a lower rate do not match those in wider ones well


def of_unknown(facts: DatasetJson) -> str | None:
    """A warning with the remedy; None if the splits keep all speakers apart, or need not."""
    package = facts["settings"]["package"]
    unknown = facts["speakers"]["hours_unknown"]
    if not unknown or not keeps_speakers_apart(package["splits"], package.get("disjoint")):
        return None
    hours = facts["seconds"]["packaged"] / 3600
    count = "" if package["leaks_by_voice"] else "; package.leaks_by_voice=true counts such clips"
    return (
        f"speakers of {unknown:.3f} of {hours:.3f} h are unknown, so the same person may be in two "
        "splits; name speakers in the sources, or set speakers.use=segments to find them, and "
        f"package.resplit=true, which draws the splits again{count}"
    )


def bands_matter(job: Job) -> bool:
    """Whether splits or hours per speaker depend on speakers that are named by their voices."""
    package = job.package
    by_speaker = keeps_speakers_apart(package.splits, package.disjoint)
    by_speaker = by_speaker or package.max_hours_per_speaker is not None
    return by_speaker and recipe.across_recordings(job) is not None


def of_bands(narrow: int, wide: int) -> str | None:
    """A warning, by the numbers of recordings below WIDE and of others; None if one is 0."""
    if not narrow or not wide:
        return None
    have = "has" if narrow == 1 else "have"
    return (
        f"{counted(narrow, 'recording')} {have} the band of a telephone (below {WIDE // 1000} kHz)"
        f" and {wide:,} a wider one: speakers.use=segments may give a person heard in both two "
        "names, and package.splits may put one on each side; name the speakers in the sources, or "
        "run each band into an OUT of its own"
    )


def of_bands_in(job: Job, version: Path) -> str | None:
    """`of_bands` for the packaged recordings of a version whose speakers are named by their voices;
    None if `bands_matter` is false."""
    if not bands_matter(job):
        return None
    linked = ids.are_over_all(pc.field("speaker"))
    clips = tables.read(version / UTTERANCES_FILE, columns=["recording"], filters=linked)
    names = clips["recording"].unique()
    ledger = tables.read(
        version / LEDGER_FILE,
        columns=["recording", "sample_rate"],
        filters=pc.field("recording").isin(names) & pc.is_valid(pc.field("sample_rate")),
    )
    rates = ledger.group_by("recording").aggregate([("sample_rate", "max")])["sample_rate_max"]
    narrow = pc.sum(pc.less(rates, WIDE)).as_py() or 0
    return of_bands(narrow, len(rates) - narrow)
