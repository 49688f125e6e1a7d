"""Members of an archive that are no recordings, many of them for one reason: told in one line.

Hundreds of thousands of empty members fit into 4 MB of a compressed tar. With an entry each they
would be as many lines in the ledger, and take minutes to probe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ..recording import Ignored, Recording
from ..recording.names import REST
from ..recording.whole_file import display_path
from ._lists import Entries, failed

#: Members of one archive with the same fault, or skipped for the same reason, that have an entry
#: each. Of more, one entry tells how many they are.
MOST_ALIKE = 1_000
#: Bytes: a shorter file holds less than 0.1 s in any codec, so that it cannot be a clip.
LEAST_BYTES = 64
_TOO_SHORT = (
    "empty",
    f"they have fewer than {LEAST_BYTES} bytes, too few for any sound, and are not read; make the "
    "archive again from complete files",
)


def in_one(name: str, path: str, entries: Iterable[Recording | Ignored]) -> Entries:
    """The entries of an archive called `name`, those of many members alike as one, at the end."""
    alike: dict[str, list[Recording | Ignored]] = {}
    counts = Counter[str]()
    for entry in entries:
        if isinstance(entry, Ignored):
            reason = entry.reason
        elif entry.size < LEAST_BYTES and not entry.path.endswith(REST):
            reason, _ = entry.error or _TOO_SHORT
        else:
            yield entry
            continue
        counts[reason] += 1
        if counts[reason] <= MOST_ALIKE:
            alike.setdefault(reason, []).append(entry)
    for reason, first in alike.items():
        if counts[reason] <= MOST_ALIKE:
            yield from first
        else:
            yield _summary(name, path, first[0], counts[reason])


def _summary(name: str, path: str, first: Recording | Ignored, count: int) -> Recording | Ignored:
    if isinstance(first, Ignored):
        return replace(first, members=count)
    code, why = first.error or _TOO_SHORT
    member = first.path.removeprefix(f"{name}/")
    what = f"{count:,} of its members, such as {member}: {why}"
    return failed(f"{name}!{code}", f"{display_path(path)}!{code}", path, code, what)
