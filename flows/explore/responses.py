"""Responses of the explorer: JSON, errors as one sentence each, and files.

A response too large for memory is first written to a file, then sent from it. So an error while the
file is written is a response with a sentence; an error while it is sent breaks the connection
before `Content-Length` is reached, which every client notices.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import duckdb
import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from ...tasks.audio import write_wav_bytes
from ...tasks.base.errors import ConfigError, MillError, UnsafePlace
from ...tasks.base.json_types import JsonObject, JsonValue
from ...tasks.storage import owners
from ...tasks.storage.queries import literal
from . import clip, query
from .corpus import Corpus, Ended, Gone, Items
from .loading import first_line
from .query import Choice, Parameters

Handler = Callable[[Request, Exception], Response]


def answer(data: JsonValue, status: int = 200) -> Response:
    return Response(written(data), status, media_type="application/json")


def written(data: JsonValue, separators: tuple[str, str] = (",", ":")) -> bytes:
    """JSON as UTF-8. A lone surrogate, as in Python's form of a file name that is not UTF-8, cannot
    be encoded: then all non-ASCII characters are escaped."""
    form: Any = {"separators": separators, "allow_nan": False}
    try:
        return json.dumps(data, ensure_ascii=False, **form).encode()
    except UnicodeEncodeError:
        return json.dumps(data, **form).encode()


def parsed(text: str | bytes, what: str = "the request") -> JsonValue:
    """JSON of a request; ConfigError if it is not JSON, or cannot be written as UTF-8."""
    try:
        value: JsonValue = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply for JSON") from None
    except UnicodeEncodeError:
        raise ConfigError(
            f"{what} has half of a surrogate pair in a text; no file can hold that"
        ) from None
    except ValueError:
        raise ConfigError(f"{what} is not JSON") from None
    return value


def _failed(status: int, sentence: Callable[[Exception], str] = str) -> Handler:
    return lambda request, error: answer({"error": sentence(error)}, status)


_BROKEN = _failed(
    500, lambda error: f"DuckDB cannot read its file any more; start again: {first_line(error)}"
)
#: The response to each kind of error. `duckdb.Error`: an invalid pattern, or a value that does not
#: fit its column.
HANDLERS: dict[Any, Any] = {
    Gone: _failed(404),
    Ended: _failed(503),
    ConfigError: _failed(400),
    UnsafePlace: _failed(400),
    MillError: _failed(500),
    OSError: _failed(500, lambda error: owners.words(error, tempfile.gettempdir())),
    duckdb.Error: _failed(400, lambda error: f"the query was refused: {first_line(error)}"),
    pa.ArrowException: _failed(
        400, lambda error: f"a table holds other types than those published: {first_line(error)}"
    ),
    duckdb.InterruptException: _failed(503, lambda _: "the explorer ends"),
    duckdb.IOException: _BROKEN,
    duckdb.FatalException: _BROKEN,
    ClientDisconnect: _failed(400, lambda _: "the client closed the connection"),
    HTTPException: lambda _, error: answer({"error": error.detail}, error.status_code),
}


class Sent(FileResponse):
    """A file in the folder `home` that `write` fills, or a range of it; deleted however the
    response ends."""

    def __init__(
        self,
        home: Path,
        write: Callable[[IO[bytes]], object],
        kind: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
            try:
                write(cast(IO[bytes], file))
            except BaseException:
                os.unlink(file.name)
                raise
        super().__init__(file.name, headers=headers, media_type=kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.unlink(self.path)


# A selection as a file: JSON lines, Parquet, or a zip of its audio and a list.


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
            # Only an id of uttermill's form: others could lead a zip's reader to another folder.
            plain = re.fullmatch(r"[A-Za-z0-9_-]{1,200}", row["id"] or "")
            name = f"{row['id']}.wav"
            name = name if plain and name not in taken else f"item-{item}.wav"
            taken.add(name)
            try:
                whole.writestr(name, write_wav_bytes(*clip.audio_of(corpus, items, item)))
                row["audio"] = name
            except Gone as error:
                row["audio_missing"] = str(error)
            lines.write(_line(row))
        whole.writestr("items.jsonl", lines.getvalue())


#: Content types and writers, by ending.
KINDS: dict[str, tuple[str, Callable[[Corpus, Items, Parameters, IO[bytes]], None]]] = {
    "jsonl": ("application/x-ndjson", jsonl),
    "parquet": ("application/vnd.apache.parquet", parquet),
    "zip": ("application/zip", archive),
}
