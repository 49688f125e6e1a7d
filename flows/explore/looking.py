"""Datasets outside of an OUT, read-only: a published version, or somebody else's dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from ...tasks import audio, storage
from ...tasks.base.errors import ConfigError, ItemError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.schema import DATASET_FILE, LEDGER, LEDGER_FILE
from ...tasks.plugins import resolve_source
from ...tasks.recording import Ignored, Locator, Recording, Segment
from ...tasks.settings import Source
from ...tasks.storage import tables, versions
from ...tasks.storage.containment import OUT_FOLDERS
from .corpus import Corpus, Gone

ONLY = "only looking is possible here: there is no OUT whose next run would apply a decision"


class Looking(Corpus):
    """One folder as the only version, with the number that it was published as, else 1."""

    read_only = True

    def __init__(self, folder: Path, home: Path) -> None:
        self._folder, self._number = folder, 1
        self._locators: dict[str, Locator] = {}
        if versions.is_version(folder):
            self._number = int(versions.described(folder).get("version", 1))
        else:
            rows, self._locators = looked_at(folder)
            self._folder = home / "looked_at"
            self._folder.mkdir()
            table = pa.Table.from_pylist(rows, SCHEMA)
            (self._folder / LEDGER_FILE).write_bytes(tables.parquet(table))
            kept = [row["seconds"] for row in rows if row["outcome"] == "packaged"]
            described = {  # what the explorer reads of a version
                "utterances": {"in": len(rows), "packaged": len(kept)},
                "seconds": {"in": sum(row["seconds"] for row in rows), "packaged": sum(kept)},
                "settings": {},
                "files": {},
            }
            (self._folder / DATASET_FILE).write_text(json.dumps(described))
        super().__init__(folder, home, [folder, self._folder])

    def versions(self) -> list[int]:
        if not versions.is_version(self._folder):
            raise ConfigError(f"{self._folder} holds no dataset any more")
        return [self._number]

    def place(self, number: int) -> Path:
        if number != self._number:
            raise Gone(f"there is no version {number} of a folder that stands alone")
        return self._folder

    def run(self) -> None:
        """None: there are no runs."""

    def locator(self, recording: str) -> Locator | None:
        return self._locators.get(recording)


def alone(place: Path) -> bool:
    """Whether a place is explored by itself: a version or somebody else's dataset, not an OUT."""
    if storage.query(place, versions.is_version):
        return True
    if storage.is_url(str(place)) or not place.is_dir():
        return False
    is_out = any((place / part).exists() for part in ("runs", *OUT_FOLDERS))
    return not is_out and bool(_sources(place))


# Somebody else's dataset as a ledger, read-only: every clip that a source lists is packaged.

MOST_RECORDINGS = 2000  # recordings: the header of each is read
SCHEMA = pa.schema([*LEDGER, ("text", pa.string()), ("speaker", pa.string())])


def looked_at(folder: Path) -> tuple[list[JsonObject], dict[str, Locator]]:
    """The first recordings of a folder of Parquet files with audio, as Hugging Face's `datasets`
    writes them, or of lhotse's cuts: rows of a ledger, and where each recording's bytes are."""
    rows, locators = list[JsonObject](), dict[str, Locator]()
    for source in _sources(folder):
        module, settings = resolve_source(source)
        for entry in module.recordings(settings):
            if isinstance(entry, Ignored):
                continue
            if len(locators) >= MOST_RECORDINGS:
                return rows, locators
            locators[entry.path] = entry.locator
            rows += _rows(entry, folder.name)
    return rows, locators


def _sources(folder: Path) -> list[Source]:
    """What `looked_at` reads in a local folder."""
    if cuts := sorted(path for path in _files(folder, "*cuts*.jsonl*") if path.is_file()):
        return [Source.model_validate({"kind": "lhotse", "path": str(path)}) for path in cuts]
    if next(_files(folder, "*.parquet"), None):
        return [Source.model_validate({"kind": "hf_parquet", "path": str(folder)})]
    return []


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """Files that match a pattern, near the top only: a folder may be huge."""
    return chain.from_iterable(folder.glob(f"{above}{pattern}") for above in ("", "*/", "*/*/"))


def _rows(recording: Recording, dataset: str) -> Iterator[JsonObject]:
    error, rate, length = recording.error, 0, 0.0
    if error is None:
        try:
            header = audio.probe(recording.locator)
            rate, length = header.rate, (header.frames or 0) / header.rate
        except ItemError as wrong:
            error = (wrong.code, wrong.detail)
    about = recording.text, recording.speaker, recording.language
    whole = Segment(0.0, length, None, *about)
    for number, segment in enumerate(recording.segments or [whole]):
        end = length if segment.end is None else segment.end
        yield {
            "recording": recording.path,
            "source_path": recording.source_path,
            "dataset": dataset,
            "utterance": f"{recording.path}#{number}" if number else recording.path,
            "start": segment.start,
            "end": end,
            "seconds": end - segment.start,
            "sample_rate": rate,
            "outcome": "failed" if error else "packaged",
            "stage": "shard" if error else "package",
            "reason": error[0] if error else "packaged",
            "detail": error[1] if error else None,
            "text": segment.text,
            "speaker": segment.speaker,
            "language": segment.language,
        }
