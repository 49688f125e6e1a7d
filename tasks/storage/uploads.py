"""Puts objects whole and exclusively, so that no worker overwrites an existing one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tasks.base.errors import RunError
from tasks.storage import download_cache
from tasks.storage.filesystem import files_in, protocols
from tasks.storage.local import Local
from tasks.storage.store_errors import asking, store_errors

SHA256 = "uttermill-sha256"  # name of the hash among an object's metadata


class Uploads:
    """The part of the object store that puts objects."""

    def exists(self, path: Path) -> bool:
        with asking(path) as (files, key):
            try:
                return bool(files.info(key)["type"] == "file")
            except FileNotFoundError:
                return False

    def hashed(self, path: Path) -> tuple[str, int]:
        with store_errors(path), download_cache.fetched(*files_in(path)) as file:
            digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
            return digest.hexdigest(), file.tell()

    def put(self, path: Path, data: bytes, exclusive: bool = False) -> None:
        """One atomic PUT; `exclusive`: FileExistsError if the object exists."""
        with asking(path) as (files, key):
            files.pipe_file(key, data, mode="create" if exclusive else "overwrite")

    def put_file(self, source: Path, path: Path) -> None:
        """A local file, which appears at once, as by `put`; it is not held in memory."""
        with asking(path) as (files, key):
            files.put_file(str(source), key, mode="overwrite")

    def upload(self, source: Path, path: Path) -> None:
        """Put a local file exclusively; FileExistsError if another object exists. An object with
        the same bytes is accepted: a worker that was thought dead may have put it."""
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
        """Put all files of a local folder, except some; RunError if a different object exists."""
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
        """Copies within the store, never over an existing object: a worker that wakes up late does
        not write into a version. If `upload` left the hash with the object, that and the size are
        proof, since overwriting an object overwrites its metadata. Otherwise all of it is read."""
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
