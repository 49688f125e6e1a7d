"""Lines that name spans of files: one recording a file, with its spans as segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from ..base.errors import ItemError
from ..recording import Ignored, Recording, Segment, by_channel
from ..recording.locator import Channels
from ..recording.whole_file import of_file
from ..storage import bounds
from ._lists import Entries, again, bad_line, line_name
from ._paths import listed_name


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Line:
    """One parsed line. `written`: the path as in the line; `whole`: it names no span; `channels`:
    the span's channels of the file, if the list states them; `length`: it states only the span's
    length."""

    path: str
    written: str
    whole: bool
    segment: Segment
    channels: Channels | None = None
    length: bool = False

    def again(self, former: Line) -> bool:
        """Whether both lines state the same span by its length alone."""
        same = self.segment.end == former.segment.end
        return self.length and former.length and same


@dataclass(slots=True)
class _Part:
    """The lines about the same channels of a file; `segments` is an ordered set."""

    first: Line
    segments: dict[Segment, None] = field(default_factory=dict)

    def add(self, line: Line) -> str | None:
        if self.segments and (
            self.first.whole
            or line.whole
            or line.again(self.first)
            or line.segment in self.segments
        ):
            both = (self.first.whole and line.whole) or line.again(self.first)
            first = self.first if both else line
            return again("duplicate_line", first.segment.text, line.segment.text)
        self.segments[line.segment] = None
        return None


def _recording(line: Line, segments: Collection[Segment], root: str) -> Recording:
    """The recording of a file, or of some of its channels, from its first line."""
    name, one = listed_name(line.path, line.written, root), line.segment
    # Word times need a segment to be cut from, even where it is the whole file.
    if not (line.whole or line.length) or len(segments) > 1 or one.words:
        return replace(of_file(name, line.path), segments=tuple(segments))
    return of_file(name, line.path, one)


@dataclass(slots=True)
class Group:
    """The lines of one file, by channels."""

    parts: dict[Channels | None, _Part] = field(default_factory=dict)

    def add(self, line: Line) -> str | None:
        """Adds a line; why it is skipped, if an earlier one says the same or contradicts it."""
        return self.parts.setdefault(line.channels, _Part(line)).add(line)

    def recordings(self, root: str) -> Iterator[Recording]:
        for channels, part in self.parts.items():
            recording = _recording(part.first, part.segments, root)
            yield by_channel.named(recording, channels, self.parts)


def grouped(
    path: str,
    root: str,
    lines: Iterable[tuple[int, str | None]],
    parse: Callable[[str | None], Iterable[Line]],
) -> Entries:
    """Recordings of the numbered lines of the list `path`, whose relative paths start at `root`; an
    ItemError or ValueError of `parse` makes a bad line.

    Bad lines come first, then the recordings: a file's lines may be anywhere in the list.
    """
    groups: dict[str, Group] = {}
    bad = 0
    for number, text in _whole(lines):
        try:
            if isinstance(text, ItemError):
                raise text
            for line in parse(text):
                group = groups.setdefault(line.path, Group())
                if why_not := group.add(line):
                    yield Ignored(line_name(path, number), why_not)
        except (ItemError, ValueError) as error:
            yield bad_line(path, number, error)
            bad += 1
            if bounds.hopeless(bad, number):
                why = f"{bad:,} of {number:,} lines cannot be used; the rest is not read"
                yield bad_line(path, number + 1, why)
                break
    names: set[str] = set()
    for recording in chain.from_iterable(group.recordings(root) for group in groups.values()):
        if recording.path in names:
            # Two spellings of one path, one through `..`: perhaps the same file.
            yield Ignored(recording.path, "duplicate_path")
            continue
        names.add(recording.path)
        yield recording


def _whole(
    lines: Iterable[tuple[int, str | None]],
) -> Iterator[tuple[int, str | ItemError | None]]:
    """The lines, and last the error that ends them, if any."""
    number = 0
    try:
        for number, text in lines:
            yield number, text
    except ItemError as error:
        yield number + 1, error
