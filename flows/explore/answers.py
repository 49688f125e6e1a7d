"""Answers of the explorer as JSON, and its errors as one sentence each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from flows.explore.corpus import Gone
from tasks.errors import ConfigError, MillError
from tasks.json_types import JsonValue

Handler = Callable[[Request, Exception], Response]


def asked(request: Request) -> list[tuple[str, str]]:
    return request.query_params.multi_items()


def answer(data: JsonValue, status: int = 200) -> Response:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def _failed(status: int, sentence: Callable[[Exception], str] = str) -> Handler:
    return lambda request, error: answer({"error": sentence(error)}, status)


def _refused(error: Exception) -> str:
    """DuckDB's error for an invalid pattern, or for a value that does not fit its column."""
    return f"the query was refused: {str(error).splitlines()[0]}"


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer({"error": error.detail}, error.status_code)


#: What an error is answered with.
HANDLERS: dict[Any, Handler] = {
    Gone: _failed(404),
    ConfigError: _failed(400),
    MillError: _failed(500),
    OSError: _failed(500),
    duckdb.Error: _failed(400, _refused),
    HTTPException: _http,
}
