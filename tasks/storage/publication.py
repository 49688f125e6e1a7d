"""How a folder appears as a whole: by one rename on a file system, by a seal on an object store.

`versions.py` says what is published; `Renamed` and `Sealed`, which have the same methods, say how.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tasks import storage
from tasks.base.errors import ConfigError
from tasks.storage._sealed import VERSION, Sealed, named
from tasks.storage.atomic import fsync
from tasks.storage.containment import LATEST

STAGING = ".staging"
ASIDE = ".pruned-"  # before the name of a folder that is being removed


class Renamed:
    """Publishes versions, folders of OUT/datasets, on a file system. Only while holding OUT's lock.

    datasets/.staging/     being written
    datasets/v0001/        the staging folder, renamed once everything in it is durable
    datasets/latest        a link to the newest version, replaced last; without links in this file
                           system a file that holds its name
    """

    def complete(self, version: Path) -> bool:
        """Whether a folder with the name of a version is published."""
        return True

    def staging(self, version: Path) -> Path:
        """The folder in which a version is prepared; a local one is made, empty."""
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

        It holds the staged files `read`, the folders of all files in `sizes`, and, of the given
        size in bytes, files that stand for those of `sizes` that have one.
        """
        yield staging

    def publish(
        self, version: Path, staging: Path, finished: Path, staged: Collection[str]
    ) -> None:
        """Make the version appear, durable and complete, or not at all.

        `finished` is what `finishing` gave; `staged` names what was in `staging` before. RunError
        if another run published the same version, or wrote into it.
        """
        for folder, _, names in os.walk(staging):
            for name in names:
                path = Path(folder) / name
                if path.stat().st_nlink == 1:  # else it is a published version's, and durable
                    fsync(path)
            fsync(Path(folder))
        os.rename(staging, version)
        fsync(version.parent)

    def latest(self, home: Path) -> Path | None:
        """The version that `home/latest` names; None if there is none: it may lead nowhere else."""
        name = self._named(home / LATEST)
        exists = VERSION.fullmatch(name) and name in storage.of(home).folders(home)
        return (home / name).resolve() if exists else None

    def _named(self, latest: Path) -> str:
        return os.readlink(latest) if latest.is_symlink() else named(latest) or ""

    def check(self, home: Path) -> None:
        """ConfigError if `home/latest` is something that `point` does not replace."""
        link = home / LATEST
        if link.is_dir() and not link.is_symlink():
            raise ConfigError(
                f"{link} is a folder, where a run keeps a link to the newest version: perhaps OUT "
                "was copied by a program that follows links; remove that folder"
            )

    def point(self, home: Path, version: Path) -> None:
        """Let `home/latest` name a version. ConfigError as by `check`."""
        self.check(home)
        link = home / LATEST
        if self._named(link) == version.name:
            return
        temp = home / ".latest.tmp"
        temp.unlink(missing_ok=True)
        try:
            temp.symlink_to(version.name)
        except OSError:  # a file system without links says so in one of many ways
            storage.write_atomic(link, version.name.encode())
        else:
            os.replace(temp, link)
        fsync(home)

    def follow(self, path: Path) -> Path:
        """The version itself where `latest` was named; ConfigError if it names none."""
        if path.name == LATEST and path.parent.name == "datasets" and _is_name(path):
            version = self.latest(path.parent)
            if version is None:
                raise ConfigError(f"{path} names no version beside it; give one, such as v0001")
            path = version
        return path.resolve()

    def clean(self, home: Path) -> None:
        """Remove a dead run's leftovers of a version that it did not publish."""
        storage.LOCAL.clear(home / STAGING)

    def leftovers(self, home: Path) -> Iterator[Path]:
        """What `clean` removes, and leftovers of a dead `withdraw`."""
        if (home / STAGING).is_dir():
            yield home / STAGING
        yield from sorted(home.glob(f"{ASIDE}*"))

    def withdraw(self, folders: Iterable[Path]) -> None:
        """Remove folders, each at once: a kill leaves it published, or a leftover."""
        aside = {path: path.with_name(ASIDE + path.name) for path in folders}
        for path, name in aside.items():
            os.rename(path, name)
        for home in {path.parent for path in aside}:
            fsync(home)
        for name in aside.values():
            shutil.rmtree(name)


def _is_name(latest: Path) -> bool:
    return latest.is_symlink() or latest.is_file()


def of(out: Path) -> Renamed | Sealed:
    return Sealed() if storage.of(out).remote else Renamed()
