"""What a plan says of new files from a sample, spread evenly over them: what `channels: auto` will
decide, and whether the corpus mixes telephone and wideband audio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ...base.counting import counted
from ...base.schema import RecordingRow
from ...plugins import Dataset
from ...publish import speakers
from . import asked_apart
from .asked_apart import Sides

DECODED = 6  # files of a source whose channels are compared
HEADERS = 60  # files of all sources whose sample rates are read


def _sample(rows: Sequence[RecordingRow], most: int) -> Sequence[RecordingRow]:
    return rows[:: -(-len(rows) // most) or 1]


def bands(fresh: Sequence[RecordingRow], listings: Iterable[pa.Table]) -> Iterator[str]:
    """A warning, if recordings without a speaker have both bands. `fresh`: new recordings;
    `listings`: tables (RECORDINGS) of known ones."""
    nameless = [row for row in fresh if not row["speaker"] and not row["error_code"]]
    sample = _sample(nameless, HEADERS)
    answers = asked_apart.headers([row["locator"] for row in sample])
    rates = [header["rate"] for header in answers if header is not None]
    for table in listings:
        nameless_rows = table.filter(pc.and_(table["present"], pc.is_null(table["speaker"])))
        rates += nameless_rows["header_rate"].drop_null().to_pylist()
    narrow = sum(rate < speakers.WIDE for rate in rates)
    if warning := speakers.bands_warning(narrow, len(rates) - narrow):
        scope = "" if len(sample) == len(nameless) else f"Of {len(rates)} that were looked at, "
        yield scope + warning


def channels(fresh: Sequence[RecordingRow], datasets: Sequence[Dataset]) -> Iterator[str]:
    """A sentence for each source with `channels: auto` and new files, about its sample. Files with
    a text or segments are always mixed."""
    undecided = [
        row
        for row in fresh
        if '"apart": "auto"' in row["locator"] and row["error_code"] is None
        if not (row["text"] or row["segments"])
    ]
    names = [dataset.name for dataset in datasets if dataset.settings.channels == "auto"]
    new = {name: [row for row in undecided if row["dataset"] == name] for name in names}
    samples = {name: _sample(rows, DECODED) for name, rows in new.items()}
    sampled = [row for rows in samples.values() for row in rows]
    results = asked_apart.sides([row["locator"] for row in sampled])
    answers = dict(zip((row["recording"] for row in sampled), results, strict=False))
    for name, rows in samples.items():
        looked = [(r["path"], a) for r in rows if (a := answers.get(r["recording"])) is not None]
        if rows:
            yield _sentence(name, len(new[name]), looked)


def _sentence(name: str, count: int, looked: Sequence[tuple[str, Sides]]) -> str:
    if not looked:
        return (
            f"Channels of {counted(count, 'new file')} of the source {name!r} are not looked at "
            "yet: the run reads a file's channels apart where one alone is heard in most of its "
            "speech, else their mix"
        )
    verdicts = []
    for apart, verb in ((True, "read apart"), (False, "mixed"), (None, "of one channel")):
        lines = [f"{path}: {answer['says']}" for path, answer in looked if answer["apart"] is apart]
        if lines:
            example = "" if apart is None else f", such as {min(lines)}"
            verdicts.append(f"{len(lines)} {'is' if len(lines) == 1 else 'are'} {verb}{example}")
    return (
        f"Channels of the source {name!r}: of {len(looked)} of its {counted(count, 'new file')} "
        f"that were looked at, {'; '.join(verdicts)}; the run decides for each file"
    )
