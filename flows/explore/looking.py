"""Datasets without an OUT around them, for looking only: a published version, or one of others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from flows.explore.corpus import Corpus, Gone
from tasks import storage
from tasks.base.errors import ConfigError
from tasks.base.schema import DATASET_FILE, LEDGER_FILE
from tasks.insight.looked_at import LookedAt, is_dataset, looked_at
from tasks.recording import Locator
from tasks.settings.job import Job
from tasks.storage import tables, versions
from tasks.storage.containment import OUT_FOLDERS

ONLY = "only looking is possible here: there is no OUT whose next run would apply a decision"


class _Places:
    """Where recordings lie, in place of an OUT's checkpoints."""

    def __init__(self, locators: Mapping[str, Locator]) -> None:
        self._locators = locators

    def locator(self, recording: str) -> Locator | None:
        return self._locators.get(recording)

    def utterance(self, recording: str, key: str | None) -> None:
        """No checkpoint knows any."""


class Looking(Corpus):
    """One folder as the only version, with the number 1."""

    read_only = True

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder, data = folder, LookedAt()
        if not versions.is_version(folder):
            data, self._folder = looked_at(folder), home / "looked_at"
            _write(data, self._folder)
        super().__init__(folder, home, [folder, self._folder])
        self.shards = _Places(data.locators)  # type: ignore[assignment]

    def versions(self) -> list[int]:
        if not versions.is_version(self._folder):
            raise ConfigError(f"{self._folder} holds no dataset any more")
        return [1]

    def place(self, number: int) -> Path:
        if number != 1:
            raise Gone(f"there is no version {number} of a folder that stands alone")
        return self._folder

    def job(self) -> Job | None:
        return None


def _write(data: LookedAt, folder: Path) -> None:
    """What the explorer reads of a version."""
    folder.mkdir()
    (folder / LEDGER_FILE).write_bytes(tables.parquet(data.table()))
    kept = [row for row in data.rows if row["outcome"] == "packaged"]
    total = sum(float(row["seconds"] or 0) for row in data.rows)
    packaged = sum(float(row["seconds"] or 0) for row in kept)
    described = {
        "utterances": {"in": len(data.rows), "packaged": len(kept)},
        "seconds": {"in": total, "packaged": packaged},
    }
    (folder / DATASET_FILE).write_text(json.dumps(described))


def alone(place: Path) -> bool:
    """Whether a place is looked at by itself: a version or a dataset of others, and no OUT."""
    if storage.query(place, versions.is_version):
        return True
    if storage.is_url(str(place)) or not place.is_dir():
        return False
    return not any((place / part).exists() for part in ("runs", *OUT_FOLDERS)) and is_dataset(place)
