"""Fixed lists of splits: `package: {splits: {test: {list: test.txt}}}`.

One name a line, UTF-8: the id of an utterance, a recording (`dataset/path`), the source's own key,
or a speaker (with or without `dataset/` before it). Whoever is named brings along all that must not
be parted from it (`tasks/packaging/splits.py`). The version depends on what a list says, not on its
place.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.errors import ConfigError
from tasks.settings import PackageSettings, Split


class Listed(NamedTuple):
    """The names of one split's list, each once, sorted."""

    split: str
    names: pa.Array

    @property
    def sha256(self) -> str:
        return hashlib.sha256("\n".join(self.names.to_pylist()).encode()).hexdigest()


def read(settings: PackageSettings) -> list[Listed]:
    """All lists, by split; ConfigError when one cannot be used."""
    found = []
    owner: dict[str, str] = {}
    for split, share in sorted(settings.splits.items()):
        if not isinstance(share, Split) or share.list is None:
            continue
        where = f"package.splits.{split}.list"
        try:
            text = Path(share.list).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise ConfigError(f"{where}: {share.list} cannot be read: {why}") from None
        names = sorted({line.strip() for line in text.splitlines()} - {""})
        if not names:
            raise ConfigError(f"{where}: {share.list} names nothing")
        for name in names:
            if owner.setdefault(name, split) != split:
                raise ConfigError(f"{where}: {name} is in the list of {owner[name]} as well")
        found.append(Listed(split, pa.array(names, pa.string())))
    return found


def match(listed: Listed, rows: pa.Table) -> tuple[NDArray[np.bool_], list[str]]:
    """Which rows (columns id, recording, source_id, dataset, speaker) a list names, and which of
    its names match none of them."""
    hit = np.zeros(rows.num_rows, bool)
    met = np.zeros(len(listed.names), bool)
    for column in (
        rows["id"], rows["recording"], rows["source_id"], rows["speaker"],
        pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/"),
    ):  # fmt: skip
        hit |= pc.is_in(column, listed.names).to_numpy()
        met |= pc.is_in(listed.names, pc.unique(column)).to_numpy(zero_copy_only=False)
    return hit, listed.names.filter(pa.array(~met)).to_pylist()


def described(listed: Listed, unmatched: list[str]) -> dict[str, Any]:
    """What dataset.json says of a list."""
    return {
        "sha256": listed.sha256, "names": len(listed.names), "unmatched": len(unmatched),
        "unmatched_first": unmatched[:20],
    }  # fmt: skip
