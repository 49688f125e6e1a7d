"""A Prefect server that prepares only those of its routes that are asked for.

FastAPI prepares the routes of a router when it first looks for a path there, and looks in one
router after the other: the first requests of a run would prepare almost all of the server's 190
routes, a tenth of what the server costs a short run. Here a router whose prefix is not that of the
path is passed over.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from fastapi import APIRouter
from prefect.server.utilities.server import PrefectRouter
from starlette.routing import Match


def look_by_prefix() -> None:
    """From now on, in this process; for all of Prefect's routers."""
    PrefectRouter.matches = _matches  # type: ignore[method-assign]


def _matches(
    self: APIRouter, scope: MutableMapping[str, Any]
) -> tuple[Match, MutableMapping[str, Any]]:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if not path.startswith(self.prefix):
        return Match.NONE, {}
    return APIRouter.matches(self, scope)
