"""Parquet and Arrow files of any place, for pyarrow; of a remote object, a local copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.storage import asked, copies, files_in, is_remote, seen


@contextmanager
def arrow(path: Path) -> Iterator[Any]:
    """A file that pyarrow reads parts of; of a remote object, a copy of it as it is now."""
    if not is_remote(path):
        with pa.OSFile(str(path), "rb") as file:
            yield file
        return
    files, key = files_in(path)
    with asked(path):
        held = copies.held(files, key, seen(files.info(key)).mark)
    with held, pa.PythonFile(held, "r") as file:
        yield file


@contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """An Arrow file in a local folder, whose record batches are read one by one."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as out:
        yield out


def read(path: Path, **options: Any) -> pa.Table:
    """`pyarrow.parquet.read_table` of a place."""
    if not is_remote(path):
        return pq.read_table(path, **options)
    with arrow(path) as file:
        return pq.read_table(file, **options)


def schema(path: Path) -> pa.Schema:
    """`pyarrow.parquet.read_schema` of a place."""
    if not is_remote(path):
        return pq.read_schema(path)
    with arrow(path) as file:
        return pq.read_schema(file)


def local(path: Path) -> Path:
    """A path for readers that want one; of a remote object, a copy that lasts as the process."""
    if not is_remote(path):
        return path
    files, key = files_in(path)
    with asked(path):
        return copies.kept(files, key, seen(files.info(key)).mark)
