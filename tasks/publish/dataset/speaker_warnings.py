"""Warns of speakers whom a version's splits may not keep apart: nobody knows who speaks, or who is
heard over the telephone and in wideband may get two names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from tasks.base.counting import counted
from tasks.base.json_types import DatasetJson
from tasks.base.schema import LEDGER_FILE, UTTERANCES_FILE
from tasks.recording.ids import OVER_ALL
from tasks.settings.job import Job
from tasks.settings.package import keeps_speakers_apart
from tasks.shard_store import recipe
from tasks.storage import tables

WIDE = 16_000  # Hz: recordings of a lower rate lack what tells voices apart in others


def of_unknown(facts: DatasetJson) -> str | None:
    """A warning for people, with the remedy; None if splits keep all speakers apart, or were not
    asked to. `facts`: dataset.json."""
    package = facts["settings"]["package"]
    unknown = facts["speakers"]["hours_unknown"]
    if not unknown or not keeps_speakers_apart(package["splits"], package.get("disjoint")):
        return None
    hours = facts["seconds"]["packaged"] / 3600
    return (
        f"nobody knows who speaks in {unknown:.3f} of {hours:.3f} h, so the splits keep recordings "
        "apart there, but one person may be in two of them; name speakers in the sources, or set "
        "speakers.use=segments to find them"
    )


def bands_matter(job: Job) -> bool:
    """Whether speakers get their names by their voices, and splits or hours go by these."""
    package = job.package
    asked = keeps_speakers_apart(package.splits, package.disjoint)
    asked = asked or package.max_hours_per_speaker is not None
    return asked and recipe.across_recordings(job) is not None


def of_bands(narrow: int, wide: int) -> str | None:
    """The warning, with the remedy, for recordings of less than WIDE and others."""
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
    """The same for the packaged recordings of a version, of those whose speakers have names by
    their voices; None where splits and hours do not go by these."""
    if not bands_matter(job):
        return None
    linked = pc.match_substring_regex(pc.field("speaker"), f"^{OVER_ALL.pattern}$")
    theirs = tables.read(version / UTTERANCES_FILE, columns=["recording"], filters=linked)
    names = theirs["recording"].unique()
    ledger = tables.read(
        version / LEDGER_FILE,
        columns=["recording", "sample_rate"],
        filters=pc.field("recording").isin(names) & pc.is_valid(pc.field("sample_rate")),
    )
    rates = ledger.group_by("recording").aggregate([("sample_rate", "max")])["sample_rate_max"]
    narrow = pc.sum(pc.less(rates, WIDE)).as_py() or 0
    return of_bands(narrow, len(rates) - narrow)
