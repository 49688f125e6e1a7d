"""S3's HTTP sessions that follow no redirect; imported only when a URL of S3 is used.

A module of its own, because workers unpickle the class by its name.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from aiobotocore.httpsession import AIOHTTPSession


class Staying(AIOHTTPSession):  # type: ignore[misc]  # it has no types
    """aiobotocore's session follows redirects; botocore's does not, and finds a bucket's region by
    itself."""

    async def _get_session(self, proxy_url: str | None) -> SimpleNamespace:
        session = await super()._get_session(proxy_url)
        return SimpleNamespace(request=partial(session.request, allow_redirects=False))
