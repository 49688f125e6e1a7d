"""Credentials never leave the process: one owner of what is hidden wherever settings are written.

Hidden are the user and password of a URL (`s3://***@bucket/x`), the values of those parts of its
query that grant access, and the value of any setting that is called like a secret. Whatever writes
settings or messages goes through here: the models' own serialising (dataset.json, the settings of
a run, Prefect's parameters), every `MillError`, and each record of the log.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from typing import Any

HIDDEN = "***"
#: Categories of control characters, lone surrogates, and separators of lines and paragraphs.
_CONTROL = ("Cc", "Cs", "Zl", "Zp")

#: Names of settings and of query fields whose values grant access. `key` alone is a path (TLS) or
#: a name (S3); `access_key` is no secret without its partner, but names an account.
_SECRET = (
    r"(?:[a-z0-9]+[_-])*(?:password|passwd|pwd|secret|token|credential|credentials|signature"
    r"|apikey|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|auth"
    r"|auth[_-]string|authorization|bearer)"
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
#: Azure's `sig` is one in a query only: as a setting, `max_sig` is a limit.
#: The scheme and what stands before the last `@` of the host part.
_USER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#]*@")
_QUERY = re.compile(rf"(?P<name>[?&;](?:sig|{_SECRET})=)[^&;#\s'\"]+", re.IGNORECASE)
_QUERY_X = re.compile(r"(?P<name>[?&]X-(?:Amz|Goog)-[A-Za-z-]+=)[^&#\s'\"]+", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


def text(words: str) -> str:
    """A text without the credentials of the URLs in it; anything else unchanged."""
    if "://" not in words:
        return words
    words = _USER.sub(rf"\g<scheme>{HIDDEN}@", words)
    words = _QUERY.sub(rf"\g<name>{HIDDEN}", words)
    return _QUERY_X.sub(rf"\g<name>{HIDDEN}", words)


def sentence(words: str) -> str:
    """A message on one line, masked: names from sources may hold line breaks, terminal codes and
    bytes that are no text, which would forge lines of a log or end its writing."""
    shown = text(words)
    if shown.isprintable():
        return shown
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in _CONTROL else c for c in shown)


def value(found: Any, name: str = "") -> Any:
    """JSON-like data without secrets: texts that are some by name become `***`, others are masked.
    Numbers stay: `max_sig` is a limit."""
    if isinstance(found, dict):
        return {key: value(inner, str(key)) for key, inner in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(value(inner, name) for inner in found)
    if not isinstance(found, str):
        return found
    return HIDDEN if found and is_secret(name) else text(found)


class Filter(logging.Filter):
    """On a handler: its records are masked, arguments and tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = sentence(record.getMessage()), None
        if record.exc_info:
            record.exc_text = text(logging.Formatter().formatException(record.exc_info))
        return True
