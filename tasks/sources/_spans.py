"""Lines that name spans of files: one recording a file, with its spans as segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tasks.errors import ItemError
from tasks.recording import Ignored, Locator, Recording, Segment
from tasks.recording.guard import file_state
from tasks.sources._lists import bad_line, line_name
from tasks.sources._paths import display_path, listed_name


@dataclass(frozen=True, slots=True)
class Line:
    """One parsed line. `written`: the path as in the line; `whole`: it names no span."""

    path: str
    written: str
    whole: bool
    segment: Segment


#: A line, or why there is none.
ParsedLine = Line | ItemError | ValueError


@dataclass(frozen=True, slots=True)
class _Group:
    """The lines of one file; `segments` is an ordered set."""

    first: Line
    segments: dict[Segment, None]


def grouped(
    path: str, root: str, lines: Iterable[tuple[int, ParsedLine]]
) -> Iterator[Recording | Ignored]:
    """Recordings of the numbered lines of the list `path`, whose relative paths start at `root`.

    Bad lines come first, then the recordings: a file's lines may be anywhere in the list.
    """
    groups: dict[str, _Group] = {}
    for number, parsed in lines:
        if isinstance(parsed, ItemError | ValueError):
            yield bad_line(path, number, parsed)
        else:
            group = groups.get(parsed.path)
            if group is None:
                groups[parsed.path] = _Group(parsed, {parsed.segment: None})
            elif group.first.whole or parsed.whole or parsed.segment in group.segments:
                yield Ignored(line_name(path, number), "duplicate_line")
            else:
                group.segments[parsed.segment] = None
    names: set[str] = set()
    for group in groups.values():
        recording = _recording(group, root)
        if recording.path in names:
            # Two spellings of one path, one through `..`: perhaps the same file.
            yield Ignored(recording.path, "duplicate_path")
            continue
        names.add(recording.path)
        yield recording


def _recording(group: _Group, root: str) -> Recording:
    line = group.first
    found = file_state(line.path)
    first = line.segment
    # Word times need a segment to be cut from, even where it is the whole file.
    whole = line.whole and not first.words
    return Recording(
        path=listed_name(line.path, line.written, root),
        source_path=display_path(line.path),
        locator=Locator(line.path),
        size=found.size,
        guard=found.guard,
        source_id=first.source_id if whole else None,
        text=first.text if whole else None,
        speaker=first.speaker if whole else None,
        language=first.language if whole else None,
        segments=None if whole else tuple(group.segments),
        error=found.error,
    )
