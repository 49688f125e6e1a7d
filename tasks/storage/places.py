"""Places: a `pathlib.Path`, or for a URL (`s3://bucket/key`) universal-pathlib's `UPath`.

Both take the same steps (`/`, `name`, `parent`). Whoever reads or writes asks the store of a place,
see `tasks.storage.of`. Nothing remote is imported before a URL is named.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import cast

from tasks import masking
from tasks.errors import ConfigError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_url(text: str) -> bool:
    return _SCHEME.match(text) is not None


def place(text: str) -> Path:
    """An absolute place, without asking the network.

    ConfigError if a URL is malformed, holds credentials, or needs a library that is missing.
    """
    if not is_url(text):
        return Path(os.path.abspath(text))
    if text.startswith("file://"):
        return Path(os.path.abspath(text.removeprefix("file://")))
    text = normal(text)
    try:
        import fsspec
        from upath import UPath

        fsspec.get_filesystem_class(text.split("://")[0])
        # fsspec's listings cache would show a store as it was.
        path = UPath(text, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise ConfigError(no_library(text, error)) from None
    return cast(Path, path)  # no Path, but it has the same steps; stores do the rest


def no_library(text: str, error: Exception) -> str:
    scheme = text.split("://")[0]
    what = f"{scheme}:// needs a library that is not installed ({error})"
    return f"{what}; pip install 'uttermill[s3]' brings s3fs" if scheme == "s3" else what


def normal(url: str) -> str:
    """A URL without a trailing slash, `.` or `..`; ConfigError with credentials or no bucket."""
    if masking.text(url) != url:
        raise ConfigError(
            f"the URL {masking.text(url)} holds credentials, which would be kept with the results; "
            "give them by the environment (AWS_ACCESS_KEY_ID, say)"
        )
    scheme, _, rest = url.partition("://")
    host, slash, key = rest.partition("/")
    if not host:
        raise ConfigError(f"the URL {url} names no bucket")
    key = posixpath.normpath(f"/{key}").lstrip("/") if slash else ""
    return f"{scheme}://{host}/{key}".rstrip("/")
