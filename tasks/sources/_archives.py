"""Archives in a folder: their members are recordings, read in place, with the texts beside them.
An archive is listed like a folder of its name, in the byte order of its members' names. Nothing is
ever written under those names, so `../x.wav` is harmless."""

from __future__ import annotations

import os
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

from ..base.errors import ItemError
from ..recording import Ignored, Locator, Recording, packed, unreachable
from ..recording.container import as_file, size_of, unpacked
from ..recording.file_kinds import HEAD, ReadFile, compression, is_recording, known
from ..recording.guard import display_path, file_state
from ..recording.names import REST, display_text, is_utf8, safe_name
from ..storage import regular
from ._beside.folders import FolderTexts
from ._lists import Entries, failed, unlisted, unopened
from ._paths import skip_reason

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")
MOST = 1_000_000  # members: 300 MB of names and places
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

#: (path of a folder, names in it, reader of its files) -> the folder's texts.
TextsOf = Callable[[str, list[str], ReadFile], FolderTexts | None]
#: (texts, name in the folder, recording) -> the recording with its speaker and text.
Complete = Callable[[FolderTexts | None, str, Recording], Recording]


@dataclass(frozen=True, slots=True)
class _Member:
    """`size`: unpacked, in bytes. `error`: (code, detail) if it cannot be read."""

    name: str
    locator: Locator
    size: int
    kind: str
    error: tuple[str, str] | None = None


