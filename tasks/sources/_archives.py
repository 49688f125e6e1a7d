"""Archives, whose members are read in place. Nothing is ever written under their names, so
`../x.wav` is harmless."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import BinaryIO, cast

from ..base.errors import ItemError
from ..recording import Ignored, Locator, Recording, packed, unreachable
from ..recording.container import as_file, size_of, unpacked
from ..recording.file_kinds import HEAD, compression
from ..recording.guard import display_path, file_state
from ..recording.names import REST, display_text, safe_name
from ..recording.packed import Member
from ..storage import regular
from ._lists import Entries, failed, unlisted, unopened

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
COMPRESSED = "a tar in {} is not read; repack it with gzip or zstd"


def is_archive(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


class Archive:
    """An archive that is open for listing: a ZIP, or a tar, plain, in gzip or in zstd. `guard`: the
    file's; `inside`: as a locator's. ItemError if it cannot be opened, or not be read in place."""

    def __init__(self, path: str, guard: str, inside: int | None = None) -> None:
        self.path, self.guard = path, guard
        self.wrong: ItemError | None = None  # why `members` did not give all of them
        opener = regular.read if inside is None else regular.read_inside(path[:inside])
        self._file = unreachable.opened(path, opener)
        packing = compression(self._file.read(HEAD))
        if packing and packing in packed.PACKINGS:
            self._file.close()
            copy = unreachable.patience.read(partial(unpacked, path, packing, inside))
            self._file = cast(BinaryIO, copy)
        elif packing is not None:
            raise ItemError("unsupported", COMPRESSED.format(packing))
        elif path.lower().endswith(".zip"):
            packing = "zip"
        self._place = Locator(path, packing=packing, inside=inside)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def members(self) -> Iterator[Member]:
        """Its members in order, as far as they can be read."""
        try:
            of_kind = _of_zip if self._place.packing == "zip" else _of_tar
            yield from of_kind(self._file, self._place)
        except ItemError as error:
            self.wrong = error
        self.wrong = getattr(self._file, "wrong", None) or self.wrong

    def read(self, member: Member, most: int) -> bytes:
        """The first bytes of a member."""
        if member.error is not None:
            raise ItemError("unsupported", "it cannot be read in this archive")
        if member.locator.packing == "zip":
            with as_file(member.locator) as file:
                return file.read(most)
        self._file.seek(member.locator.offset or 0)
        return self._file.read(min(most, member.size))

    def recording(self, name: str, member: Member) -> Recording:
        """A member as a recording; `name`: of the archive."""
        return Recording(
            path=f"{name}/{safe_name(member.name)}",
            source_path=f"{display_path(self.path)}!{display_text(member.name)}",
            locator=member.locator,
            size=member.size,
            guard=self.guard,
            error=member.error,
        )


def listed(
    name: str, path: str, inside: int | None, entries_of: Callable[[Archive], Entries]
) -> Entries:
    """The entries of the archive called `name`; what of it cannot be read is one failed
    recording."""
    state = file_state(path)
    if state.error:
        yield unopened(name, path, state.error)
        return
    try:
        with Archive(path, state.guard, inside) as archive:
            yield from in_one(name, path, entries_of(archive))
            if archive.wrong:
                yield unlisted(name, path, archive.wrong)
    except ItemError as error:
        yield unlisted(name, path, error)


def _of_zip(file: BinaryIO, place: Locator) -> Iterator[Member]:
    end = 0
    members = packed.entries(file, place, MOST)
    for member in sorted(members, key=lambda member: member.locator.offset or 0):
        start, length = member.locator.offset or 0, member.locator.length or 0
        if start < end and not member.error:
            why = "its bytes overlap another member's: get the archive again"
            member = replace(member, error=("unreadable", why))
        end = max(end, start + length)
        yield member


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


def is_tar(head: bytes) -> bool:
    """Whether the first block is the header of a tar."""
    try:
        _header(head[:BLOCK])
    except tarfile.HeaderError:
        return False
    return True


def _header(block: bytes) -> tarfile.TarInfo:
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def _of_tar(file: BinaryIO, place: Locator) -> Iterator[Member]:
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
        is_sparse = any(key.startswith("GNU.sparse.") for key in pax)
        kind = "file" if is_sparse else _kind(header)
        if header.type == tarfile.GNUTYPE_SPARSE:
            # More headers may follow a sparse one; where its data ends is not worked out.
            detail = f"a sparse member at byte {position}; what follows is not read"
            raise ItemError("unsupported", detail)
        holds_data = header.isreg() or header.type not in tarfile.SUPPORTED_TYPES
        if holds_data and start + size > total:
            detail = f"{size} bytes are promised at byte {start}, {max(total - start, 0)} are there"
            raise ItemError("truncated", detail)
        sparse = ("unsupported", "a sparse member; repack the tar without --sparse")
        length = size if holds_data else 0
        where = replace(place, offset=start, length=length)
        yield Member(packed.plain(full), kind, where, length, sparse if is_sparse else None)
        position = start + -(-length // BLOCK) * BLOCK
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


def _kind(header: tarfile.TarInfo) -> str:
    if header.isreg():
        return "file"
    if header.isdir():
        return "folder"
    if header.issym() or header.islnk():
        return "link"
    return "device" if header.isdev() else "special"
