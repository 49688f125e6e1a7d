"""Redirects: followed at the same HTTP server, refused to another one; of S3 never followed.

A setting names a host. Were its answers followed elsewhere, it could have read what this machine
reaches and it does not: the services of a cloud's own network, say.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp


class Redirected(OSError):
    """A server sends us to another one; `strerror` names both."""


async def _client(**options: Any) -> aiohttp.ClientSession:
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_same_host)
    return aiohttp.ClientSession(trace_configs=[trace], **options)


async def _same_host(_: object, __: object, asked: aiohttp.TraceRequestRedirectParams) -> None:
    """Refuse another scheme, host or port. aiohttp calls it before it goes there."""
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
    if scheme in ("http", "https"):  # links of a listing lead to files below it only
        return {"get_client": _client, "same_scheme": False}
    if scheme in ("s3", "s3a"):
        from tasks.storage.s3_session import Staying

        return {"config_kwargs": {"http_session_cls": Staying}}
    return {}


def refuse(error: BaseException | None) -> None:
    """Raise the `Redirected` that an error of a library hides, if there is one."""
    while error is not None:
        if isinstance(error, Redirected):
            raise error
        error = error.__cause__
