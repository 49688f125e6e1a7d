"""WeNet or WebDataset shards: tars, whose audio is read in place and never extracted.

`path` is one .tar, a folder or a glob of them, or a list with one tar per line. A sample is a run
of consecutive members whose names agree up to the first dot (WebDataset's rule): audio, `.txt`,
`.json`. Of several audios in it, each has the text whose name agrees up to the last dot (WeNet's
rule); the only one has any. NeMo's `tarred_audio_manifest.json` beside the tars says what their
members are; it may be the source itself.
Names such as `../x` are harmless: nothing is ever written under them.
"""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, cast

from pydantic import Field

from ..base.errors import UNREACHABLE, ConfigError, ItemError
from ..recording import Ignored, Locator, Recording, container, unreachable
from ..recording.file_kinds import compression, is_recording
from ..recording.guard import display_path, file_state
from ..recording.names import display_text, safe_name
from ..recording.stream_copy import PACKINGS
from ..settings.base import READ
from ..storage import bounds, regular, urls
from . import _columns
from ._archives import in_one
from ._beside import folders
from ._containers import Containers, containers
from ._lists import (
    Entries,
    SpeakerSettings,
    bad_line,
    failed,
    json_value,
    line_name,
    text_field,
    unlisted,
)
from ._paths import Boundary, list_file, list_root, listed_name, resolve
from ._tar_manifest import NAME, Lines, TarManifest
from ._tarwalk import Member, head, is_tar, members

_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_TEXTS = (".txt", ".json")
MOST_TOGETHER = 100  # members of a sample
_COMPRESSED = "a tar in {} is not read; repack it with gzip or zstd"


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
    if any(urls.named(f"{home}/{NAME}") for home in homes):
        texts = f"{NAME} (text, speaker, lang, offset, duration, channel)"
    return f"tar: audio from its members, text from {texts}"


def recordings(settings: Settings) -> Entries:
    """Lists lazily. ConfigError at once if there is no readable tar."""
    tars = _tars(settings)
    if len(tars.files) == 1 and stat.S_ISREG(_mode(settings.path)):
        path = list_file(tars.files[0][1])
        try:
            with unreachable.opened(path, tars.opener) as file:
                begin = head(file)
        except ItemError as error:
            raise ConfigError(f"source {display_text(path)!r}: {error.detail}") from None
        packed = compression(begin)
        if packed and packed not in PACKINGS:
            raise ConfigError(f"source {display_text(path)!r}: {_COMPRESSED.format(packed)}")
        if not packed and not path.lower().endswith(".tar") and not is_tar(begin):
            if b"\0" in begin:  # no text file has it
                raise ConfigError(
                    f"source {display_text(path)!r} is neither a tar nor a list of tars"
                )
            return _listed(path, list_root(path, settings.root), settings.language)
    return tars.checked(_all(tars, settings.language))


def _tars(settings: Settings) -> Containers:
    path = settings.path
    if os.path.basename(path) == NAME:  # stands for the tars beside it
        path = os.path.dirname(path) or "."
    return containers(
        path, lambda name: name.lower().endswith(_ENDINGS), "tar", settings.follow_links
    )


def _mode(path: str) -> int:
    """The file mode; 0 if nothing has this name (a pattern)."""
    try:
        return urls.status(path).st_mode
    except (OSError, ValueError):
        return 0


def _all(tars: Containers, language: str | None) -> Entries:
    manifests = _Manifests(language, tars.boundary)
    for entry in tars.ignored:
        yield Ignored(entry.path, folders.READ) if manifests.reads(entry) else entry
    for name, path in tars.files:
        yield from _archive(safe_name(name), path, manifests)
    yield from manifests.unused()


def _listed(list_path: str, root: str, language: str | None) -> Entries:
    """Recordings of the archives that a text list names, one per line."""
    seen: set[str] = set()
    manifests = _Manifests(language)
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
        yield from _archive(name, path, manifests)
    yield from manifests.unused()


class _Manifests:
    """NeMo's manifests beside tars. `language`: the source's."""

    def __init__(self, language: str | None, boundary: Boundary | None = None) -> None:
        self.language, self.boundary = language, boundary
        self._by_folder: dict[str, TarManifest | None] = {}

    @property
    def opener(self) -> regular.Opener:
        return self.boundary.opener if self.boundary else regular.read

    def reads(self, entry: Ignored) -> bool:
        return entry.reason == "extension" and posixpath.basename(entry.path) == NAME

    def beside(self, tar: str) -> TarManifest | None:
        """The manifest of a tar's folder, unless it is a link that leads out. ItemError if it
        cannot be read."""
        path = f"{os.path.dirname(tar)}/{NAME}"
        if path not in self._by_folder:
            leaves = self.boundary is not None and self.boundary.outside(path)
            reads = urls.named(path) and not leaves
            self._by_folder[path] = TarManifest(path, self.opener, self.language) if reads else None
        return self._by_folder[path]

    def unused(self) -> Entries:
        for manifest in filter(None, self._by_folder.values()):
            yield from in_one(NAME, manifest.path, manifest.unused())


