"""A dataset of others as a ledger, for looking only: every clip that a source lists is packaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa

from tasks import audio
from tasks.base.errors import ItemError
from tasks.plugins import resolve_source
from tasks.recording import Ignored, Locator, Recording, Segment
from tasks.settings import Source

MOST = 2000  # recordings: the header of each is read
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("recording", "source_path", "dataset", "utterance")),
        *((name, pa.float64()) for name in ("start", "end", "seconds")),
        ("sample_rate", pa.int64()),
        *((name, pa.string()) for name in ("outcome", "stage", "reason", "detail")),
        *((name, pa.string()) for name in ("text", "speaker", "language")),
    ]
)


@dataclass
class LookedAt:
    """`rows`: of the ledger. `locators`: where each recording's bytes are. `more`: whether there
    are further recordings."""

    rows: list[dict[str, str | float | None]] = field(default_factory=list)
    locators: dict[str, Locator] = field(default_factory=dict)
    more: bool = False

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, SCHEMA)


def looked_at(folder: Path) -> LookedAt:
    """The first recordings of a folder of Parquet files with audio, as Hugging Face's `datasets`
    writes them, or of lhotse's cuts."""
    result = LookedAt()
    for source in _sources(folder):
        module, settings = resolve_source(source)
        for entry in module.recordings(settings):
            if isinstance(entry, Ignored):
                continue
            if len(result.locators) >= MOST:
                result.more = True
                return result
            _add(result, entry, folder.name)
    return result


def is_dataset(folder: Path) -> bool:
    """Whether a local folder holds what `looked_at` reads."""
    return bool(_sources(folder))


def _sources(folder: Path) -> list[Source]:
    if cuts := sorted(path for path in _files(folder, "*cuts*.jsonl*") if path.is_file()):
        return [Source.model_validate({"kind": "lhotse", "path": str(path)}) for path in cuts]
    if next(_files(folder, "*.parquet"), None):
        return [Source.model_validate({"kind": "hf_parquet", "path": str(folder)})]
    return []


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """Files of a name, near the top: a folder may be huge."""
    return chain.from_iterable(folder.glob(f"{above}{pattern}") for above in ("", "*/", "*/*/"))


def _add(result: LookedAt, recording: Recording, dataset: str) -> None:
    result.locators[recording.path] = recording.locator
    error, rate, length = recording.error, 0, 0.0
    if error is None:
        try:
            header = audio.probe(recording.locator)
            rate, length = header.rate, (header.frames or 0) / header.rate
        except ItemError as wrong:
            error = (wrong.code, wrong.detail)
    for number, segment in enumerate(_segments(recording, length)):
        end = length if segment.end is None else segment.end
        result.rows.append(
            {
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
        )


def _segments(recording: Recording, length: float) -> Iterator[Segment]:
    if recording.segments:
        yield from recording.segments
        return
    about = recording.text, recording.speaker, recording.language
    yield Segment(0.0, length, None, *about)
