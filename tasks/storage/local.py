"""The local store: files and folders of a mounted file system."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import pyarrow as pa

from ..base.errors import ConfigError, UnsafePlace
from . import atomic, owners, probe, regular
from .atomic import HashedFile
from .containment import OUT_FOLDERS, inside
from .store import File, Publish, ReadSpan, Span

OPEN = 128  # files that `spans` keeps open
LEAST_FREE = 200 << 20  # bytes that OUT's disk must have free before anything starts


class Local:
    """See `Store`. A file is replaced by a rename, so readers see the old one or the new one."""

    remote = False

    def read(self, path: Path) -> bytes:
        with open(path, "rb", buffering=0, opener=_opened) as file:
            return file.readall()

    def read_all(self, folder: Path) -> dict[str, bytes]:
        return {path.name: self.read(path) for path in self.names(folder)}

    def hashed(self, path: Path) -> tuple[str, int]:
        with open(path, "rb", buffering=0, opener=_opened) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest(), handle.tell()

    def write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb", opener=regular.written) as file:
            file.write(data)

    def staged(self, folder: Path) -> AbstractContextManager[tuple[HashedFile, Publish]]:
        return atomic.staged(folder)

    def detach(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def link(self, old: Path, new: Path, sha256: str, size: int, guard: str = "") -> bool:
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
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)

    def clear(self, folder: Path) -> None:
        if folder.is_symlink():  # its target is not our scratch folder
            folder.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def exists(self, path: Path) -> bool:
        with suppress(OSError):
            return bool(_regular(path))
        return False

    def is_folder(self, path: Path) -> bool:
        return path.is_dir()

    def size(self, path: Path) -> int:
        return _regular(path).st_size

    def sizes(self, folder: Path) -> Callable[[str], int]:
        @cache
        def size(name: str) -> int:
            with suppress(OSError, UnsafePlace):
                return _regular(inside(folder, name)).st_size
            return -1

        return size

    def names(self, folder: Path, ending: str = "") -> list[Path]:
        entries = (e for e in _scanned(folder) if e.name.endswith(ending))
        names = (e.name for e in entries if e.is_file(follow_symlinks=False))
        return [folder / name for name in sorted(names)]

    def folders(self, folder: Path) -> list[str]:
        return sorted(
            entry.name for entry in _scanned(folder) if entry.is_dir(follow_symlinks=False)
        )

    def tree(self, folder: Path) -> list[str]:
        return sorted(name for name, _ in _walked(folder))

    def files(self, path: Path) -> Iterator[File]:
        with suppress(FileNotFoundError):
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                yield _file(path, status)
        for name, entry in _walked(path):
            with suppress(FileNotFoundError):  # removed meanwhile
                yield _file(path / name, entry.stat(follow_symlinks=False))

    def guards(self, folder: Path) -> Iterator[tuple[str, str]]:
        for name, entry in _walked(folder):
            with suppress(FileNotFoundError):  # a late worker's temporary file
                status = entry.stat(follow_symlinks=False)
                yield name, own_guard(status) if stat.S_ISREG(status.st_mode) else ""

    def temporaries(self, folder: Path) -> Iterator[Path]:
        if folder.is_symlink():  # the files there may be anybody's
            return iter(())
        names = (name for name, _ in _walked(folder))
        return (folder / name for name in names if is_temporary(name))

    @contextmanager
    def spans(self, folder: Path, wanted: Iterable[Span]) -> Iterator[ReadSpan]:
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
        _regular(path)
        with pa.OSFile(str(path), "rb") as file:
            yield file

    def mounted(self, place: Path) -> Path:
        return place

    def local(self, path: Path) -> Path:
        return path

    @contextmanager
    def reading(
        self, folder: Path, wanted: Iterable[str], scratch: Path | None = None
    ) -> Iterator[Path]:
        for name in wanted:
            inside(folder, name)
        yield folder

    @contextmanager
    def writing(self, folder: Path, scratch: Path | None = None) -> Iterator[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder

    def fetch(self, path: Path, target: Path) -> None:
        try:
            os.link(path, target)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(path, target)

    def check(self, out: Path) -> None:
        try:
            out.mkdir(parents=True, exist_ok=True)
            probe.check(out)
            for folder in (out / name for name in OUT_FOLDERS):
                if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
            free = self.free(out)
        except OSError as error:
            raise ConfigError(
                f"OUT {out} cannot be written: {owners.told(error, out)}; choose another folder"
            ) from None
        if free < LEAST_FREE:
            raise ConfigError(f"only {free >> 20} MiB are free at {out}; free some, or move OUT")

    def free(self, out: Path) -> int:
        return shutil.disk_usage(out).free


def is_temporary(name: str) -> bool:
    """Whether a file of this name is still being written (`tasks.storage.atomic`)."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".tmp")


def stat_guard(status: os.stat_result) -> str:
    """`<size>-<mtime in ns>-<inode>-<ctime in ns>` of a source's file: cheap proof that it was not
    changed. The ctime cannot be set back; the system updates it on every change, also of a name,
    link or right, which changes no bytes."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}-{status.st_ctime_ns}"


def own_guard(status: os.stat_result) -> str:
    """`stat_guard` without the ctime, for files of OUT: linking them into versions changes it."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


@contextmanager
def _or_missing(path: str | Path) -> Iterator[None]:
    """Treat anything but a regular file as missing: a link may lead anywhere, and reading a pipe or
    a device may never end."""
    try:
        yield
    except regular.NotAFile as error:
        raise FileNotFoundError(errno.ENOENT, str(error), str(path)) from None


def _opened(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """A file descriptor for reading."""
    with _or_missing(path):
        return regular.written(path, flags)


def _regular(path: Path) -> os.stat_result:
    with _or_missing(path):
        return regular.status(path)


def _file(path: Path, status: os.stat_result) -> File:
    inode = status.st_dev, status.st_ino
    return File(path, status.st_size, inode, status.st_nlink)


def _scanned(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _walked(folder: str | Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """(relative name, entry) of all files below a folder; links are not followed."""
    for entry in _scanned(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _walked(entry.path, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry
