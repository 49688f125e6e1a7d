"""The object store: any scheme of fsspec that can put an object exclusively.

Nothing is renamed there: a PUT is atomic, and an object that must not exist yet is put with
`If-None-Match: *`.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from tasks.errors import ConfigError, RunError
from tasks.storage import copies
from tasks.storage.answers import asked, seen, under
from tasks.storage.atomic import HashedFile
from tasks.storage.store import File, Publish, ReadSpan, Span

SHA256 = "uttermill-sha256"  # name of the hash among an object's metadata
AHEAD_BYTES = 16 << 20  # that `spans` fetches at once


class Objects:
    """See `Store`."""

    remote = True

    # Whole objects

    def read(self, path: Path) -> bytes:
        files, key = files_in(path)
        with asked(path):
            data: bytes = files.cat_file(key)
            return data

    def read_all(self, folder: Path) -> dict[str, bytes]:
        files, key = files_in(folder)
        wanted = [f"{key}/{path.name}" for path in self.names(folder)]
        with asked(folder):
            found = files.cat(wanted) if wanted else {}
        return {posixpath.basename(name): data for name, data in found.items()}

    def hashed(self, path: Path) -> tuple[str, int]:
        with asked(path), copies.fetched(*files_in(path)) as file:
            digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
            return digest.hexdigest(), file.tell()

    def put(self, path: Path, data: bytes, exclusive: bool = False) -> None:
        """One atomic PUT; `exclusive`: FileExistsError where the object exists."""
        files, key = files_in(path)
        with asked(path):
            files.pipe_file(key, data, mode="create" if exclusive else "overwrite")

    def write(self, path: Path, data: bytes) -> None:
        self.put(path, data)

    @contextmanager
    def staged(self, folder: Path) -> Iterator[tuple[HashedFile, Publish]]:
        with tempfile.TemporaryFile() as raw:
            handle = HashedFile(cast(BinaryIO, raw))

            def publish(name_of: Callable[[str], str]) -> Path:
                path = folder / name_of(handle.name)
                raw.seek(0)
                self.put(path, raw.read())
                return path

            yield handle, publish

    def detach(self, path: Path) -> None:
        """Nothing: an object is complete if it is there, and no object shares another's bytes."""

    def upload(self, source: Path, path: Path) -> None:
        """Put a local file exclusively; FileExistsError where something else is there.

        The same bytes do no harm: of a worker that was thought dead, say.
        """
        sha256 = _hash_of(source)
        files, key = files_in(path)
        about = {"Metadata": {SHA256: sha256}} if "s3" in _protocols(files) else {}
        try:
            with asked(path):
                files.put_file(str(source), key, mode="create", **about)
        except (FileExistsError, FileNotFoundError):
            # FileNotFoundError: the answer to a put in parts was lost, so s3fs tries to abort an
            # upload that is complete.
            if self.hashed(path)[0] != sha256:
                raise

    def upload_all(self, home: Path, folder: Path, but: Iterable[str] = ()) -> None:
        """Put all files of a local folder, except some, where nothing is yet; RunError else."""
        left_out = set(but)
        for path in sorted(p for p in home.rglob("*") if p.is_file()):
            name = path.relative_to(home).as_posix()
            if name in left_out:
                continue
            try:
                self.upload(path, folder / name)
            except FileExistsError:
                raise RunError(
                    f"{folder / name} holds something else already; does another run write there?"
                ) from None

    def link(self, old: Path, new: Path, sha256: str, size: int) -> bool:
        """Copies within the store, and never over an object that is there: a worker that wakes up
        late does not write into a version.

        Where `upload` left the hash with the object, that and the size are proof, since whoever
        writes over an object writes over its metadata. Otherwise all of it is read.
        """
        files, key = files_in(old)
        try:
            if self.exists(new):
                return self.hashed(new) == (sha256, size)
            with asked(old):
                if files.info(key)["size"] != size:
                    return False
                known = files.metadata(key).get(SHA256) if "s3" in _protocols(files) else None
                if (known or self.hashed(old)[0]) != sha256:
                    return False
                files.cp_file(key, files_in(new)[1])
        except FileNotFoundError:
            return False
        return True

    def remove(self, path: Path) -> None:
        files, key = files_in(path)
        with asked(path), suppress(FileNotFoundError):
            files.rm_file(key)

    def remove_tree(self, folder: Path) -> None:
        files, key = files_in(folder)
        names = [f"{key}/{name}" for name in self.tree(folder)]
        plain = [name for name in names if not glob.has_magic(name)]  # fsspec expands the others
        with asked(folder):
            if plain:
                files.rm(plain)
            for name in sorted({*names} - {*plain}):
                files.rm_file(name)

    def clear(self, folder: Path) -> None:
        self.remove_tree(folder)

    # Listings

    def exists(self, path: Path) -> bool:
        files, key = files_in(path)
        with asked(path):
            try:
                return bool(files.info(key)["type"] == "file")
            except FileNotFoundError:
                return False

    def still_exists(self, path: Path) -> bool:
        return True

    def is_folder(self, path: Path) -> bool:
        return bool(_ls(path))

    def size(self, path: Path) -> int:
        files, key = files_in(path)
        with asked(path):
            return int(files.info(key)["size"] or 0)

    def sizes(self, folder: Path) -> Callable[[str], int]:
        @cache
        def found() -> dict[str, int]:
            return {posixpath.basename(e["name"]): int(e["size"]) for e in _ls(folder, "file")}

        return lambda name: found().get(name, -1)

    def names(self, folder: Path, ending: str = "") -> list[Path]:
        names = sorted(posixpath.basename(entry["name"]) for entry in _ls(folder, "file"))
        return [folder / name for name in names if name.endswith(ending)]

    def folders(self, folder: Path) -> list[str]:
        found = (entry["name"].rstrip("/") for entry in _ls(folder, "directory"))
        return sorted(posixpath.basename(name) for name in found)

    def tree(self, folder: Path) -> list[str]:
        return sorted(under(*files_in(folder)))

    def files(self, path: Path) -> Iterator[File]:
        found = sorted(under(*files_in(path)).items())
        for name, entry in found:
            yield File(path / name, entry.size, str(path / name), 1)
        if not found:
            with suppress(FileNotFoundError):
                yield File(path, self.size(path), str(path), 1)

    def guards(self, folder: Path) -> Iterator[tuple[str, str]]:
        for name, entry in under(*files_in(folder)).items():
            yield name, entry.mark

    def temporaries(self, folder: Path) -> Iterator[Path]:
        return iter(())

    # Parts of objects, and copies of them

    @contextmanager
    def spans(self, folder: Path, wanted: Sequence[Span]) -> Iterator[ReadSpan]:
        """Fetches the next `AHEAD_BYTES` of `wanted` at once."""
        places = {span: at for at, span in enumerate(wanted)}
        fetched: dict[Span, bytes | None] = {}

        def read(span: Span) -> bytes | None:
            if span not in fetched:
                ahead, size = [span], span[2] - span[1]
                for each in islice(wanted, places[span] + 1, None):
                    size += each[2] - each[1]
                    if size > AHEAD_BYTES:
                        break
                    ahead.append(each)
                fetched.clear()
                fetched.update(zip(ahead, ranges(folder, ahead), strict=True))
            return fetched[span]

        yield read

    @contextmanager
    def arrow(self, path: Path) -> Iterator[Any]:
        files, key = files_in(path)
        with asked(path):
            copy = copies.cached(files, key, seen(files.info(key)).mark)
        with copy, pa.PythonFile(copy, "r") as file:
            yield file

    def local(self, path: Path) -> Path:
        files, key = files_in(path)
        with asked(path):
            return copies.kept(files, key, seen(files.info(key)).mark)

    @contextmanager
    def reading(
        self, folder: Path, wanted: Iterable[str], scratch: Path | None = None
    ) -> Iterator[Path]:
        with _temporary(scratch) as home:
            for name in wanted:
                target = home / name
                target.parent.mkdir(parents=True, exist_ok=True)
                self.fetch(folder / name, target)
            yield home

    @contextmanager
    def writing(self, folder: Path, scratch: Path | None = None) -> Iterator[Path]:
        with _temporary(scratch) as home:
            yield home
            self.upload_all(home, folder)

    def fetch(self, path: Path, target: Path) -> None:
        files, key = files_in(path)
        with asked(path):
            files.get_file(key, str(target))

    # Before a run

    def check(self, out: Path) -> None:
        if "memory" in _protocols(files_in(out)[0]):
            raise ConfigError(f"OUT {out} is seen by one process alone; workers are others")
        probe = out / f".writable-{os.getpid()}"
        try:
            self.put(probe, b"")
            self.names(out)
            self.remove(probe)
        except FileNotFoundError as error:
            raise ConfigError(f"OUT {out} cannot be written ({error}); make the bucket") from None
        except RunError as error:
            raise ConfigError(f"OUT cannot be written: {error}") from None
        except NotImplementedError:
            raise ConfigError(f"OUT {out} is on a store that can only be read") from None

    def free(self, out: Path) -> None:
        return None


