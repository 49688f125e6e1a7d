"""Responses of the explorer: JSON, errors as one sentence each, and files.

A response too large for memory is first written to a file, then sent from it. So an error while the
file is written is a response with a sentence; an error while it is sent breaks the connection
before `Content-Length` is reached, which every client notices. A client that reads slowly, or not
at all, costs no thread and no memory.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import duckdb
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ...tasks.base.errors import ConfigError, MillError, UnsafePlace
from ...tasks.base.json_types import JsonValue
from ...tasks.storage import owners
from .corpus import Ended, Gone

Handler = Callable[[Request, Exception], Response]
BLOCK = 1 << 18  # bytes read at once


def asked(request: Request) -> list[tuple[str, str]]:
    return request.query_params.multi_items()


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


def _refused(error: Exception) -> str:
    """DuckDB's error for an invalid pattern, or for a value that does not fit its column."""
    return f"the query was refused: {str(error).splitlines()[0]}"


def _broken(error: Exception) -> str:
    return f"DuckDB cannot read its file any more; start again: {str(error).splitlines()[0]}"


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer({"error": error.detail}, error.status_code)


#: The response to each kind of error.
HANDLERS: dict[Any, Handler] = {
    Gone: _failed(404),
    Ended: _failed(503),
    ConfigError: _failed(400),
    UnsafePlace: _failed(400),
    MillError: _failed(500),
    OSError: _failed(500, lambda error: owners.words(error, tempfile.gettempdir())),
    duckdb.Error: _failed(400, _refused),
    duckdb.InterruptException: _failed(503, lambda _: "the explorer ends"),
    duckdb.IOException: _failed(500, _broken),
    duckdb.FatalException: _failed(500, _broken),
    ClientDisconnect: _failed(400, lambda _: "the client closed the connection"),
    HTTPException: _http,
}


class Sent(StreamingResponse):
    """`size` bytes of an open file, from its position; closes it however the response ends."""

    def __init__(
        self, file: IO[bytes], size: int, kind: str, headers: Mapping[str, str], status: int = 200
    ) -> None:
        sized = {**headers, "Content-Length": str(size)}
        super().__init__(_blocks(file, size), status, sized, kind)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


def made(home: Path, write: Callable[[IO[bytes]], object]) -> tuple[IO[bytes], int]:
    """(an open file in the folder `home`, its size): `write` fills it; closing deletes it."""
    file = cast(IO[bytes], tempfile.NamedTemporaryFile(dir=home))  # noqa: SIM115
    try:
        write(file)
        size = file.seek(0, 2)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, size


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        block = file.read(min(size, BLOCK))
        if not block:
            raise OSError("the file that is sent was cut short")
        size -= len(block)
        yield block
