"""Local folders for code that knows no others, with their files put to or fetched from a store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks import storage
from tasks.errors import RunError
from tasks.storage import asked, files_in, is_remote


@contextmanager
def writing(folder: Path, scratch: Path | None = None) -> Iterator[Path]:
    """A local folder whose files are in `folder` afterwards: itself, or one that is uploaded.

    `scratch` is where copies lie meanwhile, where there is such a folder on this machine: the next
    run removes what a killed one leaves there. RunError where another run has put another object.
    """
    if not is_remote(folder):
        yield folder
        return
    with _folder(scratch) as home:
        yield home
        uploaded(home, folder)


@contextmanager
def _folder(scratch: Path | None) -> Iterator[Path]:
    near = scratch if scratch is not None and scratch.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="uttermill-", dir=near) as made:
        yield Path(made)


def uploaded(home: Path, folder: Path, but: Iterable[str] = ()) -> None:
    """Put all files of a local folder, but for some, into a remote one, where nothing is yet."""
    left_out = set(but)
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        name = path.relative_to(home).as_posix()
        if name not in left_out:
            try:
                storage.upload(path, folder / name, storage.hashed(path)[0])
            except FileExistsError:
                raise RunError(
                    f"{folder / name} holds something else already; does another run write there?"
                ) from None


@contextmanager
def reading(folder: Path, wanted: Iterable[str], scratch: Path | None = None) -> Iterator[Path]:
    """A local folder with these files of `folder`: itself, or a copy for as long as this lasts."""
    if not is_remote(folder):
        yield folder
        return
    with _folder(scratch) as home:
        for name in wanted:
            download(folder / name, home / name)
        yield home


def download(path: Path, target: Path) -> None:
    files, key = files_in(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with asked(path):
        files.get_file(key, str(target))
