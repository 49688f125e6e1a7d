"""Escapes control characters in names and texts that people read: terminal codes, line breaks, lone
surrogates, or marks that reverse the direction of text (`\\u202e`) would forge lines, or show
another name."""

from __future__ import annotations

import json
import re

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
