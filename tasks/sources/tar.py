"""WeNet or WebDataset shards: plain tars, whose audio is read in place and never extracted.

`path` is one .tar, a folder or a glob of them, or a list with one tar a line. A sample is a run
of neighbouring members that are alike up to the last dot (WeNet's rule): audio, `.txt`, `.json`.
Names such as `../x` are only names here: nothing is ever written under them.
"""

from __future__ import annotations

import json
import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from pydantic import Field

from tasks import storage
from tasks.errors import ConfigError, ItemError
from tasks.recording import Ignored, Locator, Recording
from tasks.recording import guard as guard_of
from tasks.recording.extensions import known
from tasks.settings import SourceSettings
from tasks.sources._containers import containers
from tasks.sources._shared import (
    bad_line,
    failed,
    find,
    guard,
    line_name,
    lines,
    list_file,
    list_root,
    listed_name,
    located,
    sane_name,
    source_text,
    text_field,
    text_of,
)
from tasks.sources._tarwalk import Member, compression, is_binary, is_tar, members
from tasks.storage import urls

MAX_TEXT_BYTES = 1_000_000

_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_COMPRESSED = "a {}-compressed tar cannot be read in parts; decompress it first"

Listed = Iterator[Recording | Ignored]


class Settings(SourceSettings):
    kind: Literal["tar"] = "tar"
    root: str | None = Field(
        None, description="For a list: folder its relative paths start from; default: its own."
    )


def recordings(settings: Settings) -> Listed:
    """Lists at the first step; ConfigError at once if there is no readable tar."""
    found = containers(settings.path, lambda name: name.lower().endswith(_ENDINGS), "tar")
    if len(found.files) == 1 and stat.S_ISREG(_mode(settings.path)):
        path = list_file(settings.path)
        if packed := compression(path):
            raise ConfigError(f"source {text_of(path)!r}: {_COMPRESSED.format(packed)}")
        if not path.lower().endswith(".tar") and not is_tar(path):
            if is_binary(path):
                raise ConfigError(f"source {text_of(path)!r} is neither a tar nor a list of tars")
            return _listed(path, list_root(path, settings.root))
    return _all(found.files, found.ignored)


def _mode(path: str) -> int:
    """0 for what is not there: a pattern."""
    try:
        return urls.status(path).st_mode
    except (OSError, ValueError):
        return 0


def _all(files: list[tuple[str, str]], ignored: list[Ignored]) -> Listed:
    yield from ignored
    for name, path in files:
        yield from _archive(sane_name(name), path)


def _listed(list_path: str, root: str) -> Listed:
    """Archives that a text list names, one a line."""
    seen: set[str] = set()
    for number, line in lines(list_path):
        try:
            if line is None or "\0" in line:
                raise ValueError("not a path: the line is binary or too long")
            path = located(root, line.strip())
        except ItemError as error:
            yield bad_line(list_path, number, error.detail, error.code)
            continue
        except ValueError as error:
            yield bad_line(list_path, number, str(error))
            continue
        name = listed_name(path, line.strip(), root)
        if name in seen:
            yield Ignored(line_name(list_path, number), "duplicate_line")
            continue
        seen.add(name)
        yield from _archive(name, path)


def _archive(name: str, path: str) -> Listed:
    """Recordings of one archive; one that cannot be read is a failed recording itself."""
    here = source_text(path)
    if wrong := find(path).error:
        yield failed(name, here, path, *wrong)
        return
    try:
        if packed := compression(path):
            yield failed(name, here, path, "unsupported", _COMPRESSED.format(packed))
            return
        with urls.streamed(path) as file:
            yield from _samples(name, path, file)
    except OSError as error:
        yield failed(name, here, path, "unreadable", error.strerror or "cannot be read")


@dataclass
class _Sample:
    """Neighbouring members with one key."""

    key: str
    audio: list[Member] = field(default_factory=list)
    text: str | None = None
    texts: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)


def _samples(name: str, path: str, file: BinaryIO) -> Listed:
    mark = guard(path) if storage.is_url(path) else guard_of(os.fstat(file.fileno()))
    archive = _Archive(name, path, file, mark)
    sample = _Sample("")
    seen: set[str] = set()
    try:
        for member in members(file):
            plain = posixpath.normpath(member.name) if member.name else ""
            if reason := _left_out(member, plain, seen):
                yield Ignored(archive.name_of(plain), reason)
                continue
            seen.add(plain)
            key = plain.rpartition(".")[0]
            if key != sample.key:
                yield from archive.finish(sample)
                sample = _Sample(key)
            yield from archive.take(sample, member, plain)
    except ItemError as error:
        yield from archive.finish(sample)
        yield failed(f"{name}!rest", f"{source_text(path)}!rest", path, error.code, error.detail)
        return
    yield from archive.finish(sample)


def _left_out(member: Member, plain: str, seen: set[str]) -> str | None:
    if member.kind not in ("file", "sparse"):
        return member.kind
    if posixpath.basename(plain).startswith("."):
        return "hidden"  # `._a.wav`: what macOS adds beside each file
    if not known(plain) and not plain.lower().endswith((".txt", ".json")):
        return "extension"
    return "duplicate_name" if plain in seen else None


@dataclass(frozen=True)
class _Archive:
    name: str
    path: str
    file: BinaryIO
    guard: str

    def name_of(self, plain: str) -> str:
        return f"{self.name}/{sane_name(plain)}"

    def take(self, sample: _Sample, member: Member, plain: str) -> Listed:
        """Put a member into its sample; reads texts only."""
        if known(plain):
            sample.audio.append(Member(plain, member.kind, member.offset, member.size))
            return
        sample.texts.append(plain)
        try:
            content = self._text(member)
            if plain.lower().endswith(".txt"):
                sample.text = text_field(content)
            else:
                sample.about = _about(content)
        except ValueError as error:
            where = f"{source_text(self.path)}!{text_of(plain)}"
            yield failed(self.name_of(plain), where, self.path, "unreadable", str(error))

    def _text(self, member: Member) -> str:
        if member.size > MAX_TEXT_BYTES or member.kind != "file":
            raise ValueError(f"a text of {member.size} bytes: more than {MAX_TEXT_BYTES}")
        self.file.seek(member.offset)
        try:
            return self.file.read(member.size).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("a text is not valid UTF-8") from None

    def finish(self, sample: _Sample) -> Listed:
        """A sample's recordings; its texts are ignored, with a reason, if there is no audio."""
        if not sample.audio:
            for plain in sample.texts:
                yield Ignored(self.name_of(plain), "no_audio")
        for member in sample.audio:
            sparse = ("unsupported", "a sparse member") if member.kind == "sparse" else None
            yield Recording(
                path=self.name_of(member.name),
                source_path=f"{source_text(self.path)}!{text_of(member.name)}",
                locator=Locator(self.path, offset=member.offset, length=member.size),
                size=member.size,
                guard=self.guard,
                source_id=text_of(sample.key),
                text=sample.text or sample.about.get("text"),
                speaker=sample.about.get("speaker"),
                language=sample.about.get("language"),
                error=sparse,
            )


_FIELDS = {
    "text": ("text", "txt", "transcript"),
    "speaker": ("speaker", "spk"),
    "language": ("language", "lang"),
}


def _about(content: str) -> dict[str, str | None]:
    """Text, speaker and language of a sample's `.json`; ValueError if it cannot be used."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(value, dict):
        return {}
    return {
        role: text_field(next((value[n] for n in names if value.get(n) is not None), None))
        for role, names in _FIELDS.items()
    }
