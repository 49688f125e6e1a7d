"""Finds copies among a shard's recordings: files of the same bytes, of which one is processed.

A copy is in the shard of its original, so the shard accounts for its seconds by what was decoded of
the original. A copy states no more than its original: the same spans, and the same text, speaker,
language, turns and labels, or none. A recording that states anything else is processed itself.

Only new recordings are marked, so that clips stay; and marked ones once their original is gone: the
first copy then becomes the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...base.counting import counted
from ...base.schema import RecordingRow
from ...shard_store.stored_shard import part_of

#: Columns that a copy may leave empty.
STATED = ("text", "speaker", "language", "rttm", "rttm_error", "labels")
SPANS = ("segments", "length", "film_time", "captions")  # columns that a copy shares


class Former(NamedTuple):
    content: str | None
    present: bool
    copy_of: str | None


def former(rows: Iterable[RecordingRow]) -> dict[str, Former]:
    return {
        row["recording"]: Former(row.get("content"), row["present"], row.get("copy_of"))
        for row in rows
    }


class NewCopy(NamedTuple):
    path: str  # for people, as that of its original
    original: str
    recording: str


def new(rows: Sequence[RecordingRow], before: Mapping[str, Former]) -> Iterator[NewCopy]:
    """The marked rows that were not copies before."""
    paths = {row["recording"]: row["source_path"] for row in rows}
    for row in rows:
        then = before.get(row["recording"])
        if (of := row.get("copy_of")) and not (then and then.copy_of):
            yield NewCopy(row["source_path"], paths[of], row["recording"])


def in_words(new_copies: Sequence[NewCopy]) -> Iterator[str]:
    if new_copies:
        first = min(new_copies)
        one = len(new_copies) == 1
        have, are = ("has", "is") if one else ("have", "are")
        yield (
            f"{counted(len(new_copies), 'new recording')} {have} the bytes of "
            f"{'another' if one else 'others'} and {are} not processed again "
            f"(filter.duplicate), such as {first.path}, which equals {first.original}; "
            "filter.duplicate_files: keep does"
        )


def mark(rows: Iterable[RecordingRow], before: Mapping[str, Former]) -> None:
    """Set `copy_of` in the rows of one shard. `before`: the shard's previous rows."""
    groups: dict[str, list[RecordingRow]] = {}
    for row in rows:
        marked, row["copy_of"] = row.get("copy_of"), None
        if row["present"] and not row["error_code"] and row.get("content"):
            row["copy_of"] = marked
            groups.setdefault(part_of(row), []).append(row)
    for group in groups.values():
        if len(group) > 1:
            _mark_group(group, before)
        else:
            group[0]["copy_of"] = None


def _mark_group(group: list[RecordingRow], before: Mapping[str, Former]) -> None:
    stays: list[RecordingRow] = []
    back: list[RecordingRow] = []
    fresh: list[RecordingRow] = []
    for row in group:
        then = before.get(row["recording"])
        if then is None or then.content != row["content"] or then.copy_of:
            fresh.append(row)
        else:
            (stays if then.present else back).append(row)
        row["copy_of"] = None
    # A recording that has come back is a copy only of one that replaced it meanwhile.
    originals = [*stays]
    for row in back:
        row["copy_of"] = _original(row, stays)
        if row["copy_of"] is None:
            originals.append(row)

    def order(row: RecordingRow) -> tuple[bool, int, str]:
        """Known ones first, then those that state more."""
        unsaid = sum(row.get(name) is None for name in STATED)
        return row["recording"] not in before, unsaid, row["recording"]

    for row in sorted(fresh, key=order):
        row["copy_of"] = _original(row, originals)
        if row["copy_of"] is None:
            originals.append(row)


def _original(row: RecordingRow, originals: Iterable[RecordingRow]) -> str | None:
    """The first of `originals` that states everything that `row` states."""
    for other in originals:
        same = all(other.get(name) == row.get(name) for name in SPANS)
        if same and all(row.get(name) in (None, other.get(name)) for name in STATED):
            return other["recording"]
    return None
