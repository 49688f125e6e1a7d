"""NeMo's manifest of a folder of tars: a line for each clip in them.

    {"audio_filepath": "a.wav", "shard_id": 0, "duration": 4.0, "text": …[, "offset": …]}

`shard_id` is the number at the end of the tar's name (`audio_0.tar`). A member is known by its name
without folders and ending; a line's may end in `-sub1`, where several are of one member.
"""

from __future__ import annotations

import io
import posixpath
import re
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import numpy as np

from ..base.errors import ItemError
from ..recording import Ignored, Recording, unreachable
from ..storage import regular
from ..storage.bounds import MAX_LINE_BYTES
from . import jsonl
from ._lists import Entries, bad_line, json_object, line_name
from ._rows import Group, as_line, by_role

NAME = "tarred_audio_manifest.json"
_NUMBER = re.compile(r"(\d{1,9})(?:\.\w+){1,2}\Z")
_ROLES = {**jsonl.NEMO, "id": ("id",)}
_ANY = -1  # no tar is named

#: The lines of each member of a tar, by its name, with their numbers.
Lines = dict[str, list[tuple[int, dict[str, object]]]]


def _member(name: str) -> str:
    return posixpath.splitext(posixpath.basename(name))[0]


class TarManifest:
    """A manifest, which is read tar by tar; it holds 17 bytes a line. `language`: the source's."""

    def __init__(self, path: str, opener: regular.Opener, language: str | None) -> None:
        self.path, self._opener, self._language = path, opener, language
        self._tars, self._starts = array("q"), array("q")  # of each line
        self._bad: dict[int, ItemError | ValueError] = {}
        for start, line in self._lines():
            self._starts.append(start)
            try:
                number = _record(line).get("shard_id")
                if number is None:
                    number = _ANY
                elif not isinstance(number, int) or not 0 <= number < 1 << 31:
                    raise ValueError("its shard_id is not the number of a tar")
                self._tars.append(number)
            except ValueError as error:
                self._tars.append(_ANY)
                self._bad[len(self._tars)] = error
        self._used = bytearray(len(self._tars))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line and where it begins."""
        start = 0
        with self._file() as file:
            while line := file.readline(MAX_LINE_BYTES):
                yield start, line
                start += len(line)

    def _file(self) -> io.BufferedReader:
        return io.BufferedReader(cast(io.RawIOBase, unreachable.opened(self.path, self._opener)))

    def of_tar(self, name: str) -> Callable[[Recording], Entries]:
        """Describes the members of the tar `name`."""
        numbered = _NUMBER.search(name)
        wanted = [_ANY, int(numbered[1])] if numbered else [_ANY]
        lines: Lines = {}
        with self._file() as file:
            for index in np.flatnonzero(np.isin(np.array(self._tars), wanted)).tolist():
                if index + 1 not in self._bad:
                    file.seek(self._starts[index])
                    record = _record(file.readline(MAX_LINE_BYTES))
                    member = _member(str(record.get("audio_filepath"))).split("-sub")[0]
                    lines.setdefault(member, []).append((index + 1, record))
        return partial(self._described, lines)

    def _described(self, lines: Lines, member: Recording) -> Entries:
        """A member of a tar as its lines describe it; skipped if there is none."""
        group = Group()
        about = lines.pop(_member(member.path), [])
        if not about:
            yield Ignored(member.path, "not_listed")
        for number, record in about:
            self._used[number - 1] = True
            row = by_role(record, _ROLES, "the member")  # whose name is not used
            row.from_start = True
            try:
                if why_not := group.add(as_line(row, "/", self._language)):
                    yield Ignored(line_name(self.path, number), why_not)
            except (ItemError, ValueError) as error:
                yield bad_line(self.path, number, error)
        yield from group.recordings(lambda part: part.described(member))

    def unused(self) -> Entries:
        """The lines that cannot be read, or of which no tar had the audio."""
        missing = ItemError("missing", "no tar of its shard_id has a member of this name")
        for number, used in enumerate(self._used, 1):
            if not used:
                yield bad_line(self.path, number, self._bad.get(number, missing))


def _record(line: bytes) -> dict[str, object]:
    return json_object(line.decode("utf-8", "surrogateescape"))
