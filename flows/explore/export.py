"""A selection as a file: JSON lines, Parquet, or a zip of its audio and a list."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import IO

from ...tasks.audio import write_wav_bytes
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.storage.queries import literal
from . import clip, query
from .corpus import Corpus, Gone, Items
from .query import Choice, Parameters
from .responses import written

CLIPS = 2000  # of a zip, at most


def chosen(items: Items, asked: Parameters) -> tuple[Choice, str]:
    """The items and their order; `item=` chooses single ones."""
    single = [query.integer({"item": value}, "item") for key, value in asked if key == "item"]
    picked = query.choice(items.columns, asked)
    if single:
        marks = ", ".join("?" * len(single))
        picked = Choice(f"item IN ({marks})", tuple(single))
    return picked, query.order(items.columns, dict(asked).get("sort"))


def jsonl(corpus: Corpus, items: Items, asked: Parameters, file: IO[bytes]) -> None:
    """One JSON object per line, without columns that are null."""
    picked, by = chosen(items, asked)
    sql = f"SELECT {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by}"
    for batch in corpus.batches(sql, picked.values):
        file.writelines(map(_line, batch))


def _line(row: JsonObject) -> bytes:
    cells = {name: value for name, value in row.items() if value is not None}
    return written(cells, (", ", ": ")) + b"\n"


def parquet(corpus: Corpus, items: Items, asked: Parameters, file: IO[bytes]) -> None:
    """One row an item, with all columns."""
    picked, by = chosen(items, asked)
    with corpus.cursor() as cursor:
        cursor.execute(
            f"COPY (SELECT {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by}) "
            f"TO {literal(file.name)} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)",
            list(picked.values),
        )


def archive(corpus: Corpus, items: Items, asked: Parameters, file: IO[bytes]) -> None:
    """`<id>.wav` of each clip with audio, and `items.jsonl`; ConfigError for more than CLIPS."""
    picked, by = chosen(items, asked)
    rows = corpus.rows(
        f"SELECT item, {items.listed} FROM {items.name} WHERE {picked.sql} ORDER BY {by} "
        f"LIMIT {CLIPS + 1}",
        picked.values,
    )
    if len(rows) > CLIPS:
        raise ConfigError(f"a zip holds up to {CLIPS} clips; choose fewer, or export a table")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as whole:
        lines, taken = io.BytesIO(), set[str]()
        for row in rows:
            item = row.pop("item")
            plain = _is_plain(row["id"]) and f"{row['id']}.wav" not in taken
            taken.add(name := f"{row['id'] if plain else f'item-{item}'}.wav")
            try:
                whole.writestr(name, write_wav_bytes(*clip.audio_of(corpus, items, item)))
                row["audio"] = name
            except Gone as error:
                row["audio_missing"] = str(error)
            lines.write(_line(row))
        whole.writestr("items.jsonl", lines.getvalue())


def _is_plain(key: str | None) -> bool:
    """Whether an id has uttermill's form: others could lead a zip's reader to another folder."""
    return key is not None and re.fullmatch(r"[A-Za-z0-9_-]{1,200}", key) is not None


#: Content types and writers, by ending.
KINDS: dict[str, tuple[str, Callable[[Corpus, Items, Parameters, IO[bytes]], None]]] = {
    "jsonl": ("application/x-ndjson", jsonl),
    "parquet": ("application/vnd.apache.parquet", parquet),
    "zip": ("application/zip", archive),
}