def is_archive(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


@dataclass(frozen=True)
class Archive:
    """One archive. `name`: in the source; prefixes its recordings' names. `encoding`: of members'
    names that are not UTF-8. `inside`: as a locator's."""

    name: str
    path: str
    system_folders: bool
    texts_of: TextsOf
    complete: Complete
    encoding: str | None = None
    inside: int | None = None

    def listed(self) -> Entries:
        """Its recordings; an archive that cannot be listed gives one failed recording."""
        name = safe_name(self.name)
        state = file_state(self.path)
        if state.error:
            yield unopened(name, self.path, state.error)
            return
        members: list[_Member] = []
        wrong = None
        try:
            for member in _members(self.path, self.inside):
                if len(members) >= MOST:
                    wrong = ItemError("unsupported", f"more than {MOST:,} members; unpack it")
                    break
                members.append(replace(member, name=self._read(member.name)))
        except ItemError as error:
            wrong = error
        yield from in_one(name, self.path, self._recordings(members, state.guard))
        if wrong:
            yield unlisted(name, self.path, wrong)

    def _recordings(self, members: list[_Member], guard: str) -> Entries:
        members.sort(key=lambda member: os.fsencode(member.name))
        taken: list[_Member] = []
        last = ""
        for member in members:
            if reason := self._skipped(member, last):
                yield Ignored(self._named(member.name), reason)
            elif member.kind == "file":
                taken.append(member)
                last = member.name
        places = {m.name: m.locator for m in taken if not known(m.name) and m.error is None}

        def read(name: str, most: int) -> bytes:
            if name not in places:
                raise ItemError("unsupported", "it cannot be read in this archive")
            with as_file(places[name]) as file:
                return file.read(most)

        names: dict[str, list[str]] = {}
        for member in taken:
            above, name = posixpath.split(member.name)
            names.setdefault(above, []).append(name)
        folders = {
            above: self.texts_of(f"{above}/" if above else "", those, read)
            for above, those in names.items()
        }
        for member in taken:
            above, name = posixpath.split(member.name)
            texts = folders[above]
            if aside := texts and texts.aside(name):
                yield Ignored(self._named(member.name), *aside)
            elif is_recording(name, member.name, read):
                yield self.complete(texts, name, self._recording(member, guard))
            else:
                reason = "archive_in_archive" if is_archive(name) else "extension"
                yield Ignored(self._named(member.name), reason)

    def _skipped(self, member: _Member, last: str) -> str | None:
        if member.kind != "file":
            return None if member.kind == "folder" else member.kind
        parts = (part for part in member.name.split("/") if part != "..")
        reason = next(filter(None, (skip_reason(p, self.system_folders) for p in parts)), None)
        return reason or ("duplicate_name" if member.name == last else None)

    def _read(self, name: str) -> str:
        """A member's name, which Windows writes into archives in the encoding of its language."""
        if self.encoding and not is_utf8(name):
            with suppress(ValueError):
                return os.fsencode(name).decode(self.encoding)
        return name

    def _named(self, member: str) -> str:
        return f"{safe_name(self.name)}/{safe_name(member)}"

    def _recording(self, member: _Member, guard: str) -> Recording:
        return Recording(
            path=self._named(member.name),
            source_path=f"{display_path(self.path)}!{display_text(member.name)}",
            locator=member.locator,
            size=member.size,
            guard=guard,
            error=member.error,
        )


def _members(path: str, inside: int | None) -> Iterator[_Member]:
    """Members in the archive's order; raises ItemError where the rest cannot be read."""
    opener = regular.read if inside is None else regular.read_inside(path[:inside])
    with unreachable.opened(path, opener) as file:
        head = file.read(HEAD)
        packing = compression(head)
        if packing is None and path.lower().endswith(".zip"):
            yield from _of_zip(path, file, inside)
        elif packing is None:
            yield from _of_tar(path, file, None, inside)
        elif packing not in packed.PACKINGS:
            raise ItemError("unsupported", f"a tar in {packing}; repack it with gzip or zstd")
    if packing in packed.PACKINGS:
        copy = unreachable.patience.read(lambda: unpacked(path, packing, inside))
        try:
            yield from _of_tar(path, copy, packing, inside)  # type: ignore[arg-type]
        except ItemError as error:
            raise copy.wrong or error from None
        if copy.wrong:
            raise copy.wrong


def _of_zip(path: str, file: BinaryIO, inside: int | None) -> Iterator[_Member]:
    end = 0
    for entry in sorted(packed.entries(file, MOST), key=lambda entry: entry.offset):
        error = entry.error
        if entry.offset < end and not error:
            error = ("unreadable", "its bytes overlap another member's: get the archive again")
        end = max(end, entry.offset + entry.packed)
        place = Locator(path, offset=entry.offset, length=entry.packed, packing="zip")
        place = replace(place, unpacked=entry.size, crc=entry.crc, inside=inside)
        yield _Member(plain(entry.name), place, entry.size, entry.kind, error)


def plain(name: str) -> str:
    """A member's name without `.` and `//`."""
    return posixpath.normpath(name) if name else ""


def _of_tar(
    path: str, file: BinaryIO, packing: str | None, inside: int | None
) -> Iterator[_Member]:
    for member in members(file):
        sparse = member.kind == "sparse"
        wrong = ("unsupported", "a sparse member; repack the tar without --sparse")
        place = Locator(path, offset=member.offset, length=member.size)
        place = replace(place, packing=packing, inside=inside)
        kind = "file" if sparse else member.kind
        yield _Member(plain(member.name), place, member.size, kind, wrong if sparse else None)


def in_one(name: str, path: str, entries: Iterable[Recording | Ignored]) -> Entries:
    """The entries of an archive called `name`, those of many members alike as one, at the end:
    hundreds of thousands of empty members fit into 4 MB of a compressed tar, and would be as many
    lines in the ledger, and take minutes to probe."""
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
        elif isinstance(first[0], Ignored):
            yield replace(first[0], members=counts[reason])
        else:
            code, why = first[0].error or _TOO_SHORT
            member = first[0].path.removeprefix(f"{name}/")
            what = f"{counts[reason]:,} of its members, such as {member}: {why}"
            yield failed(f"{name}!{code}", f"{display_path(path)}!{code}", path, code, what)


# Members of a plain tar, read header by header: forward only, nothing extracted. The standard
# library decodes single headers; `TarFile.next` loops on negative sizes (CVE-2025-8194), allocates
# whatever a long-name header claims, and keeps every member it has seen.


BLOCK = 512

MAX_EXTENSION_BYTES = 1 << 20  # a larger long-name or PAX header is damage, not a name
PADDING_BLOCKS = 40  # searched after the end mark for a second tar; tar pads to 20 blocks of zeros

_RECORD = re.compile(rb"([0-9]{1,7}) ")
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)


@dataclass(frozen=True, slots=True)
class Member:
    """Data at `offset`, `size` in bytes. `kind`: file, sparse, folder, link, device or special."""

    name: str
    kind: str
    offset: int
    size: int


