"""Redirects: followed within one HTTP server, refused to any other; never followed for S3.

A setting names a host. If its redirects were followed anywhere, that host could read what only this
machine can reach: the internal services of a cloud, say.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp


class Redirected(OSError):
    """A server redirects to another one; `strerror` names both."""


async def _client(**options: Any) -> aiohttp.ClientSession:
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_same_host)
    return aiohttp.ClientSession(trace_configs=[trace], **options)


async def _same_host(_: object, __: object, asked: aiohttp.TraceRequestRedirectParams) -> None:
    """Refuse a redirect to another scheme, host or port. aiohttp calls it before following."""
    from yarl import URL

    to = asked.response.headers.get("Location") or asked.response.headers.get("URI")
    origin = str(asked.url.origin())
    try:
        target = origin if to is None else str(asked.url.join(URL(to)).origin())
    except ValueError:
        target = "what is no address"
    if origin != target:
        asked.response.close()
        reason = f"{origin} redirects to {target}, and only a host that the settings name is asked"
        raise Redirected(errno.EACCES, reason)


def options(scheme: str) -> Mapping[str, object]:
    """fsspec's options for a scheme. ImportError if its library is missing."""
    if scheme in ("http", "https"):  # follow a listing's links only to files below it
        return {"get_client": _client, "same_scheme": False}
    if scheme in ("s3", "s3a"):
        from .s3_session import Staying

        return {"config_kwargs": {"http_session_cls": Staying}}
    return {}


def refuse(error: BaseException | None) -> None:
    """Raise the `Redirected` among an error's causes, if there is one."""
    while error is not None:
        if isinstance(error, Redirected):
            raise error
        error = error.__cause__
