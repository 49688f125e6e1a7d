"""Subtitles: SubRip (`.srt`), WebVTT (`.vtt`), SubStation (`.ass`)."""

from __future__ import annotations

import re

from ...base.errors import ItemError
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues

_CLOCK = r"((?:\d{1,3}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?)"
_TIMES = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?")
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")  # blocks of WebVTT


def blocks(text: str) -> Cues:
    """SubRip and WebVTT: blocks of lines, each with times and text.

    A line of times begins a cue wherever it stands: some files lack the empty line before it.
    """
    cues = Cues()
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if "-->" in line]
    if not starts and not text.startswith("WEBVTT"):
        raise ItemError(BAD_TEXT, "it has no line with times (00:00:01,000 --> 00:00:02,000)")
    for n, following in zip(starts, [*starts[1:], None], strict=bool(starts)):
        times = _TIMES.fullmatch(lines[n])
        if times is None:
            cues.wrong["without a time"] += 1
            continue
        spoken = _said(lines[n + 1 : following], following is None)
        cues.add(Cue(clock(times[1]), clock(times[2]), "\n".join(spoken)))
    return cues


def _said(lines: list[str], last: bool) -> list[str]:
    """The text of a cue; `lines` may run into a comment, or into the next cue's number or name,
    which is one line. Texts may contain empty lines, and lines of blanks, which end nothing."""
    first = next((n for n, line in enumerate(lines) if not line), len(lines))
    filled = [n for n, line in enumerate(lines) if line.strip()]
    spoken: list[str] = []
    for order, n in enumerate(filled):
        apart = n > first and (order == 0 or filled[order - 1] != n - 1)
        named = not last and order == len(filled) - 1
        number = named and spoken and lines[n].strip().isdecimal()  # an empty line may be missing
        if number or (apart and (named or _NO_CUE.match(lines[n]))):
            break
        spoken.append(lines[n])
    return spoken


def clock(text: str) -> float:
    """Seconds of `01:02:03,450`, or `02:03.45`."""
    *higher, seconds = text.replace(",", ".").split(":")
    minutes = 0
    for part in higher:
        minutes = 60 * minutes + int(part)
    return round(60 * minutes + float(seconds), 3)


def substation(text: str) -> Cues:
    """SubStation: `Dialogue:` lines of its `[Events]`, whose `Format:` names the fields. Its `Name`
    is the speaker."""
    cues = Cues()
    fields: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.strip().lower() == "[events]"
        key, _, rest = line.partition(":")
        if inside and key == "Format":
            fields = [name.strip().lower() for name in rest.split(",")]
        elif inside and key == "Dialogue":
            cells = dict(zip(fields, rest.split(",", len(fields) - 1), strict=False))
            try:
                start, end = clock(cells["start"].strip()), clock(cells["end"].strip())
            except (KeyError, ValueError):
                cues.wrong["without a time"] += 1
                continue
            spoken = re.sub(r"\\[Nn]", "\n", cells.get("text", "")).replace("\\h", " ")
            drawn = re.search(r"\{[^{}]*\\p[1-9]", spoken)  # a picture, in words of its own
            spoken = re.sub(r"\{[^{}]*\}", "", spoken)  # tags and comments
            cues.add(
                Cue(start, end, "" if drawn else spoken, cells.get("name", "").strip() or None)
            )
    if not fields:
        raise ItemError(BAD_TEXT, "no [Events] with a Format line")
    return cues
