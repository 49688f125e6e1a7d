"""Refuses a version that would lack too many recordings of the last one: as a rule a disk or share
is not mounted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins
from tasks.accounting import summary
from tasks.base.counting import counted
from tasks.base.errors import UNREACHABLE
from tasks.recording.names import REST
from tasks.settings.job import Job
from tasks.storage import versions

#: Codes of folders that cannot be listed, and of files of which the rest cannot.
UNLISTED = ("unreadable", UNREACHABLE)
#: What `recording_name` adds to a name that is not UTF-8.
_HASH = re.compile(r"~[0-9a-f]{12}$")
ADVICE = "if they were removed on purpose, {}set package.removed_ok: [{}]"


def refusal(
    job: Job, gone: Collection[str], unreadable: Collection[str], newest: Path
) -> str | None:
    """Why a version without the recordings `gone` is refused, with the remedy; None if it is not.

    `gone`: names (`<dataset>/<path>`) that the version `newest` has and no source lists any more,
    under any name. `unreadable`: names of recordings and folders that a source cannot read. The
    limit holds for all recordings, for those of each source, and for those below a folder that
    cannot be listed. Sources in `package.removed_ok` are left out.
    """
    limit = job.package.max_removed_fraction
    allowed = job.package.removed_ok
    # The rest of a container that can be listed again is gone in name only.
    counted = {
        recording
        for recording in gone
        if _dataset(recording) not in allowed and not recording.endswith(REST)
    }
    if not counted or limit >= 1:
        return None
    for folder in sorted(unreadable):
        container = folder.removesuffix(REST)
        below = _HASH.sub("", container) + "/"
        if lost := [name for name in counted if name.startswith(below)]:
            what = "folder" if container == folder else "file"
            return (
                f"the {what} {container} cannot be listed, and {newest.name} has {_count(lost)} "
                f"from it; make it readable, or {ADVICE.format('', _dataset(folder))}"
            )
    named = [dataset.name for dataset in plugins.datasets(job.sources)]
    if len(named) > 1:
        lost_of, before_of = Counter(map(_dataset, counted)), _recordings_by_dataset(newest)
        for name in named:
            if too_many(job, lost_of[name], before_of[name]):
                lost = [recording for recording in counted if _dataset(recording) == name]
                return _sentence(job, lost, before_of[name], newest, f"the source {name}", name)
    before: int = versions.described(newest)["recordings"]["in"]
    if too_many(job, len(counted), before):
        return _sentence(job, counted, before, newest, "the sources", "NAME")
    return None


def too_many(job: Job, gone: int, before: int) -> bool:
    """Whether so many of a version's recordings may not be gone."""
    return bool(before) and gone / before > job.package.max_removed_fraction


def _sentence(
    job: Job, gone: Collection[str], before: int, newest: Path, place: str, allowed: str
) -> str:
    limit, verb = job.package.max_removed_fraction, "is" if len(gone) == 1 else "are"
    advice = ADVICE.format("raise the setting or ", allowed)
    return (
        f"{len(gone)} of the {counted(before, 'recording')} of {newest.name} {verb} gone "
        f"from {place}, such as {min(gone)}: more than package.max_removed_fraction "
        f"({limit:g}) allows; is a source not mounted? {advice}"
    )


def unreadable(listings: Iterable[pa.Table]) -> set[str]:
    """Names of the recordings and folders that a source lists and cannot read, of RECORDINGS."""
    names = set[str]()
    for table in listings:
        fault = pc.is_in(table["error_code"], pa.array(UNLISTED))
        faulty = pc.and_(table["present"], pc.fill_null(fault, False))
        names.update(table["recording"].filter(faulty).to_pylist())
    return names


def _recordings_by_dataset(version: Path) -> Counter[str]:
    """How many recordings of each dataset a version has."""
    count, last = Counter[str](), ""
    for names in summary.live_recordings(version):
        recordings = names.to_pylist()
        # A part of the ledger is in the order of recordings: one may go on in the next row group.
        count.update(_dataset(name) for name in recordings if name != last)
        last = recordings[-1] if recordings else last
    return count


def _dataset(recording: str) -> str:
    return recording.partition("/")[0]


def _count(names: Collection[str]) -> str:
    return counted(len(names), "recording")
