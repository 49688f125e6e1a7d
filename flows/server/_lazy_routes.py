"""A Prefect server that prepares its routes only when they are requested.

Preparing a route means building the pydantic models of its parameters, body and answer. FastAPI
prepares each of the server's 190 routes when its module is imported, and once more when it first
looks for a path in the router that holds it; and it looks in one router after the other. A short
run requests some twenty routes. Here a route is prepared when anything but its path and name is
first read, and a router whose prefix is not that of the path is skipped. An unusual path still
finds its route, which is then prepared.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from fastapi import APIRouter
from prefect.server.utilities import server
from starlette.routing import Match, get_name


def prepare_late() -> None:
    """Prepare routes late from now on. Call it before anything imports Prefect's API."""
    server.PrefectAPIRoute = LateRoute  # type: ignore[misc]
    server.PrefectRouter.matches = _matches  # type: ignore[method-assign]


class LateRoute(server.PrefectAPIRoute):
    """A route that is made when an attribute other than its path and name is first
    read.

    Requests are served by one thread, and FastAPI holds a lock while it prepares a router, so no
    two threads make a route at the same time.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        # What `include_router` reads.
        self.path = path
        self.name = get_name(endpoint) if (name := options.get("name")) is None else name
        self._given = (path, endpoint, options)

    def __getattr__(self, name: str) -> Any:
        if (given := self.__dict__.pop("_given", None)) is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        path, endpoint, options = given
        super().__init__(path, endpoint, **options)
        return getattr(self, name)


def _matches(
    self: APIRouter, scope: MutableMapping[str, Any]
) -> tuple[Match, MutableMapping[str, Any]]:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    if not path.startswith(self.prefix):
        return Match.NONE, {}
    return APIRouter.matches(self, scope)
