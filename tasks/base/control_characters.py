"""Control characters of names and texts as escapes, wherever people read them.

A name may hold terminal codes, line breaks, lone surrogates, or marks that turn the direction of
what follows (`\\u202e`): raw, they would move the cursor, forge lines, or show another name.
"""

from __future__ import annotations

import json
import re

#: Controls, ends of lines and paragraphs, lone surrogates, and what overrides or isolates a
#: direction. Marks and joiners stay: scripts and emoji need them.
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """On one line, as Python writes them: `\\n` for a newline, `\\x1b` for ESC."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def json_line(value: object) -> str:
    """A value as one line of JSON, which programs read exactly and terminals show."""
    text = json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
