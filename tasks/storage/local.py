"""The local store: files and folders of a mounted file system."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import pyarrow as pa

from ..base.errors import ConfigError, UnsafePlace
from . import owners, regular
from .containment import OUT_FOLDERS, inside

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

OPEN = 128  # files that `spans` keeps open
LEAST_FREE = 200 << 20  # bytes that OUT's disk must have free before anything starts
#: Name below a folder, first byte, end byte.
Span = tuple[str, int, int]
#: The bytes of a span: fewer where the file is too short, None if it is gone.
ReadSpan = Callable[[Span], bytes | None]
#: Publishes a staged file; the given function makes its name from the first 16 hex digits of its
#: sha256.
Publish = Callable[[Callable[[str], str]], Path]


class HashedFile:
    """A binary file that hashes what is written to it (sequential writes only)."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.sha = hashlib.sha256()
        self.size = 0
        self.closed = False  # pyarrow reads it; the owner closes `raw`

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        self.raw.write(view)
        self.sha.update(view)
        self.size += len(view)
        return len(view)


class File(NamedTuple):
    """A file or an object. Hard links to one file share `inode`; `links` counts all of them."""

    path: Path
    size: int  # bytes; for a symbolic link of the link itself
    inode: object
    links: int


class Local:
    """Reads, writes, lists and removes files; `Objects` has the same methods for a bucket.

    Only regular files count: links and special files are neither read nor listed. Names in a folder
    may come from data (`containment.inside`). A file is replaced by a rename. A missing file or
    object raises FileNotFoundError, an object store that is unreachable or refuses access RunError.
    """

    remote = False  # each call is a request over the network

    def read(self, path: Path) -> bytes:
        with open(path, "rb", buffering=0, opener=_opened) as file:
            return file.readall()

    def read_all(self, folder: Path) -> dict[str, bytes]:
        """The bytes of every file directly in a folder, by name; for small files."""
        return {path.name: self.read(path) for path in self.names(folder)}

    def hashed(self, path: Path) -> tuple[str, int]:
        """(sha256, bytes)."""
        with open(path, "rb", buffering=0, opener=_opened) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest(), handle.tell()

    def write(self, path: Path, data: bytes) -> None:
        """Write a scratch file, which need not survive a crash."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb", opener=regular.written) as file:
            file.write(data)

    @contextmanager
    def staged(self, folder: Path) -> Iterator[tuple[HashedFile, Publish]]:
        """A file to write, and `publish`, which makes it complete and durable under its name.
        Nothing stays behind without `publish`, or on an exception."""
        folder.mkdir(parents=True, exist_ok=True)
        temp = folder / f".{secrets.token_hex(8)}.tmp"
        with temp.open("xb") as raw:  # never through a link, and with the umask's rights
            handle = HashedFile(raw)

            def publish(name_of: Callable[[str], str]) -> Path:
                raw.flush()
                os.fsync(raw.fileno())
                final = folder / name_of(handle.sha.hexdigest()[:16])
                # The folder is not synced: a power cut that undoes a rename costs work, never a
                # wrong result. A version's folders are synced when it is published.
                os.replace(temp, final)
                return final

            try:
                yield handle, publish
            finally:
                temp.unlink(missing_ok=True)

    def detach(self, path: Path) -> None:
        """Call before rewriting `path`, which may be a hard link into a published version."""
        path.unlink(missing_ok=True)

    def link(self, old: Path, new: Path, sha256: str, size: int, guard: str = "") -> bool:
        """Make `new` a link to the published file `old`, or a copy. False when `old` has changed:
        its bytes are hashed, unless a local file still has the `guard` of its publication."""
        try:
            untouched = own_guard(_regular(old)) == guard
            if not untouched and self.hashed(old) != (sha256, size):
                return False
        except OSError:
            return False
        try:
            os.link(old, new)
        except OSError:  # no folder yet, a dead worker's link, or links unsupported
            new.parent.mkdir(parents=True, exist_ok=True)
            self.detach(new)
            self.fetch(old, new)
        return True

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder with its contents, if it exists."""
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)

    def clear(self, folder: Path) -> None:
        """Remove a folder that is no longer needed, as far as that works."""
        if folder.is_symlink():  # its target is not our scratch folder
            folder.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def exists(self, path: Path) -> bool:
        with suppress(OSError):
            return bool(_regular(path))
        return False

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder; in a bucket: anything below it."""
        return path.is_dir()

    def size(self, path: Path) -> int:
        return _regular(path).st_size

    def sizes(self, folder: Path) -> Callable[[str], int]:
        """A function from the name of a file directly in a folder to its bytes, -1 if it is
        missing. It reads each once, or all by one request."""

        @cache
        def size(name: str) -> int:
            with suppress(OSError, UnsafePlace):
                return _regular(inside(folder, name)).st_size
            return -1

        return size

    def names(self, folder: Path, ending: str = "") -> list[Path]:
        """Files directly in a folder, sorted by name; none when there is no folder."""
        paths: list[Path] = []
        for entry in regular.entries(folder):
            if entry.name.endswith(ending) and entry.is_file(follow_symlinks=False):
                paths.append(folder / entry.name)
        return paths

    def folders(self, folder: Path) -> list[str]:
        """Names of the folders directly in a folder, sorted; none when there is no folder."""
        return [e.name for e in regular.entries(folder) if e.is_dir(follow_symlinks=False)]

    def tree(self, folder: Path) -> list[str]:
        """Relative names of all files below a folder, sorted."""
        return sorted(name for name, _ in _walked(folder))

    def files(self, path: Path) -> Iterator[File]:
        """All files below a folder, or the file itself."""

        def file(path: Path, status: os.stat_result) -> File:
            return File(path, status.st_size, (status.st_dev, status.st_ino), status.st_nlink)

        with suppress(FileNotFoundError):
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                yield file(path, status)
        for name, entry in _walked(path):
            with suppress(FileNotFoundError):  # removed meanwhile
                yield file(path / name, entry.stat(follow_symlinks=False))

    def guards(self, folder: Path) -> Iterator[tuple[str, str]]:
        """(relative name, guard) of all files below a folder. A guard changes whenever the bytes
        may have changed: size, times and inode of a file; size, time and ETag of an object. It is
        empty for anything but a regular file."""
        for name, entry in _walked(folder):
            with suppress(FileNotFoundError):  # a late worker's temporary file
                status = entry.stat(follow_symlinks=False)
                yield name, own_guard(status) if stat.S_ISREG(status.st_mode) else ""

    def guard(self, path: Path) -> str:
        """The guard of a file; empty if this place does not tell it without a request."""
        return own_guard(_regular(path))

    def temporaries(self, folder: Path) -> Iterator[Path]:
        """Temporary files that dead runs left below a folder."""
        if folder.is_symlink():  # the files there may be anybody's
            return iter(())
        names = (name for name, _ in _walked(folder))
        return (folder / name for name in names if is_temporary(name))

    @contextmanager
    def spans(self, folder: Path, wanted: Iterable[Span]) -> Iterator[ReadSpan]:
        """Reads spans of files below a folder; a store of objects fetches them in the order of
        `wanted`."""
        opened: dict[str, int] = {}

        def read(span: Span) -> bytes | None:
            name, low, high = span
            if name not in opened:
                if len(opened) == OPEN:
                    os.close(opened.pop(next(iter(opened))))
                try:
                    opened[name] = _opened(inside(folder, name))
                except FileNotFoundError:
                    return None
            return os.pread(opened[name], high - low, low)

        try:
            yield read
        finally:
            for file in opened.values():
                os.close(file)

    @contextmanager
    def arrow(self, path: Path) -> Iterator[pa.NativeFile]:
        """A file from which pyarrow reads parts."""
        _regular(path)
        with pa.OSFile(str(path), "rb") as file:
            yield file

    def mounted(self, place: Path) -> Path:
        """A path of this place for any program of this machine; None if there is none."""
        return place

    @contextmanager
    def reading(
        self, folder: Path, wanted: Iterable[str], scratch: Path | None = None
    ) -> Iterator[Path]:
        """A local folder with these files of `folder`: the folder itself, or a temporary copy.
        NotAFile for a pipe, which would block its reader, or a device."""
        for name in wanted:
            regular.check(inside(folder, name))
        yield folder

    @contextmanager
    def writing(self, folder: Path, scratch: Path | None = None) -> Iterator[Path]:
        """A local folder whose files end up in `folder`: the folder itself, or one to upload, in
        `scratch` if this machine has that: the next run removes what a killed one leaves there.
        RunError if another run has put a different object."""
        folder.mkdir(parents=True, exist_ok=True)
        yield folder

    def fetch(self, path: Path, target: Path) -> None:
        """Make the local file `target`: a hard link to `path`, or a copy."""
        try:
            os.link(path, target)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(path, target)

    def check(self, out: Path) -> None:
        """ConfigError if OUT cannot be written to, or has no room."""
        if out.is_file():
            raise ConfigError(f"OUT {out} is a file; name a folder, which a run makes if need be")
        try:
            out.mkdir(parents=True, exist_ok=True)
            owners.check(out)
            for folder in (out / name for name in OUT_FOLDERS):
                if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
            free = self.free(out)
        except OSError as error:
            raise ConfigError(
                f"OUT {out} cannot be written: {owners.told(error, out)}; choose another folder"
            ) from None
        if free < LEAST_FREE:
            few = f"only {free >> 20} MiB are free at {out}"
            raise ConfigError(f"{few}, and a run needs {LEAST_FREE >> 20}; free some, or move OUT")

    def free(self, out: Path) -> int:
        """Bytes; None if unknown."""
        return shutil.disk_usage(out).free


def is_temporary(name: str) -> bool:
    """Whether a file of this name is still being written (`Local.staged`)."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".tmp")


def stat_guard(status: os.stat_result) -> str:
    """`<size>-<mtime in ns>-<inode>-<ctime in ns>`: cheap proof that a source's file was not
    changed. The system updates the ctime on every change, also of a name, link or right."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}-{status.st_ctime_ns}"


def own_guard(status: os.stat_result) -> str:
    """`stat_guard` without the ctime, for files of OUT: linking them into versions changes it."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


def _opened(path: str | Path, flags: int = os.O_RDONLY) -> int:
    try:
        return regular.written(path, flags)
    except regular.NotAFile as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


def _regular(path: Path) -> os.stat_result:
    """The status of a file; anything but a regular one counts as missing."""
    try:
        return regular.status(path)
    except regular.NotAFile as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


def _walked(folder: str | Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """(relative name, entry) of all files below a folder; links are not followed."""
    for entry in regular.entries(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _walked(entry.path, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry
