"""Names of recordings and files as valid UTF-8 text: exact, unique and reversible. Python decodes
bytes that are not UTF-8 with surrogate escapes (`os.fsdecode`), which manifests, JSON and terminals
cannot hold."""

from __future__ import annotations

import hashlib
import os
import re

REST = "!rest"  # suffix for the part of a container that could not be listed
_ESCAPE = re.compile(rb"\\x[0-9a-f]{2}")

#: A valid name that ends like a hashed one is hashed too, so that no file can forge another's name.
_LOOKS_HASHED = re.compile(r"~[0-9a-f]{12}\Z")


def printable(path: str) -> str:
    """A file name as valid UTF-8 for manifests: unchanged if it is valid, without `\\xNN`. In
    others, bytes that are not UTF-8 become `\\xNN`, and every backslash `\\x5c`."""
    raw = os.fsencode(path)
    shown = raw.replace(b"\\", rb"\x5c").decode("utf-8", "backslashreplace")
    try:
        return shown if _ESCAPE.search(raw) else raw.decode("utf-8")
    except UnicodeDecodeError:
        return shown


def display_text(raw: str) -> str:
    """`printable`, extended to lone surrogates from JSON that no file name can hold."""
    try:
        return printable(raw)
    except UnicodeEncodeError:
        return raw.encode("utf-8", "backslashreplace").decode("utf-8")


def is_utf8(raw: str) -> bool:
    """Whether a string encodes as UTF-8: it holds neither surrogate escapes nor lone surrogates."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def recording_name(raw: str) -> str:
    """The dataset's name of a recording from its raw relative path: valid UTF-8, unique. Invalid
    ones are escaped and get a hash of their bytes, so that the byte 0xFF and a file literally
    called `\\xff` differ."""
    if is_utf8(raw) and not ("~" in raw and _LOOKS_HASHED.search(raw)):
        return raw
    return _hashed(display_text(raw), raw)


def safe_name(raw: str) -> str:
    """`recording_name` for names from keys, tar members and lists: no leading `/`, `.` or `..`. A
    name that had to change gets a hash of the original."""
    kept = "/".join(part for part in raw.split("/") if part not in ("", ".", ".."))
    if raw and kept == raw:
        return recording_name(raw)
    return _hashed(display_text(kept) or "unnamed", raw)


def _hashed(shown: str, raw: str) -> str:
    return f"{shown}~{hashlib.sha256(raw.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
