"""Hides credentials wherever settings or messages leave the process.

It hides the user and password of a URL (`s3://***@bucket/x`), values of query fields that grant
access, and values of settings named like a secret. Everything that writes settings or messages uses
this module: the models when they are serialised (dataset.json, the settings of a run, Prefect's
parameters), every `MillError`, and every log record.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from typing import Any

HIDDEN = "***"
#: Unicode categories of control characters, lone surrogates, and line and paragraph separators.
_CONTROL = ("Cc", "Cs", "Zl", "Zp")

#: Names of settings and of query fields whose values grant access. `key` alone is a path (TLS) or
#: a name (S3); `access_key` is not a secret without its partner, but names an account.
_SECRET = (
    r"(?:[a-z0-9]+[_-])*(?:password|passwd|pwd|secret|token|credential|credentials|signature"
    r"|apikey|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|auth"
    r"|auth[_-]string|authorization|bearer)"
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
#: The scheme and what stands before the last `@` of the host part.
_USER = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#]*@")
#: Azure's `sig` is a secret in a query only: the setting `max_sig` is a limit.
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
    """A message masked and on one line. Names from sources may hold line breaks, terminal codes and
    invalid text, which would forge lines of a log or break it."""
    shown = text(words)
    if shown.isprintable():
        return shown
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in _CONTROL else c for c in shown)


def value(found: Any, name: str = "") -> Any:
    """JSON-like data without secrets: strings named like a secret become `***`, others are masked.
    Numbers stay: `max_sig` is a limit."""
    if isinstance(found, dict):
        return {key: value(inner, str(key)) for key, inner in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(value(inner, name) for inner in found)
    if not isinstance(found, str):
        return found
    return HIDDEN if found and is_secret(name) else text(found)


class Filter(logging.Filter):
    """Masks the records of a log handler, arguments and tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = sentence(record.getMessage()), None
        if record.exc_info:
            record.exc_text = text(logging.Formatter().formatException(record.exc_info))
        return True
