"""A recording that is a whole file, as most sources list them."""

from __future__ import annotations

from tasks.recording.guard import file_state
from tasks.recording.locator import Locator, Recording
from tasks.recording.names import display_text
from tasks.storage import urls


def display_path(path: str) -> str:
    """A path for people: absolute, links kept, valid UTF-8."""
    return display_text(urls.absolute(path))


def of_file(path: str, file: str) -> Recording:
    """The recording `path` of its source, which is all of `file`, an absolute path or a URL, as the
    file is now. Add what else the source says by `dataclasses.replace`."""
    state = file_state(file)
    locator, source_path = Locator(file), display_path(file)
    return Recording(path, source_path, locator, state.size, state.guard, error=state.error)