def _archive(name: str, path: str, manifests: _Manifests) -> Entries:
    """Recordings of one archive; an unreadable archive is a failed recording itself."""
    source_path = display_path(path)
    if wrong := file_state(path).error:
        if wrong[0] == UNREACHABLE:
            yield unlisted(name, path, ItemError(*wrong))
        else:
            yield failed(name, source_path, path, *wrong)
        return
    language = manifests.language
    try:
        manifest = manifests.beside(path)
        with unreachable.opened(path, manifests.opener) as file:
            packed = compression(head(file))
            if packed is None:
                yield from in_one(name, path, _samples(name, path, file, language, manifest))
        if packed in PACKINGS:
            inside = manifests.boundary.inside if manifests.boundary else None
            file = cast(BinaryIO, container.unpacked(path, packed, inside))
            yield from in_one(name, path, _samples(name, path, file, language, manifest, packed))
        elif packed:
            yield failed(name, source_path, path, "unsupported", _COMPRESSED.format(packed))
    except ItemError as error:
        yield unlisted(name, path, error)


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


def _samples(
    name: str,
    path: str,
    file: BinaryIO,
    language: str | None,
    manifest: TarManifest | None = None,
    packing: str | None = None,
) -> Entries:
    archive = _Archive(name, path, file, urls.guard(path), language, packing, manifest)
    sample = _Sample("")
    seen: set[str] = set()
    try:
        for member in members(file):
            plain = posixpath.normpath(member.name) if member.name else ""
            if reason := archive.left_out(member, plain, seen):
                yield Ignored(archive.member_name(plain), reason)
                continue
            seen.add(plain)
            if sample.ends_at(plain):
                yield from archive.finish(sample)
                sample = _Sample(_key(plain))
            yield from archive.take(sample, member, plain)
    except ItemError as error:
        yield from archive.finish(sample)
        yield unlisted(name, path, getattr(file, "wrong", None) or error)
        return
    yield from archive.finish(sample)
    if wrong := getattr(file, "wrong", None):
        yield unlisted(name, path, wrong)


@dataclass
class _Archive:
    name: str
    path: str
    file: BinaryIO
    guard: str
    language: str | None  # the source's
    packing: str | None
    manifest: TarManifest | None
    lines: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.manifest.of_tar(self.path) if self.manifest else {}

    def member_name(self, plain: str) -> str:
        return f"{self.name}/{safe_name(plain)}"

    def left_out(self, member: Member, plain: str, seen: set[str]) -> str | None:
        if member.kind not in ("file", "sparse"):
            return member.kind
        if posixpath.basename(plain).startswith("."):
            return "hidden"  # such as `._a.wav`, which macOS adds to each file
        if not plain.lower().endswith(_TEXTS) and not self._is_audio(member, plain):
            return "extension"
        return "duplicate_name" if plain in seen else None

    def _is_audio(self, member: Member, plain: str) -> bool:
        def read(_: str, most: int) -> bytes:
            self.file.seek(member.offset)
            return self.file.read(min(most, member.size))

        return is_recording(plain, plain, read)

    def take(self, sample: _Sample, member: Member, plain: str) -> Entries:
        """Add a member to its sample; reads only texts."""
        if not plain.lower().endswith(_TEXTS):
            sample.audio.append(Member(plain, member.kind, member.offset, member.size))
            return
        sample.texts.append(plain)
        about = sample.about.setdefault(_stem(plain), {})
        try:
            content = self._text(member)
            if plain.lower().endswith(".txt"):
                about["text"] = text_field(content) or about.get("text")
            else:
                value = json_value(content)
                facts = _columns.told(value, self.language) if isinstance(value, dict) else {}
                about.update(facts | {k: v for k, v in about.items() if v})
        except ValueError as error:
            where = f"{display_path(self.path)}!{display_text(plain)}"
            yield failed(self.member_name(plain), where, self.path, "unreadable", str(error))

    def _text(self, member: Member) -> str:
        if wrong := bounds.too_long(member.size):
            raise ValueError(wrong)
        if member.kind != "file":
            raise ValueError("a text in a sparse member is not read")
        self.file.seek(member.offset)
        try:
            return self.file.read(member.size).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("a text is not valid UTF-8") from None

    def _place(self, member: Member) -> Locator:
        return Locator(self.path, offset=member.offset, length=member.size, packing=self.packing)

    def finish(self, sample: _Sample) -> Entries:
        """The recordings of a complete sample; texts that belong to none of them as Ignored."""
        stems = {_stem(member.name) for member in sample.audio}
        for plain in sample.texts:
            if not stems or (len(stems) > 1 and _stem(plain) not in stems):
                yield Ignored(self.member_name(plain), "no_audio")
        for member in sample.audio:
            sparse = ("unsupported", "a sparse member") if member.kind == "sparse" else None
            stem = _stem(member.name)
            about = sample.told(stem)
            recording = Recording(
                path=self.member_name(member.name),
                source_path=f"{display_path(self.path)}!{display_text(member.name)}",
                locator=self._place(member),
                size=member.size,
                guard=self.guard,
                source_id=display_text(stem),
                text=about.get("text"),
                speaker=about.get("speaker"),
                language=about.get("language"),
                error=sparse,
            )
            if self.manifest is None:
                yield recording
            else:
                yield from self.manifest.described(recording, self.lines)
