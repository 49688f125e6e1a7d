"""Fixed lists of splits: `package: {splits: {test: {list: test.txt}}}`.

One name a line, UTF-8: the id of an utterance, a recording (`dataset/path`), the source's own key,
or a speaker (with or without `dataset/`). A named clip brings along every clip that must stay in
its split (`tasks/publish/choosing/splits.py`). A version depends on a list's contents, not on its
path.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from ..base.errors import ConfigError
from .package import PackageSettings, Split

MOST_BYTES = 128 << 20  # of a list: a million names take half of it


@dataclass(frozen=True, slots=True)
class SplitList:
    """The names of one split's list, sorted, without repeats."""

    split: str
    names: tuple[str, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()


def read(settings: PackageSettings) -> list[SplitList]:
    """All lists, sorted by split. ConfigError for a list that cannot be read, is empty, or shares a
    name with another."""
    lists = []
    owner: dict[str, str] = {}
    for split, share in sorted(settings.splits.items()):
        if not isinstance(share, Split) or share.list is None:
            continue
        where = f"package.splits.{split}.list"
        try:
            with open(share.list, "rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ConfigError(
                    f"{where}: {share.list} has more than {MOST_BYTES >> 20} MiB; is it a list?"
                )
            text = data.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"{where}: {share.list} cannot be read: {why}") from None
        names = sorted({line.strip() for line in text.splitlines()} - {""})
        if not names:
            raise ConfigError(f"{where}: {share.list} is empty")
        for name in names:
            if owner.setdefault(name, split) != split:
                raise ConfigError(f"{where}: {name} is in the list of {owner[name]} as well")
        lists.append(SplitList(split, tuple(names)))
    return lists
