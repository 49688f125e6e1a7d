"""Hides credentials wherever settings or messages leave the process: the models when they are
serialised (dataset.json, a run's settings, Prefect's parameters), every `MillError`, every log
record.

Of a URL, only parts that are known to be harmless stay: `scheme://host/path`, and a few fields of
the query (PUBLIC). All other parts may grant access, whatever their names. Outside URLs, values of
settings named like a secret are hidden, and so is the text after such a name and `=`.

Control characters in names and texts that people read are escaped: terminal codes, line breaks,
lone surrogates, or marks that reverse the direction of text (`\\u202e`) would forge lines, or show
another name.
"""

from __future__ import annotations

import json
import logging
import re
from functools import lru_cache
from typing import Any

#: Controls, line and paragraph separators, lone surrogates, and marks that override or isolate a
#: direction. Combining marks and joiners stay: scripts and emoji need them.
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """The text on one line, with control characters as Python escapes: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def json_line(value: object) -> str:
    """The value as one line of JSON that parses back exactly and is safe to print."""
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


HIDDEN = "***"
#: Fields of a query that choose what is read and grant nothing.
PUBLIC = {"format", "lang", "language", "page", "part", "rev", "revision", "version"}

#: Names of settings whose values grant access. `key` alone is a path (TLS) or a name (S3);
#: `access_key` is not a secret without its partner, but names an account.
_SECRET = (
    r"(?:[a-z0-9]+[_-])*(?:password|passwd|pwd|passphrase|secret|token|credential|credentials"
    r"|signature|sas|apikey|(?:api|account|shared|storage|secret|private|signing|encryption)[_-]?key"
    r"|access[_-]?key(?:[_-]?id)?|auth|auth[_-]string|authorization|bearer|connection[_-]string)"
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNED = re.compile(rf"(?<![\w-])({_SECRET}=)[^\s&;,'\"]+", re.IGNORECASE)

#: The start of a URL, also with one slash missing, or without a scheme before `user:word@`.
_START = (
    r"(?:[A-Za-z][A-Za-z0-9+.-]{0,30}://|(?:https?|s3a?|gc?s|az|abfss?|s?ftp|smb):[/\\]"
    r"|(?<![\w:/\\.-])[/\\]{2}(?=[^\s/\\:@]{0,64}:\S{0,512}@))[/\\]*"
)
_URL = re.compile(rf"(?P<start>{_START})(?P<rest>\S*)")
_MAY_HIDE = re.compile("[:=]")  # what a URL or an assignment has
_WHOLE_URL = re.compile(rf"(?P<start>\s*{_START})(?P<rest>.*)", re.DOTALL)
#: A password that contains a space reaches beyond the end of the URL.
_SPACED = re.compile(
    rf"(({_START})[^\s/@:]{{0,64}}:(?!\d{{1,5}}\b)(?:[^\s@]{{1,256}}\s|[\t\r\n])[^@]{{0,256}})(?=@)"
)
#: A host and port, or an S3 access point, with the punctuation that a sentence puts around it; no
#: `%`, which hides other characters.
_HOST = re.compile(
    r"[^\w@%:.\[-]*+(?:\[[0-9A-Fa-f:.]+\]|arn:[\w:.-]*+|[\w.-]*+)(?::\d{1,5})?[^\w@%]*"
)
#: Azure's container stands where others have the user.
_CONTAINER = re.compile(r"[a-z0-9$-]{1,63}@[a-z0-9-]+\.(?:dfs|blob)\.[a-z.]+")
_BEHIND_PATH = re.compile(r"[?#]|%3f|%23|[;&](?=[^/\s]{0,64}=)", re.IGNORECASE)
_CLOSING = "'\")]}>,.;:"
_PUBLIC_FIELD = re.compile(rf"(?:{'|'.join(sorted(PUBLIC))})=[\w.-]{{1,16}}")


@lru_cache(maxsize=4096)  # settings are written several times a run
def is_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret: `hf_token`, `accountKey`."""
    return _SECRET_NAME.fullmatch(_CAMEL.sub("_", name)) is not None


def text(words: str) -> str:
    """The text with credentials hidden."""
    if "//" in words or ":" in words:
        # Group 2 is the start of the URL.
        words = _SPACED.sub(rf"\g<2>{HIDDEN}", words)
        words = _URL.sub(_shown, words)
    return _ASSIGNED.sub(rf"\g<1>{HIDDEN}", words) if "=" in words else words


def address(words: str) -> str:
    """A text that is one URL, masked up to its end, even if it contains spaces."""
    match = _WHOLE_URL.fullmatch(words)
    return _shown(match) if match else text(words)


def is_address(words: str) -> bool:
    """Whether the text is a URL, or meant to be one."""
    return _WHOLE_URL.fullmatch(words) is not None


def _shown(match: re.Match[str]) -> str:
    rest = _without_user(match["rest"])
    mark = _BEHIND_PATH.search(rest)
    if mark is None:
        return f"{match['start']}{rest}"
    behind = rest[mark.end() :]
    fields = behind.rstrip(_CLOSING)
    shown = fields and HIDDEN
    if mark[0] == "?":
        given = [field for field in re.split("[&;]", fields) if field]
        public = [field for field in given if _PUBLIC_FIELD.fullmatch(field)]
        shown = "&".join([*public, *([HIDDEN] if len(public) < len(given) else [])])
    return f"{match['start']}{rest[: mark.end()]}{shown}{behind[len(fields) :]}"


def _without_user(rest: str) -> str:
    """What follows `scheme://`, with user and password hidden; all of it if the host is not
    valid."""
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    before, sign, behind = rest.rpartition("@")
    if _CONTAINER.fullmatch(host):
        return rest
    if not _HOST.fullmatch(host):
        return f"{HIDDEN}@{behind}" if sign else HIDDEN
    return f"{HIDDEN}@{behind}" if sign and ":" in re.split(r"[?#]", before)[0] else rest


def sentence(words: str) -> str:
    """A message masked and on one line, without control characters."""
    return escaped(text(words))


def lines(words: str) -> str:
    """Masks a text of several lines, such as a traceback, line by line."""
    return "\n".join(map(sentence, words.split("\n")))


def value(data: Any, name: str = "") -> Any:
    """JSON-like data without secrets: strings under a secret's name become `***`, others are
    masked."""
    if isinstance(data, str):
        if data and is_secret(name):
            return HIDDEN
        return address(data) if _MAY_HIDE.search(data) else data
    if isinstance(data, list | tuple):
        return type(data)(value(inner, name) if inner else inner for inner in data)
    if not isinstance(data, dict):
        return data
    inherited = name if is_secret(name) else None
    return {
        text(key) if isinstance(key, str) and not key.isidentifier() else key: value(
            inner, inherited or str(key)
        )
        if isinstance(inner, str | list | tuple | dict)
        else inner
        for key, inner in data.items()
    }


class Filter(logging.Filter):
    """Masks the records of a log handler, arguments and tracebacks included."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = sentence(record.getMessage()), None
        if record.exc_info:
            record.exc_text = lines(logging.Formatter().formatException(record.exc_info))
        return True
