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


def asked(request: Request) -> list[tuple[str, str]]:
    return request.query_params.multi_items()


def answer(data: Any, status: int = 200) -> Response:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def _failed(status: int) -> Callable[[Request, Exception], Response]:
    def handler(request: Request, error: Exception) -> Response:
        return answer({"error": str(error)}, status)

    return handler


def _refused_by_duckdb(request: Request, error: Exception) -> Response:
    """A pattern that is none, or a value that does not fit its column."""
    return answer({"error": f"the query was refused: {str(error).splitlines()[0]}"}, 400)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer({"error": error.detail}, error.status_code)


#: What an error is answered with.
HANDLERS: dict[Any, Any] = {
    Gone: _failed(404),
    ConfigError: _failed(400),
    MillError: _failed(500),
    OSError: _failed(500),
    duckdb.Error: _refused_by_duckdb,
    HTTPException: _http,
}
