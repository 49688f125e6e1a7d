"""Tables of a published version, read only if their files are intact.

Parquet has no checksum here, so damage may be read as other values: files that the next version
builds on are first compared with the hashes in dataset.json.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from tasks.dataset import versions
from tasks.errors import RunError
from tasks.storage import tables

PIECE = 1 << 20  # bytes


class Proved:
    """Opens files of a version for `tables`; RunError for one that differs from what was
    published."""

    def __init__(self, version: Path) -> None:
        self.version = version
        self.files = versions.files(version)

    def __call__(self, path: Path) -> AbstractContextManager[pa.NativeFile]:
        return self._opened(path)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[pa.NativeFile]:
        with tables.arrow(path) as file:
            if not self._is_whole(path, file):
                raise RunError(differs(self.version, self.name_of(path)))
            yield file

    def is_whole(self, path: Path) -> bool:
        """Whether a file is as it was published."""
        with tables.arrow(path) as file:
            return self._is_whole(path, file)

    def name_of(self, path: Path) -> str:
        """Its name in the version."""
        return path.relative_to(self.version).as_posix()

    def _is_whole(self, path: Path, file: pa.NativeFile) -> bool:
        entry = self.files.get(self.name_of(path))
        if entry is None or file.size() != entry["bytes"]:
            return False
        state = hashlib.sha256()
        while piece := file.read_buffer(PIECE):
            state.update(piece)
        file.seek(0)
        return state.hexdigest() == entry["sha256"]


def differs(version: Path, name: str) -> str:
    """The error for a file of a version that differs from what was published."""
    return (
        f"{name} of {version.name} is not the file that was published (size or hash differs), so "
        f"no version can follow on it: put back a copy of it, or remove {version}, then the next "
        "run follows on the version before; `uttermill verify` names all that differs"
    )