def files_in(path: Path) -> tuple[Any, str]:
    """fsspec's file system of a remote place, and the path in it."""
    remote = cast(Any, path)
    return remote.fs, str(remote.path).rstrip("/")


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


def _hash_of(source: Path) -> str:
    with source.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ls(folder: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """fsspec's entries right in a folder: all, or those of kind `file` or `directory`."""
    files, key = files_in(folder)
    with asked(folder):
        try:
            found: list[dict[str, Any]] = files.ls(key, detail=True)
        except FileNotFoundError:
            return []
    found = [entry for entry in found if entry["name"].rstrip("/") != key]
    if kind == "file":  # some stores list a folder as an object whose name ends in a slash
        found = [entry for entry in found if not entry["name"].endswith("/")]
    return [entry for entry in found if kind in (None, entry["type"])]


def ranges(folder: Path, wanted: Sequence[Span]) -> list[bytes | None]:
    """Bytes of spans below a folder, all at once; see `ReadSpan`."""
    files, key = files_in(folder)
    paths = [f"{key}/{name}" for name, _, _ in wanted]
    low, high = [low for _, low, _ in wanted], [high for _, _, high in wanted]
    found = files.cat_ranges(paths, low, high, on_error="return")
    return [_answer(folder, each) for each in found]


def _answer(folder: Path, found: Any) -> bytes | None:
    if not isinstance(found, Exception):
        return bytes(found)
    try:
        with asked(folder):
            raise found
    except FileNotFoundError:
        return None
    except RunError:
        if isinstance(found, OSError) and found.errno == errno.EINVAL:  # beyond the object's end
            return b""
        raise


@contextmanager
def _temporary(scratch: Path | None) -> Iterator[Path]:
    near = scratch if scratch is not None and scratch.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="uttermill-", dir=near) as made:
        yield Path(made)
