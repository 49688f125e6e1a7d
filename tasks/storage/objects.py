"""The object store: any scheme of fsspec that can put an object exclusively (`If-None-Match: *`).

Nothing is renamed: a PUT is atomic. Many spans of objects are read at once: each request costs
about as much as a megabyte.
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
from typing import BinaryIO, cast

import pyarrow as pa

from ..base.errors import ConfigError, RunError
from . import urls
from .containment import inside
from .local import File, HashedFile, Local, Publish, ReadSpan, Span
from .store_errors import Entry, asking, files_in, protocols, state_of, store_errors, under

SHA256 = "uttermill-sha256"  # name of the hash among an object's metadata
AHEAD_BYTES = 16 << 20  # fetched at once
IN_MEMORY = 16 << 20  # bytes up to which a staged file is put from memory


def read_spans(folder: Path, wanted: Sequence[Span]) -> list[bytes | None]:
    """The bytes of spans below a folder, fetched together; see `ReadSpan`."""
    files, key = files_in(folder)
    for name in {name for name, _, _ in wanted}:
        inside(folder, name)
    paths = [f"{key}/{name}" for name, _, _ in wanted]
    low, high = [low for _, low, _ in wanted], [high for _, _, high in wanted]
    answers = files.cat_ranges(paths, low, high, on_error="return")
    return [_answer(folder, answer) for answer in answers]


def _answer(folder: Path, answer: bytes | Exception) -> bytes | None:
    if not isinstance(answer, Exception):
        return bytes(answer)
    try:
        with store_errors(folder):
            raise answer
    except FileNotFoundError:
        return None
    except RunError:
        if isinstance(answer, OSError) and answer.errno == errno.EINVAL:  # beyond the object's end
            return b""
        raise


class Objects:
    """The methods of `Local`, for objects in a bucket."""

    remote = True

    # Whole objects

    def read(self, path: Path) -> bytes:
        with asking(path) as (files, key):
            return bytes(files.cat_file(key))

    def read_all(self, folder: Path) -> dict[str, bytes]:
        with asking(folder) as (files, key):
            wanted = [f"{key}/{path.name}" for path in self.names(folder)]
            contents = files.cat(wanted) if wanted else {}
        return {posixpath.basename(name): data for name, data in contents.items()}

    def write(self, path: Path, data: bytes) -> None:
        self.put(path, data)

    @contextmanager
    def staged(self, folder: Path) -> Iterator[tuple[HashedFile, Publish]]:
        with tempfile.NamedTemporaryFile() as raw:
            handle = HashedFile(cast(BinaryIO, raw))

            def publish(name_of: Callable[[str], str]) -> Path:
                path = folder / name_of(handle.sha.hexdigest()[:16])
                raw.seek(0)
                if handle.size <= IN_MEMORY:
                    self.put(path, raw.read())
                else:
                    with asking(path) as (files, key):
                        files.put_file(raw.name, key, mode="overwrite")
                return path

            yield handle, publish

    def detach(self, path: Path) -> None:
        """Nothing: objects never share bytes."""

    def remove(self, path: Path) -> None:
        with asking(path) as (files, key), suppress(FileNotFoundError):
            files.rm_file(key)

    def remove_tree(self, folder: Path) -> None:
        with asking(folder) as (files, key):
            names = [f"{key}/{name}" for name in self.tree(folder)]
            plain = [name for name in names if not glob.has_magic(name)]  # fsspec expands others
            if plain:
                files.rm(plain)
            for name in sorted({*names} - {*plain}):
                files.rm_file(name)

    def clear(self, folder: Path) -> None:
        self.remove_tree(folder)

    # Listings

    def is_folder(self, path: Path) -> bool:
        return bool(_ls(path))

    def size(self, path: Path) -> int:
        with asking(path) as (files, key):
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
        names = (entry["name"].rstrip("/") for entry in _ls(folder, "directory"))
        return sorted(posixpath.basename(name) for name in names)

    def tree(self, folder: Path) -> list[str]:
        return sorted(under(*files_in(folder)))

    def files(self, path: Path) -> Iterator[File]:
        entries = sorted(under(*files_in(path)).items())
        for name, entry in entries:
            yield File(path / name, entry.size, str(path / name), 1)
        if not entries:
            with suppress(FileNotFoundError):
                yield File(path, self.size(path), str(path), 1)

    def guards(self, folder: Path) -> Iterator[tuple[str, str]]:
        for name, entry in under(*files_in(folder)).items():
            yield name, entry.guard

    def guard(self, path: Path) -> str:
        return ""

    def temporaries(self, folder: Path) -> Iterator[Path]:
        return iter(())

    # Parts of objects, and copies of them

    @contextmanager
    def spans(self, folder: Path, wanted: Iterable[Span]) -> Iterator[ReadSpan]:
        """Fetches the next `AHEAD_BYTES` of `wanted` at once."""
        listed = [*wanted]
        places = {span: place for place, span in enumerate(listed)}
        fetched: dict[Span, bytes | None] = {}

        def read(span: Span) -> bytes | None:
            if span not in fetched:
                ahead, size = [span], span[2] - span[1]
                for span_ahead in islice(listed, places[span] + 1, None):
                    size += span_ahead[2] - span_ahead[1]
                    if size > AHEAD_BYTES:
                        break
                    ahead.append(span_ahead)
                fetched.clear()
                fetched.update(zip(ahead, read_spans(folder, ahead), strict=True))
            return fetched[span]

        yield read

    @contextmanager
    def arrow(self, path: Path) -> Iterator[pa.NativeFile]:
        with asking(path) as (files, key):
            copy = urls.cached(files, key, state_of(files.info(key)).guard)
        with copy, pa.PythonFile(copy, "r") as file:
            yield file

    def mounted(self, place: Path) -> None:
        return None

    @contextmanager
    def reading(
        self, folder: Path, wanted: Iterable[str], scratch: Path | None = None
    ) -> Iterator[Path]:
        with _temporary(scratch) as home:
            for name in wanted:
                target = inside(home, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.fetch(inside(folder, name), target)
            yield home

    @contextmanager
    def writing(self, folder: Path, scratch: Path | None = None) -> Iterator[Path]:
        with _temporary(scratch) as home:
            yield home
            self.upload_all(home, folder)

    def fetch(self, path: Path, target: Path) -> None:
        with asking(path) as (files, key):
            files.get_file(key, str(target))

    # Before a run

    def check(self, out: Path) -> None:
        if "memory" in protocols(files_in(out)[0]):
            raise ConfigError(
                f"OUT {out} is in this process's memory, which workers cannot see; "
                "give a folder or a bucket"
            )
        probe = out / f".writable-{os.getpid()}"
        try:
            self.put(probe, b"")
            self.names(out)
            self.remove(probe)
        except FileNotFoundError as error:
            raise ConfigError(f"OUT {out} cannot be written ({error}); create the bucket") from None
        except RunError as error:
            raise ConfigError(f"cannot write to OUT: {error}") from None
        except NotImplementedError:
            raise ConfigError(f"OUT {out} is on a read-only store") from None

    def free(self, out: Path) -> None:
        return None

    # Puts objects whole and exclusively, so that no worker overwrites an existing one.

    def exists(self, path: Path) -> bool:
        with asking(path) as (files, key):
            try:
                return bool(files.info(key)["type"] == "file")
            except FileNotFoundError:
                return False

    def hashed(self, path: Path) -> tuple[str, int]:
        with (
            asking(path) as (files, key),
            files.open(key, "rb", block_size=urls.BLOCK, cache_type="readahead") as file,
        ):
            return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()

    def put(self, path: Path, data: bytes, exclusive: bool = False) -> None:
        """One atomic PUT; `exclusive`: FileExistsError if the object exists."""
        with asking(path) as (files, key):
            files.pipe_file(key, data, mode="create" if exclusive else "overwrite")

    def upload(self, source: Path, path: Path) -> None:
        """Put a local file exclusively; FileExistsError if an object with other bytes exists."""
        sha256, _ = Local().hashed(source)
        files, key = files_in(path)
        about = {"Metadata": {SHA256: sha256}} if "s3" in protocols(files) else {}
        try:
            with store_errors(path):
                files.put_file(str(source), key, mode="create", **about)
        except (FileExistsError, FileNotFoundError):
            # FileNotFoundError: the answer to a put in parts was lost, so s3fs tries to abort an
            # upload that is complete.
            if self.hashed(path)[0] != sha256:
                raise

    def upload_all(self, home: Path, folder: Path, but: Iterable[str] = ()) -> None:
        """Put all files of a local folder except `but`; RunError if a different object exists."""
        left_out = set(but)
        for path in sorted(p for p in home.rglob("*") if p.is_file()):
            name = path.relative_to(home).as_posix()
            if name in left_out:
                continue
            try:
                self.upload(path, folder / name)
            except FileExistsError:
                raise RunError(
                    f"{folder / name} already holds something else; is another run writing there?"
                ) from None

    def link(self, old: Path, new: Path, sha256: str, size: int, guard: str = "") -> bool:
        """Copies within the store, never over an existing object. If `upload` stored the hash with
        the object, hash and size are proof; otherwise the whole object is read."""
        files, key = files_in(old)
        try:
            if self.exists(new):
                return self.hashed(new) == (sha256, size)
            with store_errors(old):
                if files.info(key)["size"] != size:
                    return False
                digest = files.metadata(key).get(SHA256) if "s3" in protocols(files) else None
                if (digest or self.hashed(old)[0]) != sha256:
                    return False
                files.cp_file(key, files_in(new)[1])
        except FileNotFoundError:
            return False
        return True


def _ls(folder: Path, kind: str | None = None) -> list[Entry]:
    """fsspec's entries directly in a folder: all, or only those of type `file` or `directory`."""
    with asking(folder) as (files, key):
        try:
            entries = files.ls(key, detail=True)
        except FileNotFoundError:
            return []
    entries = [entry for entry in entries if entry["name"].rstrip("/") != key]
    if kind == "file":  # some stores list a folder as an object whose name ends in a slash
        entries = [entry for entry in entries if not entry["name"].endswith("/")]
    return [entry for entry in entries if kind in (None, entry["type"])]


@contextmanager
def _temporary(scratch: Path | None) -> Iterator[Path]:
    near = scratch if scratch is not None and scratch.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="uttermill-", dir=near) as name:
        yield Path(name)
