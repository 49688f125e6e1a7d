"""Refuses a version that would hide a fault: missing recordings, many failures, no clips."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from .. import plugins
from ..accounting import broken, summary
from ..accounting.broken import Broken, BrokenCount, Unreachable
from ..base.counting import counted
from ..base.errors import UNREACHABLE, NothingLeft, RunError, TooManyFailed
from ..base.json_types import Arrived
from ..recording import unreachable
from ..recording.names import REST
from ..settings.job import Job
from ..settings.package import REST as REST_SPLIT
from ..shard_store import clip_choice, manifest
from ..storage import versions
from .choosing.next_version import Parted
from .output_shards.version_tables import Counted, LedgerFacts

FEW = 2  # fewer failed new recordings never refuse a version
MANY = 5  # unreadable recordings from which the source itself counts as unreadable


def check(
    job: Job, ledger: LedgerFacts, packaged: int, newest: Path | None, parted: Parted | None = None
) -> None:
    """Raises RunError if more recordings were removed or failed than the settings allow, or if
    splits take too much away, and NothingLeft if no clip is packaged. `ledger`: of the next
    version; `packaged`: number of clips; `newest`: the newest version, if there is one."""
    if newest is not None and (gone := {*ledger.gone}):
        reasons = ledger.every.totals.sums["reason"].to_pylist()
        unlisted = any(code in reasons for code in UNLISTED)
        unreadable = unreadable_in(manifest.listings(job.out)) if unlisted else set[str]()
        if refusal_of_removals(job, gone, unreadable, newest):
            gone -= _moved(manifest.listings(job.out), gone)
            if sentence := refusal_of_removals(job, gone, unreadable, newest):
                raise RunError(sentence)
    check_readable(job, _unreachable(ledger.every))
    exempted = exempt(job)
    strict = [d.name for d in plugins.datasets(job.sources) if d.name not in exempted]
    counts, lost = _failed(ledger.every, strict)
    check_failed(job, BrokenCount(counts["recordings"], counts["failed"], lost))
    if newest is not None:  # in a large corpus, they would go unnoticed among the others
        counts, lost = _failed(ledger.new, strict)
        check_new(job, counts["recordings"], counts["failed"], lost)
    if sentence := refusal_of_splits(job, parted, newest):
        raise RunError(sentence)
    if not packaged:
        totals = ledger.every.totals
        reasons = summary.reasons(totals.sums)
        failed = sum(counts[1] for counts in totals.recordings.values())
        files = (file for some in ledger.every.broken.values() for file in some)
        raise NothingLeft(nothing_left_in_words(job, reasons), reasons, notes=_named(failed, files))


def nothing_left_in_words(job: Job, reasons: Collection[str] = ()) -> str:
    """Why a version without clips is refused, and the remedy. `reasons`: of its outcomes."""
    if clip_choice.restricts(job.package) and (
        not reasons or f"package.{clip_choice.REASON}" in reasons
    ):
        return (
            "nothing is left to package: package.only and package.without choose none of the clips "
            "that the rules keep; give speakers, datasets, languages and labels as the sources "
            "name them"
        )
    sentence = "nothing is left to package: every recording was dropped or failed"
    if reasons and all(name.startswith("shard.") for name in reasons):
        return (
            f"{sentence}; repair the recordings or their lists, or change the settings of their "
            "sources (`uttermill ledger OUT --items` says what is wrong with each)"
        )
    needs_text = any(verdict.use == "empty_text" for verdict in job.transcribe.verdicts)
    textless = needs_text and job.transcribe.backend.use == "none"
    if textless and (not reasons or "transcribe.empty_text" in reasons):
        return (
            f"{sentence}; "
            "without a recogniser (transcribe.backend) only a source's own texts pass empty_text: "
            "name these (`uttermill plan` says what each source was taken for), choose a "
            "recogniser, or set transcribe.verdicts: [] to package clips without text"
        )
    return (
        f"{sentence}; "
        "loosen what dropped them: filter.filters, transcribe.verdicts, package.only or "
        "package.without (`uttermill ledger OUT --items` says which, clip by clip)"
    )


def _moved(listings: Iterable[pa.Table], gone: set[str]) -> set[str]:
    """Those of `gone` whose content is listed (RECORDINGS) under another name."""
    present: set[str] = set()
    content_of: dict[str, str] = {}
    for table in listings:
        for row in table.select(["recording", "content", "present"]).to_pylist():
            if row["present"] and row["content"]:
                present.add(row["content"])
            elif row["recording"] in gone:
                content_of[row["recording"]] = row["content"]
    return {name for name, content in content_of.items() if content in present}


def exempt(job: Job) -> list[str]:
    return [d.name for d in plugins.datasets(job.sources) if d.settings.expect_broken]


def _failed(some: Counted, datasets: Sequence[str]) -> tuple[Arrived, list[Broken]]:
    """The counts of some recordings of these datasets, and the first ones that failed."""
    first = (file for name in datasets for file in some.broken.get(name, ()))
    counts = summary.arrived(summary.of_totals(some.totals.of_datasets(datasets)))
    return counts, nsmallest(broken.FIRST, first)


def _unreachable(every: Counted) -> dict[str, Unreachable]:
    """By dataset, the recordings that could not be read. One that failed in the stage resample has
    a row for each of its clips, so rows are an upper bound."""
    totals = every.totals
    sums = totals.sums.filter(pc.equal(totals.sums["reason"], UNREACHABLE))
    items = summary.sums_by(sums, ["dataset"], ["items"])
    by_dataset = {}
    for name, rows in zip(items["dataset"].to_pylist(), items["items"].to_pylist(), strict=True):
        recordings, failed = totals.recordings[name]
        failures = every.broken.get(name, ())
        why = (unreachable.why(e.detail) for e in failures if e.reason.endswith(f".{UNREACHABLE}"))
        by_dataset[name] = Unreachable(min(rows, failed), recordings, next(why, "an error"))
    return by_dataset


def check_readable(job: Job, sources: Mapping[str, Unreachable]) -> None:
    """Raises RunError if so many recordings of a source cannot be read that the source itself
    counts as unreadable; then the limit on removed recordings holds for them."""
    for name, (failed, recordings, why) in sources.items():
        many = failed >= MANY or 2 * failed > recordings
        if (
            many
            and name not in job.package.removed_ok
            and too_many_removed(job, failed, recordings)
        ):
            limit = job.package.max_removed_fraction
            raise RunError(
                f"the source {name} is not readable: {failed} of its "
                f"{counted(recordings, 'recording')} failed with {why}, more than "
                f"package.max_removed_fraction ({limit:g}) allows; "
                "nothing is published, and the next run tries them again; to publish without them, "
                f"raise the setting or set package.removed_ok: [{name}]"
            )


def check_new(job: Job, count: int, failed: int, lost: Iterable[Broken]) -> None:
    """Raises TooManyFailed if too many of `count` new recordings failed; `lost`: some that did."""
    if failed >= FEW:
        _check_share(job, "max_new_failed_fraction", failed, count, "new recording", lost)


def check_failed(job: Job, counts: BrokenCount) -> None:
    """Raises TooManyFailed if more recordings failed than `package.max_failed_fraction` allows.
    Also called after listing, before any audio is processed."""
    count, failed = counts.recordings, counts.failed
    _check_share(job, "max_failed_fraction", failed, count, "recording", counts.first)


def _check_share(
    job: Job, setting: str, failed: int, count: int, what: str, lost: Iterable[Broken]
) -> None:
    """Raises TooManyFailed if `failed` of `count` exceeds the fraction in a setting of `package`.
    `what`: a word for one of them; `lost`: some that failed."""
    limit: float = getattr(job.package, setting)
    if count and failed / count > limit:
        raise TooManyFailed(
            f"{failed} of {counted(count, what)} failed, more than package.{setting} ({limit:g}) "
            "allows; repair or remove them, raise the setting, or mark the source "
            "expect_broken: true",
            _named(failed, lost),
        )


def _named(failed: int, broken_files: Iterable[Broken]) -> list[str]:
    """Lines that name the first recordings that failed, and the number of others."""
    first = nsmallest(broken.FIRST, broken_files)
    more = failed - len(first)
    return [*map(str, first), *([f"and {more} more"] if more > 0 else [])]


def refusal_of_splits(
    job: Job, parted: Parted | None, newest: Path | None, coming: bool = False
) -> str | None:
    """Why a version is refused that would empty a split of the newest one, or of whose clips splits
    would drop too much, with the choice; None if it is not. `coming`: a run will compute further
    clips, so that nobody knows yet which splits are empty."""
    limit = job.package.max_removed_fraction
    if parted is None or newest is None or limit >= 1:
        return None
    described = versions.described(newest)
    before = {name: facts["utterances"] for name, facts in described["splits"].items()}
    emptied = [
        f"{name} ({counted(count, 'clip')} in {newest.name})"
        for name, count in before.items()
        if name in {REST_SPLIT, *job.package.splits} and count and not parted.clips.get(name)
        if not coming
    ]
    total = described["seconds"]["packaged"]
    share = parted.lost_seconds / total if total else 0.0
    if not emptied and (share <= limit or job.package.resplit):
        return None
    what = f"{' and '.join(emptied)} would be empty" if emptied else ""
    if parted.lost:
        clips = f"{counted(parted.lost, 'clip')} of {newest.name} ({share:.1%} of its audio)"
        what += f"{', and ' if what else ''}{clips} would be dropped"
        what += ", because clips that have to stay together are in two splits"
    ways = []
    if parted.joining and job.package.split_conflicts == "drop":
        ways.append("keep the split with more of their audio (package.split_conflicts=keep_larger)")
    if not job.package.resplit:
        ways.append("draw all splits again (package.resplit=true)")
    if emptied:
        ways.append("leave an empty split out of package.splits")
    choice = f"{', '.join(ways)}, or allow it (package.max_removed_fraction=1)"
    return f"package.splits: {what}; {choice}"


# Refuses a version that lacks too many recordings of the newest one: usually, a disk or share is
# not mounted.

#: Codes of folders that cannot be listed, and of containers whose rest cannot be.
UNLISTED = ("unreadable", UNREACHABLE)
#: The suffix that `recording_name` adds to a name that is not UTF-8.
_HASH = re.compile(r"~[0-9a-f]{12}$")
ADVICE = "if they were removed on purpose, {}set package.removed_ok: [{}]"


def refusal_of_removals(
    job: Job, gone: Collection[str], unreadable: Collection[str], newest: Path
) -> str | None:
    """Why a version without the recordings `gone` is refused, with the remedy; None if it is not.

    `gone`: names (`<dataset>/<path>`) of recordings in the version `newest` that no source lists
    any more, under any name. `unreadable`: names of recordings and folders that a source cannot
    read. The limit holds for all recordings together and for each source; below a folder that
    cannot be listed, no recording may be missing. Sources in `package.removed_ok` are exempt.
    """
    limit = job.package.max_removed_fraction
    allowed = job.package.removed_ok
    # The entry for a container's unlisted rest disappears once the container is readable again.
    missing = {
        recording
        for recording in gone
        if _dataset(recording) not in allowed and not recording.endswith(REST)
    }
    if not missing or limit >= 1:
        return None
    for folder in sorted(unreadable):
        container = folder.removesuffix(REST)
        below = _HASH.sub("", container) + "/"
        if lost := [name for name in missing if name.startswith(below)]:
            what = "folder" if container == folder else "file"
            return (
                f"the {what} {container} cannot be listed, and {newest.name} has "
                f"{counted(len(lost), 'recording')} from it; make it readable, or "
                f"{ADVICE.format('', _dataset(folder))}"
            )
    named = [dataset.name for dataset in plugins.datasets(job.sources)]
    if len(named) > 1:
        lost_of, before_of = Counter(map(_dataset, missing)), Counter[str]()
        for names in summary.live_recordings(newest):  # each row group has whole recordings
            before_of.update(map(_dataset, names.to_pylist()))
        for name in named:
            if too_many_removed(job, lost_of[name], before_of[name]):
                lost = [recording for recording in missing if _dataset(recording) == name]
                return _sentence(job, lost, before_of[name], newest, f"the source {name}", name)
    before: int = versions.described(newest)["recordings"]["in"]
    if too_many_removed(job, len(missing), before):
        return _sentence(job, missing, before, newest, "the sources", "NAME")
    return None


def too_many_removed(job: Job, gone: int, before: int) -> bool:
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


def unreadable_in(listings: Iterable[pa.Table]) -> set[str]:
    """Names of recordings and folders that are listed (RECORDINGS) but cannot be read."""
    names = set[str]()
    for table in listings:
        fault = pc.is_in(table["error_code"], pa.array(UNLISTED))
        faulty = pc.and_(table["present"], pc.fill_null(fault, False))
        names.update(table["recording"].filter(faulty).to_pylist())
    return names


def _dataset(recording: str) -> str:
    return recording.partition("/")[0]
