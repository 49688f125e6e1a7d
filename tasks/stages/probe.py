"""Probes recordings that have no shard yet: content digest and header, one by one.

The module has the shape of a stage, so that a recording that kills its worker is found and
quarantined in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import audio
from ..audio.types import Header, Sides
from ..base.arrays import FixedBytes, Float32s, Int64s
from ..base.counting import counted
from ..base.errors import UNREACHABLE, ItemError, shortened
from ..base.schema import RECORDINGS, RecordingRow
from ..plugins import Dataset
from ..recording import Locator, tracks, unreachable
from ..recording.guard import file_state
from ..settings.job import Job
from ..shard_store import manifest
from ..storage import urls
from .contract import OfRecording
from .listing import entries
from .listing.entries import Batch
from .listing.known_recordings import MOST_PARTS, KnownRecordings, parts_of


def compute(units: list[OfRecording], job: Job) -> Iterator[list[RecordingRow]]:
    """The rows of each unit: with content digest and header, or with the error; several rows for a
    file that its source wants divided."""
    for unit in units:
        yield _probed(unit.recording)


def failure(unit: OfRecording, code: str, detail: str) -> list[RecordingRow]:
    return [{**unit.recording, "error_code": code, "error_detail": shortened(detail)}]


def _probed(row: RecordingRow) -> list[RecordingRow]:
    probed = row.copy()
    locator = Locator.loads(row["locator"])
    if row["error_code"] == UNREACHABLE and locator.offset is None:  # during listing
        state = file_state(locator.path)
        if state.error is None:
            probed["size"], probed["guard"] = state.size, state.guard
            probed["error_code"] = probed["error_detail"] = None
    if probed["error_code"]:
        return [row]
    try:
        return unreachable.patience.read(partial(_looked_into, probed, locator))
    except ItemError as error:
        return [{**probed, "error_code": error.code, "error_detail": shortened(error.detail)}]


def _looked_into(row: RecordingRow, locator: Locator) -> list[RecordingRow]:
    """The rows with their headers; sets content and size in `row`. ItemError if that fails."""
    with unreachable.listed():
        row["content"], row["size"] = audio.digest(locator)
        if urls.guard(locator.path) != row["guard"]:
            raise ItemError("changed", "it was written to while it was hashed")
        if row.get("parts"):
            return [probed_again(row, locator)]
        if locator.apart or locator.every_track:
            return of_file(row, locator)
        return [with_header(row, audio.probe(locator))]


# Recordings of the single tracks and channels of a file, for sources that ask for them. Such a file
# is listed as a whole, and divided when it is probed: `call.wav#0`, `call.wav#1`. Later listings
# replace an unchanged file by its known parts.


#: In the locator of a file to divide.
ASKED = r'"(apart|every_track)": '
UNDIVIDED = (
    "its text does not say which {0} it is of; name the {0} of each segment, or read the {1}"
)


MIXED_TEXT = Sides(False, "the source's text does not say which of them it belongs to")


class Part(NamedTuple):
    """A part of a file: `track` None is the default one, `channel` None the mix."""

    track: int | None
    channel: int | None

    @property
    def suffix(self) -> str:
        return "".join(f"#{number}" for number in self if number is not None)


def of_file(row: RecordingRow, locator: Locator) -> list[RecordingRow]:
    """The rows of a file's parts, with their headers. ItemError if it cannot be divided."""
    first = audio.probe(locator)
    described = bool(row["text"] or row["segments"])
    divisions: list[str] = []
    headers: dict[Part, Header | ItemError] = {}
    for track in range(first.tracks) if locator.every_track and first.tracks > 1 else [None]:
        where = replace(locator, track=track)
        try:
            header = first if track is None else audio.probe(where)
        except ItemError as error:
            headers[Part(track, None)] = error
            continue
        apart = locator.apart is not None and header.channels > 1
        if apart and locator.apart == "auto":
            answer = MIXED_TEXT if described else looked_at(where, header)
            apart = answer.apart
            divisions.append(str(answer))
        if apart:
            number = 0 if locator.every_track and track is None else track
            headers |= {Part(number, channel): header for channel in range(header.channels)}
        else:
            headers[Part(track, None)] = header
    row["division"] = "; ".join(divisions) or None
    if len(headers) == 1:
        return [with_header(row, first)]
    if described:
        what = ("track", "default one") if first.tracks > 1 else ("channel", "mix")
        raise ItemError("unsupported", UNDIVIDED.format(*what))
    rows: list[RecordingRow] = []
    for part, result in headers.items():
        part_row = row_of_part(row, part, len(headers))
        if isinstance(result, ItemError):
            part_row["error_code"], part_row["error_detail"] = result.code, shortened(result.detail)
        elif part.channel is None:
            part_row = with_header(part_row, result)
        else:
            part_row = with_header(part_row, audio.picked(result, part.channel))
        part_row["division"] = None if rows else row["division"]
        rows.append(part_row)
    return rows


def looked_at(where: Locator, header: Header) -> Sides:
    from ..speech import sides  # here: only workers need the voice detector

    def blocks() -> Iterator[Float32s]:
        with audio.open_stream(where) as stream:
            yield from stream.blocks()

    if header.weights is not None:
        return Sides(False, "they are those of a surround layout")
    try:
        return sides.looked_at(blocks, header.rate, header.channels)
    except ItemError as error:
        if error.code == UNREACHABLE:
            raise
        return Sides(False, "they cannot be decoded, so they are not compared")


