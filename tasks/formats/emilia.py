"""As Emilia-Pipe leaves it: a folder for each recording, its clips numbered, and a JSON list.

emilia/<split>/<name>/<name>_0.wav ...    16-bit mono, or MP3 of 128 kbit/s: smaller, other samples
emilia/<split>/<name>/<name>.json         entry i is of clip i, in the order of time:
    {"text", "start", "end" (s in the recording), "speaker", "language", "dnsmos", "id"}

`id` is ours. `dnsmos` is the column `dnsmos_ovrl`, null where it was not measured. Emilia's
diarisation names every speaker; where no speaker is known, it is `SPEAKER_00` here, the name that
Emilia gives the first one of a recording. `<name>` is the end of dataset and path, and a hash of
them: another recording never has it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from tasks import audio
from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.errors import ConfigError, ItemError
from tasks.formats import Hashes, Piece, _clips, _readers, _whole
from tasks.recording import Locator
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
ORDER = ("split", "recording", "start", "end", "id")
COLUMNS = (*ORDER, "place", *_clips.COLUMNS)  # the rest stands in the lists only
LISTED = (*ORDER, "text", "speaker", "language", "dnsmos_ovrl")
SPEAKER = "SPEAKER_00"
BATCH = 4096  # rows
READER = _readers.EMILIA


class Settings(StageSettings):
    """How a clip's audio is stored."""

    audio: Literal["wav", "mp3"] = Field(
        "wav", json_schema_extra=THRESHOLD,
        description="wav, or mp3 as Emilia has it: lossy, so only its length can be verified.",
    )  # fmt: skip


def derived(rows: pa.Table, settings: Settings) -> dict[str, pa.Array]:
    """`place`: of a clip among those of its recording in the version."""
    order = _in_order(rows)
    codes = [rows[name].combine_chunks().dictionary_encode().indices for name in ORDER[:2]]
    grid = np.stack([code.to_numpy(zero_copy_only=False) for code in codes])[:, order]
    begins = np.ones(len(order), bool)
    begins[1:] = (grid[:, 1:] != grid[:, :-1]).any(axis=0)
    count = np.arange(len(order))
    places = np.empty(len(order), np.int64)
    places[order] = count - np.maximum.accumulate(np.where(begins, count, 0))
    return {"place": pa.array(places)}


def _in_order(rows: pa.Table) -> NDArray[np.int64]:
    order: NDArray[np.int64] = pc.sort_indices(
        rows, sort_keys=[(name, "ascending") for name in ORDER]
    ).to_numpy()
    return order.astype(np.int64)


@cache
def _name(recording: str) -> str:
    """`recording` is `dataset/path`."""
    head, _, tail = recording.rpartition(".")
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", head if head and len(tail) <= 5 else recording)
    return f"{stem[-60:].strip('_')}-{hashlib.sha256(recording.encode()).hexdigest()[:16]}"


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError where MP3 has no such sample rate."""
    rates = set(pc.unique(rows["sample_rate"]).to_pylist())
    if settings.audio == "mp3" and not rates <= audio.MP3_RATES:
        raise ConfigError(
            f"formats.emilia.audio: MP3 has no sample rate of {max(rates - audio.MP3_RATES)} Hz; "
            "take wav, or another resample.rate"
        )
    pairs = zip(rows["recording"].to_pylist(), rows["place"].to_pylist(), strict=True)
    return [f"{_stem(split, recording)}_{place}.{settings.audio}" for recording, place in pairs]


def _stem(split: str, recording: str) -> str:
    name = _name(recording)
    return f"emilia/{split}/{name}/{name}"


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    for path, row in zip(piece.files, rows, strict=True):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        with (home / path).open("wb") as file:
            if settings.audio == "mp3":
                data = audio.write_mp3_bytes(pcm(row), row["sample_rate"])
                _whole.note(path, data, hashes)
                file.write(data)
            else:
                file.writelines(_clips.parts(pcm(row), row["sample_rate"], "wav"))


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    faults: list[str] = []
    for path, row in zip(piece.files, rows, strict=True):
        if settings.audio == "mp3":
            faults += _mp3_faults(row, path, home)
            faults += _whole.faults(home, path, hashes)
        else:
            faults += _clips.faults(row, path, (home / path).read_bytes(), "wav")
    return faults


def _mp3_faults(row: Row, path: str, home: Path) -> list[str]:
    """Rate, and length within a frame."""
    try:
        with audio.open_stream(Locator(str(home / path))) as stream:
            samples = sum(len(block) for block in stream.blocks())
    except ItemError as error:
        return [f"{path} does not decode: {error}"]
    off = abs(samples - row["num_samples"])
    if stream.rate != row["sample_rate"] or off > audio.MP3_FRAME:
        return [f"{path} has {samples} samples at {stream.rate} Hz, not as its row says"]
    return []


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    """The list of each recording."""
    for (split, recording), rows in groupby(_sorted(home), lambda r: (r["split"], r["recording"])):
        entries = [_entry(row) for row in rows]
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False)
        (home / f"{_stem(split, recording)}.json").write_text(text, "utf-8", newline="\n")


def _sorted(home: Path) -> Iterator[Row]:
    path = home / "utterances.parquet"
    held = set(pq.read_schema(path).names)
    table = pq.read_table(path, columns=[name for name in LISTED if name in held])
    order = _in_order(table)
    for at in range(0, len(order), BATCH):
        yield from table.take(order[at : at + BATCH]).to_pylist()


def _entry(row: Row) -> dict[str, Any]:
    return {
        "text": row["text"],
        "start": row["start"],
        "end": row["end"],
        "speaker": row["speaker"] or SPEAKER,
        "language": row["language"],
        "dnsmos": row.get("dnsmos_ovrl"),
        "id": row["id"],
    }
