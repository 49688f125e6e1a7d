"""The interface of every store, for files in folders and for objects in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .atomic import HashedFile

if TYPE_CHECKING:
    import pyarrow as pa

#: Name below a folder, first byte, end byte.
Span = tuple[str, int, int]
#: The bytes of a span: fewer where the file is too short, None if it is gone.
ReadSpan = Callable[[Span], bytes | None]
#: Publishes a staged file; the given function makes its name from the first 16 hex digits of its
#: sha256.
Publish = Callable[[Callable[[str], str]], Path]


class File(NamedTuple):
    """A file or an object. Hard links to one file share `inode`; `links` counts all of them."""

    path: Path
    size: int  # bytes; for a symbolic link of the link itself
    inode: object
    links: int


class Store(Protocol):
    """Reads, writes, lists and removes files or objects.

    Only regular files count: links and special files are neither read nor listed. Where a method
    takes a folder and names in it, the names may come from data (`containment.inside`).

    A missing file or object raises FileNotFoundError, unless stated otherwise. If an object store
    is unreachable or refuses access, every method raises RunError.
    """

    @property
    def remote(self) -> bool:
        """Whether each call is a request over the network."""

    # Whole files

    def read(self, path: Path) -> bytes: ...

    def read_all(self, folder: Path) -> dict[str, bytes]:
        """The bytes of every file directly in a folder, by name; for small files."""

    def hashed(self, path: Path) -> tuple[str, int]:
        """(sha256, bytes) of a file, read in blocks."""

    def write(self, path: Path, data: bytes) -> None:
        """Write a scratch file for this run only: it need not survive a crash."""

    def staged(self, folder: Path) -> AbstractContextManager[tuple[HashedFile, Publish]]:
        """A file to write, and `publish`, which makes it complete and durable under its name.

        Nothing stays behind without `publish`, or on an exception.
        """

    def detach(self, path: Path) -> None:
        """Call before rewriting `path`, which may be a hard link into a published version."""

    def link(self, old: Path, new: Path, sha256: str, size: int, guard: str = "") -> bool:
        """Make `new` a link to the published file `old`, or a copy where links are impossible.

        False when `old` has changed: its bytes are hashed, so that damage does not spread. A local
        file that still has the `guard` of its publication (see `guards`) is trusted without reading
        it.
        """

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder with its contents, if it exists."""

    def clear(self, folder: Path) -> None:
        """Remove a folder that is no longer needed, as far as that works."""

    # Listings

    def exists(self, path: Path) -> bool:
        """Whether the file exists."""

    def is_folder(self, path: Path) -> bool:
        """Whether the folder exists; in a bucket: whether anything lies below it."""

    def size(self, path: Path) -> int:
        """Bytes of a file."""

    def sizes(self, folder: Path) -> Callable[[str], int]:
        """A function from the name of a file directly in a folder to its bytes; -1 if it is
        missing.

        Sizes are read once for each file, or for all files by one request.
        """

    def names(self, folder: Path, ending: str = "") -> list[Path]:
        """Files directly in a folder, sorted by name; none when there is no folder."""

    def folders(self, folder: Path) -> list[str]:
        """Names of the folders directly in a folder, sorted; none when there is no folder."""

    def tree(self, folder: Path) -> list[str]:
        """Relative names of all files below a folder, sorted."""

    def files(self, path: Path) -> Iterator[File]:
        """All files below a folder, or the file itself."""

    def guards(self, folder: Path) -> Iterator[tuple[str, str]]:
        """(relative name, guard) of all files below a folder.

        A guard changes whenever the bytes may have changed: size, times and inode of a file; size,
        time and ETag of an object. It is empty for anything but a regular file.
        """

    def temporaries(self, folder: Path) -> Iterator[Path]:
        """Temporary files that dead runs left below a folder."""

    # Parts of files, and files for libraries that read local ones

    def spans(self, folder: Path, wanted: Iterable[Span]) -> AbstractContextManager[ReadSpan]:
        """Reads spans of files below a folder, best in the order of `wanted`, which only a store of
        objects looks at."""

    def arrow(self, path: Path) -> AbstractContextManager[pa.NativeFile]:
        """A file from which pyarrow reads parts."""

    def mounted(self, place: Path) -> Path | None:
        """A path at which any program of this machine can read a file or folder in place; None if
        there is none."""

    def local(self, path: Path) -> Path:
        """A local path; for an object, of a copy that lasts as long as this process."""

    def reading(
        self, folder: Path, wanted: Iterable[str], scratch: Path | None = None
    ) -> AbstractContextManager[Path]:
        """A local folder with these files of `folder`: the folder itself, or a temporary copy."""

    def writing(self, folder: Path, scratch: Path | None = None) -> AbstractContextManager[Path]:
        """A local folder whose files end up in `folder`: the folder itself, or one to upload.

        Temporary copies lie in `scratch`, if this machine has that folder: the next run removes
        what a killed one leaves there. RunError if another run has put a different object.
        """

    def fetch(self, path: Path, target: Path) -> None:
        """Make the local file `target`: a hard link to `path`, or a copy."""

    # Before a run

    def check(self, out: Path) -> None:
        """ConfigError if OUT cannot be written to, or has no room."""

    def free(self, out: Path) -> int | None:
        """Bytes free at OUT; None if unknown."""