def head(file: BinaryIO) -> bytes:
    """The first block of a file."""
    file.seek(0)
    return file.read(BLOCK)


def is_tar(head: bytes) -> bool:
    """Whether the first block is the header of a tar."""
    try:
        _header(head)
    except tarfile.HeaderError:
        return False
    return True


def _header(block: bytes) -> tarfile.TarInfo:
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def members(file: BinaryIO) -> Iterator[Member]:
    """Complete members in order, up to the end mark. ItemError if the rest is lost (`truncated`,
    `unreadable`) or cannot be read by this walk (`unsupported`)."""
    total = size_of(file)
    position = 0
    name: str | None = None
    pax: dict[str, str] = {}
    while position < total:
        file.seek(position)
        try:
            header = _header(file.read(BLOCK))
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            _nothing_follows(file)
            return
        except tarfile.TruncatedHeaderError:  # type: ignore[attr-defined]
            raise ItemError("truncated", f"the tar breaks off at byte {position}") from None
        except tarfile.HeaderError:
            detail = f"no tar header at byte {position}; what follows is not read"
            raise ItemError("unreadable", detail) from None
        start = position + BLOCK
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_PAX, b"g"):
            content = _extension(file, start, header.size, total)
            if header.type == tarfile.GNUTYPE_LONGNAME:
                name = content.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            elif header.type in _PAX:
                pax = _records(content)
            position = start + -(-header.size // BLOCK) * BLOCK
            continue
        stated = pax.get("size", "")
        is_number = stated.isascii() and stated.isdigit() and len(stated) < 20
        size = int(stated) if is_number else header.size
        if size < 0:
            raise ItemError("unreadable", f"a negative size in the tar header at byte {position}")
        full = pax.get("path") or name or header.name
        kind = _kind(header, pax)
        if header.type == tarfile.GNUTYPE_SPARSE:
            # More headers may follow a sparse one; where its data ends is not worked out.
            detail = f"a sparse member at byte {position}; what follows is not read"
            raise ItemError("unsupported", detail)
        holds_data = header.isreg() or header.type not in tarfile.SUPPORTED_TYPES
        if holds_data and start + size > total:
            detail = f"{size} bytes are promised at byte {start}, {max(total - start, 0)} are there"
            raise ItemError("truncated", detail)
        yield Member(full, kind, start, size if holds_data else 0)
        position = start + (-(-size // BLOCK) * BLOCK if holds_data else 0)
        name, pax = None, {}
    # Only the missing end mark, which every closed tar has, shows a cut between two members.
    raise ItemError("truncated", f"the tar ends at byte {total} without an end mark")


def _nothing_follows(file: BinaryIO) -> None:
    """ItemError if a second tar follows the end mark (`cat a.tar b.tar`)."""
    for _ in range(PADDING_BLOCKS):
        position = file.tell()
        block = file.read(BLOCK)
        if any(block):
            try:
                _header(block)
            except tarfile.HeaderError:
                return
            detail = f"another tar follows the end mark, at byte {position}; it is not read"
            raise ItemError("unsupported", detail)


def _extension(file: BinaryIO, start: int, size: int, total: int) -> bytes:
    if not 0 <= size <= MAX_EXTENSION_BYTES:
        raise ItemError("unreadable", f"a tar header at byte {start} claims a name of {size} bytes")
    if start + size > total:
        raise ItemError("truncated", f"the tar breaks off at byte {start}")
    return file.read(size)


def _records(content: bytes) -> dict[str, str]:
    """PAX records `length key=value\\n`, up to the first damaged one, as other tar readers do."""
    fields: dict[str, str] = {}
    position = 0
    while record := _RECORD.match(content, position):
        end = position + int(record[1])
        key, equals, value = content[record.end() : end].removesuffix(b"\n").partition(b"=")
        if not equals or end > len(content):
            break
        fields[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        position = end
    return fields


def _kind(header: tarfile.TarInfo, pax: dict[str, str]) -> str:
    if any(key.startswith("GNU.sparse.") for key in pax):
        return "sparse"
    if header.isreg():
        return "file"
    if header.isdir():
        return "folder"
    if header.issym() or header.islnk():
        return "link"
    return "device" if header.isdev() else "special"
