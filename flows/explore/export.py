"""A selection as a file: JSON lines, Parquet, or a zip of its audio and a list."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from flows.explore import clip, query
from flows.explore.corpus import Corpus, Gone, Items
from flows.explore.query import Choice, Parameters
from tasks.audio import write_wav_bytes
from tasks.errors import ConfigError
from tasks.json_types import JsonObject

KINDS = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
BATCH = 2000
CLIPS = 2000  # of a zip, at most


def chosen(items: Items, asked: Parameters) -> tuple[Choice, str]:
    """The items and their order; `item=` chooses single ones."""
    single = [query.integer({"item": value}, "item") for key, value in asked if key == "item"]
    picked = query.choice(items.columns, asked)
    if single:
        marks = ", ".join("?" * len(single))
        picked = Choice(f"item IN ({marks})", tuple(single))
    return picked, query.order(items.columns, dict(asked).get("sort"))


def jsonl(corpus: Corpus, items: Items, asked: Parameters) -> Iterator[bytes]:
    """One JSON object a line, without columns that are null."""
    picked, by = chosen(items, asked)
    with corpus.cursor() as cursor:
        found = cursor.execute(
            f"SELECT {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by}",
            list(picked.values),
        )
        names = [each[0] for each in found.description]
        while batch := found.fetchmany(BATCH):
            yield b"".join(_line(dict(zip(names, row, strict=True))) for row in batch)


def _line(row: JsonObject) -> bytes:
    known = {name: value for name, value in row.items() if value is not None}
    return json.dumps(known, ensure_ascii=False).encode() + b"\n"


def parquet(corpus: Corpus, items: Items, asked: Parameters, path: Path) -> None:
    """Write the selection to a local file."""
    picked, by = chosen(items, asked)
    with corpus.cursor() as cursor:
        target = str(path).replace("'", "''")
        cursor.execute(
            f"COPY (SELECT {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by}) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)",
            list(picked.values),
        )


def archive(corpus: Corpus, items: Items, asked: Parameters, path: Path) -> None:
    """Write a zip to a local file: `<id>.wav` of each clip whose audio is left, and `items.jsonl`;
    ConfigError if it would hold more than CLIPS."""
    picked, by = chosen(items, asked)
    rows = corpus.rows(
        f"SELECT item, {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by} "
        f"LIMIT {CLIPS + 1}",
        picked.values,
    )
    if len(rows) > CLIPS:
        raise ConfigError(f"a zip holds up to {CLIPS} clips; choose fewer, or export a table")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as whole:
        lines = io.BytesIO()
        for row in rows:
            item = row.pop("item")
            name = f"{row['id'] or f'item-{item}'}.wav"
            try:
                whole.writestr(name, write_wav_bytes(*clip.audio_of(corpus, items, item)))
                row["audio"] = name
            except Gone as error:
                row["audio_missing"] = str(error)
            lines.write(_line(row))
        whole.writestr("items.jsonl", lines.getvalue())
