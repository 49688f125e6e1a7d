"""Links in the folder of a source: those that lead out of it are skipped, unless `follow_links` is
set.

Whoever fills a folder could otherwise have any file published that the user can read. What a person
names is followed: the source's own path, and the lines of a list.
"""

from __future__ import annotations

import os

from ..recording import Ignored, Recording
from ..recording.names import display_text, recording_name
from ..storage import regular
from ._lists import Entries

OUTSIDE = "link_outside"


class Boundary:
    """What links in `folder`, an absolute path, may reach: all of it, or anything at all."""

    def __init__(self, folder: str, follow_links: bool = False) -> None:
        self.folder = folder.rstrip("/") or "/"
        #: For `Locator.inside`.
        self.inside = None if follow_links else len(self.folder)
        #: Opens files of the folder for reading.
        self.opener = regular.read if follow_links else regular.read_inside(self.folder)
        self._real = os.path.realpath(self.folder)
        self._inside: dict[str, bool] = {}  # folders, and whether they are

    def outside(self, path: str) -> str | None:
        """Where a path in the folder leads, if links lead it out; else None."""
        if self.inside is None:
            return None
        real = os.path.realpath(path)
        if not regular.lies_in(real, self._real):
            return real
        try:
            # A link of /proc may lead elsewhere than it says.
            same = os.path.samestat(os.stat(path), os.lstat(real))
        except OSError:  # a link to nothing, or a loop
            same = True
        return None if same else path

    def left_out(self, relative: str, path: str) -> Ignored | None:
        """The link `path`, if it leads out; `relative` names it in the source."""
        if (target := self.outside(path)) is None:
            return None
        detail = f"it leads to {display_text(target)}; `follow_links: true` takes it"
        return Ignored(recording_name(relative), OUTSIDE, detail)

    def checked(self, entries: Entries) -> Entries:
        """What a list in the folder, or an archive there, names: recordings below the folder are
        confined to it."""
        below, last = f"{self.folder.rstrip('/')}/", ""
        for entry in entries:
            if isinstance(entry, Recording) and entry.locator.path.startswith(below):
                path = entry.locator.path
                may_leave = path != last and self._may_leave(path)
                if may_leave and (outside := self.left_out(path[len(below) :], path)):
                    yield outside
                    continue
                entry.locator.inside, last = self.inside, path
            yield entry

    def _may_leave(self, path: str) -> bool:
        home = os.path.dirname(path)
        if home not in self._inside:
            self._inside[home] = self.outside(home) is None
        return not self._inside[home] or os.path.islink(path)
