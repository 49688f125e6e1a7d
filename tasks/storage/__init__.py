"""Storage: folders and object stores with the same methods; `store_of` gives that of a place.

    urls        a place: a path or a URL        local, objects          the two stores
    lock        one run at a time in an OUT     store_errors            talking to object stores
    containment names from data                 `inside`: the one way from such a name to a place
    regular     files, and nothing else         tables                  Parquet and Arrow files
    owners      what the system refuses         temporary               folders that go again
    bounds      memory for foreign lists

A store takes full places; the functions here do what methods of these names do (`local.Local`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..base.errors import ConfigError, RunError, UnsafePlace
from ..base.json_types import parsed
from .bounds import MAX_JSON_BYTES
from .containment import check_name as check_name
from .containment import inside as inside
from .local import File, Local, Span
from .objects import Objects
from .store_errors import Archived
from .store_errors import Away as Away
from .urls import is_url, place

LOCAL = Local()
OBJECTS = Objects()
Result = TypeVar("Result")


def store_of(path: Path) -> Local | Objects:
    return LOCAL if isinstance(path, Path) else OBJECTS


def read(path: Path) -> bytes:
    return store_of(path).read(path)


def read_bounded(path: Path) -> bytes:
    """A small file or object, which may come from others. ValueError if it is too large."""
    if not store_of(path).remote and store_of(path).size(path) > MAX_JSON_BYTES:
        raise ValueError(f"{path} has more than {MAX_JSON_BYTES >> 20} MiB")
    return read(path)


def read_json(path: Path) -> Any:
    """The JSON in such a file; ValueError also if it is invalid."""
    return parsed(read_bounded(path))


def hashed(path: Path) -> tuple[str, int]:
    return store_of(path).hashed(path)


def remove(path: Path) -> None:
    store_of(path).remove(path)


def names(folder: Path, ending: str = "") -> list[Path]:
    return store_of(folder).names(folder, ending)


def exists(path: Path) -> bool:
    return store_of(path).exists(path)


def is_folder(path: Path) -> bool:
    return store_of(path).is_folder(path)


def refuse_links(folder: Path) -> None:
    """UnsafePlace for anything below a folder but files and folders."""
    store = store_of(folder)
    for name, guard in () if store.remote else store.guards(folder):
        if not guard:
            raise UnsafePlace(
                f"{folder / name} is a link or not a file; uttermill never writes one there: "
                f"remove it"
            )


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file that gets its name only once it is complete and durable."""
    with store_of(path).staged(path.parent) as (handle, publish):
        handle.write(data)
        publish(lambda _: path.name)


def query(path: Path, what: Callable[[Path], Result]) -> Result:
    """`what(path)`, for commands that only read: ConfigError if the store cannot be reached."""
    try:
        return what(path)
    except RunError as error:
        raise ConfigError(str(error)) from None
