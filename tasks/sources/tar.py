"""WeNet or WebDataset shards: tars, whose audio is read in place and never extracted.

`path` is one .tar, a folder or a glob of them, or a list with one tar per line. A sample is a run
of consecutive members whose names agree up to the first dot (WebDataset's rule): audio, `.txt`,
`.json`. Of several audios in it, each has the text whose name agrees up to the last dot (WeNet's
rule); the only one has any.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, cast

import numpy as np
from pydantic import Field

from ..base.errors import ItemError
from ..recording import Ignored, Recording, unreachable
from ..recording.file_kinds import HEAD, compression, is_recording
from ..recording.guard import display_path
from ..recording.names import display_text, safe_name
from ..recording.packed import PACKINGS, Member
from ..settings.base import READ
from ..storage import bounds, regular, urls
from . import _columns, _lists, _paths, jsonl
from ._archives import COMPRESSED, Archive, in_one, is_tar, listed
from ._beside import folders
from ._folders import Containers, containers
from ._lists import Entries, SpeakerSettings, bad_line, json_object, line_name
from ._paths import Boundary, list_file, list_root, listed_name, resolve
from ._rows import Group, as_line, by_role

MANIFEST = "tarred_audio_manifest.json"
_NUMBER = re.compile(r"(\d{1,9})(?:\.\w+){1,2}\Z")
_MANIFEST_ROLES = {**jsonl.NEMO, "id": ("id",)}
_ANY = -1  # no tar is named
_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_TEXTS = (".txt", ".json")
_TOLD = ("text", "speaker", "language")
MOST_TOGETHER = 100  # members of a sample


class Settings(SpeakerSettings):
    kind: Literal["tar"] = "tar"
    root: str | None = Field(
        None,
        description="For a list: folder its relative paths start from; default: its own.",
        json_schema_extra=READ,
    )


def gives(settings: Settings) -> str:
    texts = "members of the same key (.txt, .json)"
    homes = {os.path.dirname(path) for _, path in _tars(settings).files}
    if any(urls.named(f"{home}/{MANIFEST}") for home in homes):
        texts = f"{MANIFEST} (text, speaker, lang, offset, duration, channel)"
    return f"tar: audio from its members, text from {texts}"


def recordings(settings: Settings) -> Entries:
    tars = _tars(settings)
    is_file = False
    with suppress(OSError, ValueError):  # nothing has the name of a pattern
        is_file = stat.S_ISREG(urls.status(settings.path).st_mode)
    if len(tars.files) == 1 and is_file:
        path = list_file(tars.files[0][1])
        try:
            with unreachable.opened(path, tars.boundary.opener) as file:
                begin = file.read(HEAD)
        except ItemError as error:
            raise _lists.refusal(path, f": {error.detail}") from None
        packed = compression(begin)
        if packed and packed not in PACKINGS:
            raise _lists.refusal(path, f": {COMPRESSED.format(packed)}")
        if not packed and not path.lower().endswith(".tar") and not is_tar(begin):
            if b"\0" in begin:  # no text file has it
                raise _lists.refusal(path, "is neither a tar nor a list of tars")
            root = list_root(path, settings.root)
            return _all(_listed(path, root), settings.language, Boundary(root, follow_links=True))
    return tars.boundary.checked(_all(_found(tars), settings.language, tars.boundary))


def _tars(settings: Settings) -> Containers:
    path = settings.path
    if os.path.basename(path) == MANIFEST:  # stands for the tars beside it
        path = os.path.dirname(path) or "."
    return containers(
        path, lambda name: name.lower().endswith(_ENDINGS), "tar", settings.follow_links
    )


#: An archive's name and path, or what is no archive.
_Tars = Iterable[tuple[str, str] | Recording | Ignored]


def _found(tars: Containers) -> _Tars:
    for entry in tars.ignored:
        is_manifest = entry.reason == "extension" and posixpath.basename(entry.path) == MANIFEST
        yield Ignored(entry.path, folders.READ) if is_manifest else entry
    yield from ((safe_name(name), path) for name, path in tars.files)


def _listed(list_path: str, root: str) -> _Tars:
    """The archives that a text list names, one per line."""
    seen: set[str] = set()
    for number, line in urls.lines(list_path):
        try:
            if line is None or "\0" in line:
                raise ValueError("not a path: the line is binary or too long")
            path = resolve(root, line.strip())
        except (ItemError, ValueError) as error:
            yield bad_line(list_path, number, error)
            continue
        name = listed_name(path, line.strip(), root)
        if name in seen:
            yield Ignored(line_name(list_path, number), "duplicate_line")
            continue
        seen.add(name)
        yield name, path


def _all(tars: _Tars, language: str | None, boundary: Boundary) -> Entries:
    """The recordings of archives, by NeMo's manifests beside them. `language`: the source's."""
    manifests: dict[str, TarManifest | None] = {}  # by path

    def entries_of(name: str, archive: Archive) -> Entries:
        path = f"{os.path.dirname(archive.path)}/{MANIFEST}"
        if path not in manifests:
            reads = urls.named(path) and not boundary.outside(path)
            manifests[path] = TarManifest(path, boundary.opener, language) if reads else None
        return _Listing(name, archive, language, manifests[path]).entries()

    for tar in tars:
        if isinstance(tar, tuple):
            yield from listed(*tar, boundary.inside, partial(entries_of, tar[0]))
        else:
            yield tar
    for manifest in filter(None, manifests.values()):
        yield from in_one(MANIFEST, manifest.path, manifest.unused())


@dataclass
class _Sample:
    """Consecutive members with one key. `about`: what each member with a text says, by its name
    without ending."""

    key: str
    audio: list[Member] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    about: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def ends_at(self, plain: str) -> bool:
        """Whether a member belongs to another sample. Names with a dot before their number would
        make one sample of a whole tar: it is divided between pairs of audio and text."""
        if _key(plain) != self.key:
            return True
        many = len(self.audio) + len(self.texts) >= MOST_TOGETHER
        return many and _stem(plain) not in map(_stem, [m.name for m in self.audio] + self.texts)

    def told(self, stem: str) -> dict[str, str | None]:
        """What its texts say of one of its audios."""
        if len({_stem(member.name) for member in self.audio}) > 1:
            return self.about.get(stem, {})
        facts: dict[str, str | None] = {}
        for about in (*self.about.values(), self.about.get(stem, {})):  # its own last
            facts |= {role: value for role, value in about.items() if value is not None}
        return facts


def _stem(plain: str) -> str:
    return plain.rpartition(".")[0]


def _key(plain: str) -> str:
    above, name = posixpath.split(plain)
    return posixpath.join(above, name.partition(".")[0])


class _Listing:
    """One archive that is being listed. `language`: the source's."""

    def __init__(
        self, name: str, archive: Archive, language: str | None, manifest: TarManifest | None
    ) -> None:
        self.name, self.archive, self.language = name, archive, language
        self.described = manifest.of_tar(archive.path) if manifest else None

    def entries(self) -> Entries:
        sample = _Sample("")
        seen: set[str] = set()
        for member in self.archive.members():
            if reason := self.left_out(member, seen):
                yield Ignored(self.member_name(member.name), reason)
                continue
            seen.add(member.name)
            if sample.ends_at(member.name):
                yield from self.finish(sample)
                sample = _Sample(_key(member.name))
            yield from self.take(sample, member)
        yield from self.finish(sample)

    def member_name(self, plain: str) -> str:
        return f"{self.name}/{safe_name(plain)}"

    def left_out(self, member: Member, seen: set[str]) -> str | None:
        if member.kind != "file":
            return member.kind
        if posixpath.basename(member.name).startswith("."):
            return "hidden"  # such as `._a.wav`, which macOS adds to each file
        if not member.name.lower().endswith(_TEXTS) and not is_recording(
            member.name, member.name, lambda _, most: self.archive.read(member, most)
        ):
            return "extension"
        return "duplicate_name" if member.name in seen else None

    def take(self, sample: _Sample, member: Member) -> Entries:
        """Add a member to its sample; reads only texts."""
        plain = member.name
        if not plain.lower().endswith(_TEXTS):
            sample.audio.append(member)
            return
        sample.texts.append(plain)
        about = sample.about.setdefault(_stem(plain), {})
        try:
            content = self._text(member)
            if plain.lower().endswith(".txt"):
                about["text"] = _lists.text_field(content) or about.get("text")
            else:
                value = _lists.json_value(content)
                facts = _columns.told(value, self.language) if isinstance(value, dict) else {}
                about.update(facts | {k: v for k, v in about.items() if v})
        except ValueError as error:
            where = f"{display_path(self.archive.path)}!{display_text(plain)}"
            path, why = self.archive.path, str(error)
            yield _lists.failed(self.member_name(plain), where, path, "unreadable", why)

    def _text(self, member: Member) -> str:
        if wrong := bounds.too_long(member.size):
            raise ValueError(wrong)
        if member.error is not None:
            raise ValueError("a text in a sparse member is not read")
        try:
            return self.archive.read(member, member.size).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("a text is not valid UTF-8") from None

    def finish(self, sample: _Sample) -> Entries:
        """The recordings of a complete sample; texts that belong to none of them as Ignored."""
        stems = {_stem(member.name) for member in sample.audio}
        for name in sample.texts:
            if not stems or (len(stems) > 1 and _stem(name) not in stems):
                yield Ignored(self.member_name(name), "no_audio")
        for member in sample.audio:
            stem = _stem(member.name)
            recording = self.archive.recording(self.name, member)
            recording.source_id = display_text(stem)
            about = sample.told(stem)
            recording.text, recording.speaker, recording.language = map(about.get, _TOLD)
            if self.described is None:
                yield recording
            else:
                yield from self.described(recording)


# NeMo's manifest of a folder of tars: a line for each clip in them.
#
#     {"audio_filepath": "a.wav", "shard_id": 0, "duration": 4.0, "text": …[, "offset": …]}
#
# `shard_id` is the number at the end of the tar's name (`audio_0.tar`). A member is known by its
# name without folders and ending; a line's may end in `-sub1`, where several are of one member.

#: The lines of each member of a tar, by its name, with their numbers.
Lines = dict[str, list[tuple[int, dict[str, object]]]]


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
            while line := file.readline(bounds.MAX_LINE_BYTES):
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
                    record = _record(file.readline(bounds.MAX_LINE_BYTES))
                    member = _paths.stem(str(record.get("audio_filepath"))).split("-sub")[0]
                    lines.setdefault(member, []).append((index + 1, record))
        return partial(self._described, lines)

    def _described(self, lines: Lines, member: Recording) -> Entries:
        """A member of a tar as its lines describe it; skipped if there is none."""
        group = Group()
        about = lines.pop(_paths.stem(member.path), [])
        if not about:
            yield Ignored(member.path, "not_listed")
        for number, record in about:
            self._used[number - 1] = True
            row = by_role(record, _MANIFEST_ROLES, "the member")  # whose name is not used
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
