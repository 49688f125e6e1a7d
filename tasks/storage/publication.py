"""Makes a folder appear as a whole: by one rename on a file system, by a seal on an object store.

`versions.py` decides what is published; `Renamed` and `Sealed`, with the same methods, publish it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import storage
from ..base.errors import ConfigError, RunError
from ..base.json_types import PublishedEntry
from ..base.schema import DATASET_FILE
from . import lock
from .containment import LATEST
from .objects import Objects
from .regular import fsync

VERSION = re.compile(r"v[0-9]{4,}")  # name of a version's folder

STAGING = ".staging"
ASIDE = ".pruned-"  # prefix of the name of a folder that is being removed


def sizes(version: Path) -> dict[str, int]:
    """Bytes of the files that a version has now, by name."""
    files = storage.store_of(version).files(version)
    return {file.path.relative_to(version).as_posix(): file.size for file in files}


def named(latest: Path) -> str | None:
    """The name of a version that an object or a small file holds; None if it holds none."""
    try:
        name = storage.read_bounded(latest).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return name if VERSION.fullmatch(name) else None


class Sealed:
    """Publishes versions on an object store, where nothing can be renamed; methods as of `Renamed`.

    datasets/v0002/…               put object by object; exists once its dataset.json does
    datasets/v0002/dataset.json    the seal, put last and exclusively: one run publishes a number
    datasets/latest                names the newest version, put after it

    Every object of a version is put exclusively, so a worker wrongly taken for dead overwrites
    nothing.
    """

    def __init__(self) -> None:
        self.store = Objects()

    def complete(self, version: Path) -> bool:
        return self.store.exists(version / DATASET_FILE)

    def staging(self, version: Path) -> Path:
        return version  # `clean` emptied it; workers cannot check OUT's lock

    @contextmanager
    def finishing(
        self,
        staging: Path,
        read: Iterable[str],
        sizes: Mapping[str, int | None],
        scratch: Path | None,
    ) -> Iterator[Path]:
        with self.store.reading(staging, read, scratch) as home:
            for name, size in sizes.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
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
            # After a lost answer, the library repeats the put and meets its own object.
            if self.store.read(version / DATASET_FILE) != seal:
                raise RunError(
                    f"another run has published {version.name} in the meantime; nothing was "
                    f"changed: run it again"
                ) from None
        try:
            self._check(version, {**files, DATASET_FILE: {"bytes": len(seal)}}, new=())
        except RunError:  # the run that holds OUT now writes the same version
            with suppress(FileNotFoundError):
                # Otherwise that run has published it.
                if self.store.read(version / DATASET_FILE) == seal:
                    self.store.remove(version / DATASET_FILE)
            raise

    def restore(self, version: Path, restored: Mapping[str, Path]) -> None:
        lock.check(version.parent.parent)
        for name, path in restored.items():
            self.store.put(version / name, storage.read(path))

    def _check(
        self, version: Path, files: Mapping[str, PublishedEntry], new: Iterable[str]
    ) -> None:
        """RunError unless the store holds exactly `files`; `new` ones are read back and hashed."""
        present = sizes(version)
        wanted = {name: entry["bytes"] for name, entry in files.items()}
        faults = sorted(
            name for name in {*present, *wanted} if present.get(name) != wanted.get(name)
        )
        for name in new:
            if name in present and self.store.hashed(version / name)[0] != files[name]["sha256"]:
                faults.append(name)
        if faults:
            raise RunError(
                f"{version} does not hold what was written ({', '.join(faults[:3])}); is another "
                f"run writing there? run it again"
            )

    def latest(self, home: Path) -> Path | None:
        name = named(home / LATEST)
        return home / name if name else None

    def check(self, home: Path) -> None:
        """Nothing to check: an object is replaced, whatever it holds."""

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


class Renamed:
    """Publishes versions, folders of OUT/datasets, on a file system. Only while holding OUT's lock.

    datasets/.staging/     being written
    datasets/v0001/        the staging folder, renamed once everything in it is durable
    datasets/latest        a link to the newest version, replaced last; without links in this file
                           system a file that holds its name
    """

    def complete(self, version: Path) -> bool:
        """Whether a version's folder is published."""
        return True

    def staging(self, version: Path) -> Path:
        """The folder in which a version is prepared, created empty."""
        staging = version.with_name(STAGING)
        storage.LOCAL.clear(staging)
        staging.mkdir(parents=True)
        return staging

    @contextmanager
    def finishing(
        self,
        staging: Path,
        read: Iterable[str],
        sizes: Mapping[str, int | None],
        scratch: Path | None,
    ) -> Iterator[Path]:
        """A local folder in which the last files of a version are written.

        It holds the staged files `read`, the folders of all files in `sizes`, and placeholders for
        the files with a size in `sizes`, of that many bytes.
        """
        yield staging

    def publish(
        self, version: Path, staging: Path, finished: Path, staged: Collection[str]
    ) -> None:
        """Make the version appear, durable and complete, or not at all.

        `finished`: the folder from `finishing`; `staged`: names that were in `staging` before it.
        RunError if another run published the same version, or wrote into it, or OUT was moved.
        """
        for folder, _, names in os.walk(staging):
            for name in names:
                path = Path(folder) / name
                if path.stat().st_nlink == 1:  # others are published, and durable
                    fsync(path)
            fsync(Path(folder))
        lock.check(version.parent.parent)
        os.rename(staging, version)
        fsync(version.parent)

    def restore(self, version: Path, restored: Mapping[str, Path]) -> None:
        """Put these files, by their names, into a published version that has lost them."""
        for name, path in restored.items():
            target = version / name
            target.parent.mkdir(parents=True, exist_ok=True)
            fsync(path)
            os.replace(path, target)
            fsync(target.parent)

    def latest(self, home: Path) -> Path | None:
        """The version that `home/latest` names; None if it names nothing in `home`."""
        name = self._named(home / LATEST)
        exists = VERSION.fullmatch(name) and name in storage.store_of(home).folders(home)
        return (home / name).resolve() if exists else None

    def _named(self, latest: Path) -> str:
        return os.readlink(latest) if latest.is_symlink() else named(latest) or ""

    def check(self, home: Path) -> None:
        """ConfigError if `home/latest` is something that `point` must not replace."""
        link = home / LATEST
        if link.is_dir() and not link.is_symlink():
            raise ConfigError(
                f"{link} is a folder, but a run keeps a link to the newest version there: perhaps "
                "OUT was copied by a program that follows links; remove that folder"
            )

    def point(self, home: Path, version: Path) -> None:
        """Make `home/latest` name a version. ConfigError as by `check`."""
        self.check(home)
        link = home / LATEST
        if self._named(link) == version.name:
            return
        temp = home / ".latest.tmp"
        temp.unlink(missing_ok=True)
        try:
            temp.symlink_to(version.name)
        except OSError:  # file systems without links raise various errors
            storage.write_atomic(link, version.name.encode())
        else:
            os.replace(temp, link)
        fsync(home)

    def follow(self, path: Path) -> Path:
        """The version that `latest` names, or the path itself; ConfigError if `latest` names
        none."""
        names = path.is_symlink() or path.is_file()
        if names and path.name == LATEST and path.parent.name == "datasets":
            version = self.latest(path.parent)
            if version is None:
                raise ConfigError(
                    f"{path} does not name a version beside it; give one, such as v0001"
                )
            path = version
        return path.resolve()

    def clean(self, home: Path) -> None:
        """Remove what a dead run left of an unpublished version."""
        storage.LOCAL.clear(home / STAGING)

    def leftovers(self, home: Path) -> Iterator[Path]:
        """What `clean` removes, and what a dead `withdraw` left."""
        if (home / STAGING).is_dir():
            yield home / STAGING
        yield from sorted(home.glob(f"{ASIDE}*"))

    def withdraw(self, folders: Iterable[Path]) -> None:
        """Remove folders, each atomically: a kill leaves it published, or a leftover."""
        aside = {path: path.with_name(ASIDE + path.name) for path in folders}
        for path, name in aside.items():
            os.rename(path, name)
        for home in {path.parent for path in aside}:
            fsync(home)
        for name in aside.values():
            shutil.rmtree(name)


def publisher(out: Path) -> Renamed | Sealed:
    return Sealed() if storage.store_of(out).remote else Renamed()
