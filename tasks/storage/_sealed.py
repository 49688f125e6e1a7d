"""Publication on an object store, where nothing can be renamed.

datasets/v0002/…               put object by object; a version exists once its dataset.json does
datasets/v0002/dataset.json    the seal, put last and exclusively: one run publishes a number
datasets/latest                names the newest version, put after it

Every object of a version is put exclusively, so a worker that was thought dead overwrites nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks import storage
from tasks.base.errors import RunError
from tasks.base.json_types import PublishedEntry
from tasks.base.schema import DATASET_FILE
from tasks.storage import lock
from tasks.storage.containment import LATEST
from tasks.storage.objects import Objects

VERSION = re.compile(r"v[0-9]{4,}")  # name of a version's folder


def named(latest: Path) -> str | None:
    """The version whose name an object holds, or a small file."""
    try:
        name = storage.read_bounded(latest).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return name if VERSION.fullmatch(name) else None


class Sealed:
    """See `publication.Renamed`."""

    def __init__(self) -> None:
        self.store = Objects()

    def complete(self, version: Path) -> bool:
        return self.store.exists(version / DATASET_FILE)

    def staging(self, version: Path) -> Path:
        return version  # `clean` emptied it: a worker cannot tell whether OUT's lock is lost

    @contextmanager
    def finishing(
        self,
        staging: Path,
        read: Iterable[str],
        sizes: Mapping[str, int | None],
        scratch: Path | None,
    ) -> Iterator[Path]:
        with self.store.reading(staging, read, scratch) as home:
            for folder in {(home / name).parent for name in sizes}:
                folder.mkdir(parents=True, exist_ok=True)
            for name, size in sizes.items():
                if size is not None and not (home / name).exists():
                    with (home / name).open("wb") as file:
                        file.truncate(size)
            yield home

    def publish(
        self, version: Path, staging: Path, finished: Path, staged: Collection[str]
    ) -> None:
        out = version.parent.parent
        seal = (finished / DATASET_FILE).read_bytes()
        files: dict[str, PublishedEntry] = json.loads(seal)["files"]
        self.store.upload_all(finished, version, but={*staged, DATASET_FILE})
        self._check(version, files, new=files.keys() - {*staged})
        lock.check(out)
        try:
            self.store.put(version / DATASET_FILE, seal, exclusive=True)
        except FileExistsError:
            # After a lost answer, the library puts again and meets its own object.
            if self.store.read(version / DATASET_FILE) != seal:
                raise RunError(
                    f"another run has published {version.name} meanwhile; nothing was changed: "
                    "run it again"
                ) from None
        try:
            self._check(version, {**files, DATASET_FILE: {"bytes": len(seal)}}, new=())
        except RunError:  # the run that holds OUT now has begun the same number
            with suppress(FileNotFoundError):
                # Else that run has published it.
                if self.store.read(version / DATASET_FILE) == seal:
                    self.store.remove(version / DATASET_FILE)
            raise

    def _check(
        self, version: Path, files: Mapping[str, PublishedEntry], new: Iterable[str]
    ) -> None:
        """RunError if the store does not hold exactly `files`; `new` ones are read back."""
        present = {
            file.path.relative_to(version).as_posix(): file.size
            for file in self.store.files(version)
        }
        wanted = {name: entry["bytes"] for name, entry in files.items()}
        faults = sorted(
            name for name in {*present, *wanted} if present.get(name) != wanted.get(name)
        )
        for name in new:
            if name in present and self.store.hashed(version / name)[0] != files[name]["sha256"]:
                faults.append(name)
        if faults:
            raise RunError(
                f"{version} does not hold what was written ({', '.join(faults[:3])}); does another "
                "run write there? run it again"
            )

    def latest(self, home: Path) -> Path | None:
        name = named(home / LATEST)
        return home / name if name else None

    def check(self, home: Path) -> None:
        """An object is replaced, whatever it holds."""

    def point(self, home: Path, version: Path) -> None:
        if self.latest(home) != version:
            self.store.put(home / LATEST, version.name.encode())

    def follow(self, path: Path) -> Path:
        return self.latest(path.parent) or path if path.name == LATEST else path

    def clean(self, home: Path) -> None:
        lock.check(home.parent)
        for path in self.leftovers(home):
            self.store.remove_tree(path)

    def leftovers(self, home: Path) -> Iterator[Path]:
        for name in self.store.folders(home):
            if VERSION.fullmatch(name) and not self.complete(home / name):
                yield home / name

    def withdraw(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            self.store.remove(folder / DATASET_FILE)
            self.store.remove_tree(folder)