def with_header(row: RecordingRow, header: Header) -> RecordingRow:
    return {
        **row,
        "header_rate": header.rate,
        "header_channels": header.channels,
        "header_seconds": header.frames / header.rate if header.frames is not None else None,
        "start_seconds": header.start or None,
        "format": tracks.noted(header.format, header.track),
        "channels": None if header.picked is None else list(header.picked),
    }


def probed_again(row: RecordingRow, locator: Locator) -> RecordingRow:
    """The row of a part with its header; probes only that part."""
    track = tracks.track_of(row) if locator.every_track else locator.track
    where = replace(locator, track=track, channels=tracks.channels_of(row))
    return with_header(row, audio.probe(where))


def row_of_part(file: RecordingRow, part: Part, parts: int) -> RecordingRow:
    """The row of a part of a file with this many parts. The speaker of a channel is the one that
    its turns name, or has the recording's name."""
    row: RecordingRow = {
        **file,
        "recording": f"{file['recording']}{part.suffix}",
        "path": f"{file['path']}{part.suffix}",
        "format": tracks.noted("", part.track or 0),
        "parts": parts,
    }
    if part.channel is not None:
        row["channels"] = [part.channel]
        turns = row.get("rttm") or []
        if any(turn.get("channel") is not None for turn in turns):
            row["rttm"] = [turn for turn in turns if turn.get("channel") == part.channel]
        names = {turn["speaker"] for turn in row.get("rttm") or ()} or {row["recording"]}
        row["speaker"] = names.pop() if len(names) == 1 else None
    row["listed"] = entries.listed(row)
    return row


def divided(batch: Batch, had: KnownRecordings) -> tuple[Batch, Int64s]:
    """A batch in which files unchanged since they were divided are replaced by their parts; and the
    rows of `had` that belong to files to divide anew."""
    asked = pc.match_substring_regex(batch.rows["locator"], ASKED).to_numpy()
    if not asked.any() or not len(had.columns.keys):
        return batch, np.zeros(0, np.int64)
    rows: list[RecordingRow] = batch.rows.filter(pa.array(asked)).to_pylist()
    names = [row["recording"] for row in rows]
    chains = _chains(had, names, deep=any('"every_track"' in row["locator"] for row in rows))
    kept: list[RecordingRow] = []
    stale: list[int] = []
    states, flags = had.columns.states, had.columns.flags
    hashes = batch.states[asked], batch.heads[asked], had.find(batch.keys[asked]).tolist()
    for row, state, head, whole in zip(rows, *hashes, strict=True):
        parts = {p: n for p, n in chains[row["recording"]].items() if states[n] == state}
        complete = parts and parts_of(flags[[*parts.values()]]).max() == min(len(parts), MOST_PARTS)
        # With another description it may need division, or no longer.
        if whole >= 0 and (states[whole], had.columns.heads[whole]) == (state, head):
            kept.append(row)
        elif complete and not (row["text"] or row["segments"]):
            kept += [row_of_part(row, part, len(parts)) for part in parts]
        else:
            kept.append(row)
            stale += [*chains[row["recording"]].values(), *([whole] if whole >= 0 else [])]
    table = pa.Table.from_pylist(kept, schema=RECORDINGS)
    rest = batch.rows.filter(pa.array(~asked))
    return entries.of_table(pa.concat_tables([rest, table])), np.array(stale, np.int64)


def _chains(had: KnownRecordings, names: Sequence[str], deep: bool) -> dict[str, dict[Part, int]]:
    """The known parts of each file, with their rows; `deep`: they are tracks, some of which may be
    divided in turn."""
    chains: dict[str, dict[Part, int]] = {name: {} for name in names}
    open_names = [*names]
    for number in count():
        titles = [f"{name}#{number}" for name in open_names]
        rows = had.find(entries.keys(titles)).tolist()
        inside = _chains(had, titles, deep=False) if deep else {}
        further = []
        for name, title, row in zip(open_names, titles, rows, strict=True):
            parts = {Part(number, part.channel): n for part, n in inside.get(title, {}).items()}
            if row >= 0:
                parts[Part(number, None) if deep else Part(None, number)] = row
            if parts:
                chains[name] |= parts
                further.append(name)
        if not further:
            break
        open_names = further
    return chains


def vanished(had: KnownRecordings, stale: Int64s, probed: FixedBytes) -> Int64s:
    """Known parts, among those of files that were divided anew, that no longer exist."""
    return stale[~np.isin(had.columns.keys[stale], probed)]


# Results of `channels: auto`, in words, for plans and runs.


def channel_sentences(out: Path, datasets: Sequence[Dataset]) -> Iterator[str]:
    """How many files of each source have separate channels, and how many mixed ones, with an
    example of each, by the last listing."""
    asked = [dataset.name for dataset in datasets if dataset.settings.channels == "auto"]
    by_verdict: dict[tuple[str, bool], list[str]] = {}
    for table in manifest.listings(out) if asked else ():
        rows = table.filter(pc.and_(table["present"], pc.is_valid(table["division"])))
        for row in rows.select(["dataset", "path", "parts", "division"]).to_pylist():
            apart = row["parts"] is not None
            name = row["path"].removesuffix("#0") if apart else row["path"]
            line = f"{name}: {row['division']}"
            by_verdict.setdefault((row["dataset"], apart), []).append(line)
    for name in asked:
        for apart, verb in ((True, "read apart"), (False, "mixed")):
            if lines := by_verdict.get((name, apart)):
                files = counted(len(lines), "file")
                yield f"Channels of {files} of the source {name!r} are {verb}, such as {min(lines)}"
