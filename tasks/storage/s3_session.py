"""S3's HTTP sessions, which follow no redirect; imported where a URL of S3 is named.

A module of its own, because workers get the class by its name.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from aiobotocore.httpsession import AIOHTTPSession


class Staying(AIOHTTPSession):  # type: ignore[misc]  # it has no types
    """aiobotocore's session follows redirects, unlike botocore's, which finds a bucket's region by
    itself."""

    async def _get_session(self, proxy_url: str | None) -> SimpleNamespace:
        session = await super()._get_session(proxy_url)
        return SimpleNamespace(request=partial(session.request, allow_redirects=False))
