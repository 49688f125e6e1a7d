"""What a plan reads of new files: the headers of some, what `channels: auto` will decide for some,
whether the corpus mixes telephone and wideband audio, and which of a few are copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import audio
from ...accounting.broken import Broken
from ...base.counting import counted
from ...base.errors import ItemError
from ...base.schema import RecordingRow
from ...plugins import Dataset
from ...publish import speakers
from ...recording import Locator
from ...settings.job import Job
from ...shard_store import manifest
from ...stages.listing import copies, entries, shard_choice
from ...stages.listing.copies import NewCopy
from ...stages.listing.known_recordings import BYTES_A_SECOND, KnownRecordings
from ...stages.listing.pending_listing import AsListed
from ...storage.urls import is_url
from . import asked_apart
from .asked_apart import Header, Sides

HEADERS = 500  # files whose headers are read; other lengths are estimated from these
DECODED = 6  # files of a source whose channels are compared
MOST_BYTES = 256 << 20  # of files that are hashed to find copies; takes less than a second


class NewFiles:
    """The new and changed recordings of a listing; `had`: recordings of earlier runs. Unless
    `headers` are to be read, only what their sources say is known of them."""

    def __init__(self, job: Job, had: KnownRecordings, listed: AsListed, headers: bool) -> None:
        self.rows = listed.fresh
        self.copies: dict[str, NewCopy] = {}  # which a run will not process again, by name
        self._headers: dict[str, Header | None] | None = None  # None: it cannot be read
        self.seconds: dict[str, float] | None = None
        if headers:
            self.copies = copies_among(job, had, listed)
            sample = _sample([row for row in self.rows if not row["error_code"]], HEADERS)
            answers = asked_apart.headers([row["locator"] for row in sample])
            self._headers = dict(zip((r["recording"] for r in sample), answers, strict=False))
            self.seconds = lengths(self.rows, self._headers)

    @property
    def unusable(self) -> dict[str, tuple[str, Broken]]:
        """(dataset, failure) of each recording that will fail, by name: first those with an error
        from their source, then those whose header cannot be read."""
        unusable = {}
        for row in sorted(self.rows, key=lambda row: not row["error_code"]):
            code, name = row["error_code"], row["recording"]
            if not code and self.seconds is not None and name not in self.seconds:
                code = "its header cannot be read"
            if code:
                failure = Broken(row["source_path"], code, row["error_detail"] or "")
                unusable[name] = row["dataset"], failure
        return unusable

    def bands(self, listings: Iterable[pa.Table]) -> Iterator[str]:
        """A warning, if recordings without a speaker have both bands. `listings`: tables
        (RECORDINGS) of known ones."""
        if (read := self._headers) is None:
            return
        nameless = [r["recording"] for r in self.rows if not r["speaker"] and not r["error_code"]]
        rates = [header["rate"] for name in nameless if (header := read.get(name)) is not None]
        for table in listings:
            nameless_rows = table.filter(pc.and_(table["present"], pc.is_null(table["speaker"])))
            rates += nameless_rows["header_rate"].drop_null().to_pylist()
        narrow = sum(rate < speakers.WIDE for rate in rates)
        if warning := speakers.bands_warning(narrow, len(rates) - narrow):
            every = all(name in read for name in nameless)
            yield warning if every else f"Of {len(rates)} that were looked at, {warning}"

    def channels(self, datasets: Sequence[Dataset]) -> Iterator[str]:
        """A sentence for each source with `channels: auto` and new files, about a sample of these.
        Files with a text or segments are always mixed."""
        undecided = [
            row
            for row in self.rows
            if '"apart": "auto"' in row["locator"] and row["error_code"] is None
            if not (row["text"] or row["segments"]) and self._headers is not None
        ]
        names = [dataset.name for dataset in datasets if dataset.settings.channels == "auto"]
        new = {name: [row for row in undecided if row["dataset"] == name] for name in names}
        samples = {name: _sample(rows, DECODED) for name, rows in new.items()}
        sampled = [row for rows in samples.values() for row in rows]
        results = asked_apart.sides([row["locator"] for row in sampled])
        answers = dict(zip((row["recording"] for row in sampled), results, strict=False))
        for name, rows in samples.items():
            looked = [(r["path"], a) for r in rows if (a := answers.get(r["recording"]))]
            if rows:
                yield _sentence(name, len(new[name]), looked)


def _sample(rows: Sequence[RecordingRow], most: int) -> Sequence[RecordingRow]:
    """Some rows, spread evenly."""
    return rows[:: -(-len(rows) // most) or 1]


def lengths(rows: Sequence[RecordingRow], headers: Mapping[str, Header | None]) -> dict[str, float]:
    """Seconds of new recordings, by name, except those known to be unreadable. Without a length
    in a header, it is estimated from the bytes per second of files with the same extension."""
    seconds: dict[str, float] = {}
    rates: dict[str, tuple[int, float]] = {}  # bytes, seconds by extension
    for row in rows:
        header = headers.get(row["recording"])
        if header is not None and header["seconds"] is not None:
            seconds[row["recording"]] = header["seconds"]
            size, total = rates.get(_ending(row), (0, 0.0))
            rates[_ending(row)] = size + row["size"], total + header["seconds"]
    for row in rows:
        name = row["recording"]
        readable = not row["error_code"] and (name not in headers or headers[name] is not None)
        if readable and name not in seconds:
            size, total = rates.get(_ending(row), (BYTES_A_SECOND, 1.0))
            seconds[name] = row["size"] * total / (size or 1)
    return seconds


def _ending(row: RecordingRow) -> str:
    return PurePosixPath(row["path"]).suffix.lower()


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


def copies_among(job: Job, had: KnownRecordings, listed: AsListed) -> dict[str, NewCopy]:
    """The copies among new recordings, by name, which a run will not process again; empty if the
    new files have more than MOST_BYTES. A listing does not show the content of files, so they are
    read. `had`: recordings of earlier runs. Those that left their sources have no copies."""
    sound = [row for row in listed.fresh if not row["error_code"]]
    if (
        job.filter.duplicate_files == "keep"
        or sum(row["size"] for row in sound) > MOST_BYTES
        or any(is_url(Locator.loads(row["locator"]).path) for row in sound[:1])
    ):
        return {}
    hashed: list[RecordingRow] = []
    for row in sound:
        locator = Locator.loads(row["locator"])
        if not (locator.apart or locator.every_track):  # which is divided
            with suppress(OSError, ItemError):  # the run will report it
                hashed.append({**row, "content": audio.digest(locator)[0], "present": True})
    contents = entries.heads(row["content"] for row in hashed)
    numbers = shard_choice.with_bytes(had, contents)
    others: list[RecordingRow] = []
    for number in np.unique(numbers[numbers >= 0]):
        others += manifest.listed(job.out, had.shards[number]).to_pylist()
    names = {row["recording"] for row in hashed}
    others = [row for row in others if row["recording"] not in names]
    before = copies.former(others)
    gone = listed.left(row["recording"] for row in others)
    rows = [*compress(others, ~gone), *hashed]
    marked = copies.mark(rows, before)
    return {copy.recording: copy for copy in marked if copy.recording in names}
