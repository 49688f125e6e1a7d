"""Redirects: followed at the same HTTP server, refused to another one; of S3 never followed.

A setting names a host. Were its answers followed elsewhere, it could have read what this machine
reaches and it does not: the services of a cloud's own network, say.
"""

from __future__ import annotations

import errno
from functools import cache, partial
from types import SimpleNamespace
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
    here = str(asked.url.origin())
    try:
        there = here if to is None else str(asked.url.join(URL(to)).origin())
    except ValueError:
        there = "what is no address"
    if here != there:
        asked.response.close()
        reason = f"{here} redirects to {there}, and only a host that the settings name is asked"
        raise Redirected(errno.EACCES, reason)


@cache
def _s3_session() -> type:
    """aiobotocore's, which follows redirects, unlike botocore. That finds a bucket's region by
    itself."""
    from aiobotocore.httpsession import AIOHTTPSession

    class Staying(AIOHTTPSession):  # type: ignore[misc]  # it has no types
        async def _get_session(self, proxy_url: str | None) -> SimpleNamespace:
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    return Staying


def options(scheme: str) -> dict[str, Any]:
    """fsspec's options for a scheme. ImportError if its library is missing."""
    if scheme in ("http", "https"):  # links of a listing lead to files below it only
        return {"get_client": _client, "same_scheme": False}
    if scheme in ("s3", "s3a"):
        return {"config_kwargs": {"http_session_cls": _s3_session()}}
    return {}


def refuse(error: BaseException | None) -> None:
    """Raise the `Redirected` that an error of a library hides, if there is one."""
    while error is not None:
        if isinstance(error, Redirected):
            raise error
        error = error.__cause__
