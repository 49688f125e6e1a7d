"""How a folder appears as a whole: by one rename on a file system, by a seal on an object store.

`versions.py` says what is published; a `Publication` says how, for one kind of store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tasks import storage
from tasks.dataset._renamed import Renamed
from tasks.dataset._sealed import Sealed


class Publication(Protocol):
    """Publishes versions, folders of OUT/datasets. Only while holding OUT's lock."""

    def complete(self, version: Path) -> bool:
        """Whether a folder with the name of a version is published."""

    def staging(self, version: Path) -> Path:
        """The folder in which a version is prepared; a local one is made, empty."""

    def finishing(
        self,
        staging: Path,
        read: Iterable[str],
        sizes: Mapping[str, int | None],
        scratch: Path | None,
    ) -> AbstractContextManager[Path]:
        """A local folder in which the last files of a version are written.

        It holds the staged files `read`, the folders of all files in `sizes`, and, of the given
        size in bytes, files that stand for those of `sizes` that have one.
        """

    def publish(
        self, version: Path, staging: Path, finished: Path, staged: Collection[str]
    ) -> None:
        """Make the version appear, durable and complete, or not at all.

        `finished` is what `finishing` gave; `staged` names what was in `staging` before. RunError
        if another run published the same version, or wrote into it.
        """

    def latest(self, home: Path) -> Path | None:
        """The version that `home/latest` names; None if there is none."""

    def point(self, home: Path, version: Path) -> None:
        """Let `home/latest` name a version."""

    def follow(self, path: Path) -> Path:
        """The version itself where `latest` was named."""

    def clean(self, home: Path) -> None:
        """Remove a dead run's leftovers of a version that it did not publish."""

    def leftovers(self, home: Path) -> Iterator[Path]:
        """The files that `clean` removes, and leftovers of a dead `withdraw`."""

    def withdraw(self, folders: Iterable[Path]) -> None:
        """Remove folders, each at once: a kill leaves it published, or a leftover."""


def of(out: Path) -> Publication:
    return Sealed() if storage.of(out).remote else Renamed()
