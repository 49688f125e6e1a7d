"""Says of a corpus with telephone beside wideband that who is in both may get two names."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from tasks.base.counting import counted
from tasks.base.schema import LEDGER_FILE, UTTERANCES_FILE
from tasks.recording.ids import OVER_ALL
from tasks.settings.job import Job
from tasks.settings.package import keeps_speakers_apart
from tasks.shard_store import recipe
from tasks.storage import tables

WIDE = 16_000  # Hz: recordings of a lower rate lack what tells voices apart in others


def matters(job: Job) -> bool:
    """Whether speakers get their names by their voices, and splits or hours go by these."""
    package = job.package
    asked = keeps_speakers_apart(package.splits, package.disjoint)
    asked = asked or package.max_hours_per_speaker is not None
    return asked and recipe.across_recordings(job) is not None


def sentence(narrow: int, wide: int) -> str | None:
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


def of_version(version: Path) -> str | None:
    """The same for the packaged recordings of a version, of those whose speakers have names by
    their voices."""
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
    return sentence(narrow, len(rates) - narrow)
