"""A recording that is a whole file, as in most sources."""

from __future__ import annotations

from ..storage import urls
from .guard import file_state
from .locator import Locator, Recording, Segment
from .names import display_text


def display_path(path: str) -> str:
    """A path for people: absolute, links kept, valid UTF-8."""
    return display_text(urls.absolute(path))


_NOTHING = Segment(0, None)


def of_file(path: str, file: str, segment: Segment = _NOTHING) -> Recording:
    """The recording `path` of its source that is all of `file`, an absolute path or a URL, in its
    current state. `segment`: the source's data about it, with its length as `end`; add more by
    `dataclasses.replace`."""
    state = file_state(file)
    return Recording(
        path,
        display_path(file),
        Locator(file),
        state.size,
        state.guard,
        segment.source_id,
        segment.text,
        segment.speaker,
        segment.language,
        error=state.error,
        length=segment.end,
        labels=segment.labels,
    )
