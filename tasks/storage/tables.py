"""Parquet and Arrow files of any place, for pyarrow; of a remote object, a local copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import storage


def arrow(path: Path) -> AbstractContextManager[Any]:
    """A file that pyarrow reads parts of; of a remote object, a copy of it as it is now."""
    return storage.of(path).arrow(path)


@contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """An Arrow file in a local folder, whose record batches are read one by one."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as out:
        yield out


def read(path: Path, **options: Any) -> pa.Table:
    """`pyarrow.parquet.read_table` of a place; a local one may be a folder of parts."""
    if isinstance(path, Path):
        return pq.read_table(path, **options)
    with arrow(path) as file:
        return pq.read_table(file, **options)


def schema(path: Path) -> pa.Schema:
    """`pyarrow.parquet.read_schema` of a place."""
    with arrow(path) as file:
        return pq.read_schema(file)


def local(path: Path) -> Path:
    """A path for readers that want one; of a remote object, a copy that lasts as the process."""
    return storage.of(path).local(path)
