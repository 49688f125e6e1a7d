"""NIST's CTM (words with times) and STM (segments), and labels as Audacity exports them."""

from __future__ import annotations

import math
import re

from ...base.errors import ItemError
from ...recording import TimedWord
from ...recording.locator import Channels
from ...recording.tracks import channel_side
from .._lists import SILENT
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues, joined

_LABEL = re.compile(r"(\d+(?:[.,]\d+)?)\t(\d+(?:[.,]\d+)?)(?:\t(.*))?")
#: `{ um / uh / @ }`: of alternatives the first counts; `@` is silence.
_ALTERNATIVES = re.compile(r"\{(?:\s*@\s*|([^{}/]*))(?:/[^{}/]*)+\}")
NO_SPEECH = ("ignore_time_segment_in_scoring", "inter_segment_gap", "<excluded>")


def words(text: str, stem: str) -> Cues:
    """CTM: `file channel start duration word [confidence]`; all words of a channel are one cue.
    `%hesitation` and its like are sounds."""
    rows = _rows(text, stem, 5, "file channel start duration word")
    sides = _sides(rows)
    spoken: dict[Channels | None, list[TimedWord]] = {}
    later = False  # within the second or a later one of alternatives, of which the first counts
    for _, channel, start, duration, word, *_ in rows:
        mark = word.upper()
        if mark in ("<ALT>", "<ALT_BEGIN>", "<ALT_END>"):
            later = mark == "<ALT>"
        elif not later and word not in SILENT and not word.startswith(("<", "%", "@")):
            timed = TimedWord(word, _number(start), _number(start) + _number(duration))
            spoken.setdefault(sides[channel], []).append(timed)
    cues = Cues()
    for channels, heard in spoken.items():
        heard.sort(key=lambda word: word.start)
        cues.add(Cue(0.0, None, joined(heard), words=tuple(heard), channels=channels))
    return cues


def segments(text: str, stem: str) -> Cues:
    """STM: `file channel speaker start end [<label>] text`."""
    cues = Cues()
    rows = _rows(text, stem, 5, "file channel speaker start end text")
    sides = _sides(rows)
    for row in rows:
        content = re.sub(r"^<[^<>]*>\s*", "", row[5]) if len(row) > 5 else ""
        content = _ALTERNATIVES.sub(r"\1", content)
        if content.strip().lower() in NO_SPEECH or row[2].lower() in NO_SPEECH:
            content = ""
        times = _number(row[3]), _number(row[4])
        cues.add(Cue(*times, content, row[2], channels=sides[row[1]]))
    return cues


def labels(text: str) -> Cues | None:
    """Audacity: `start<tab>end<tab>text`; None if a line is something else."""
    if "\t" not in text:
        return None
    cues = Cues()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\\t")]
    for line in lines:
        label = _LABEL.fullmatch(line)
        if label is None:
            return None
        start, end = (float(time.replace(",", ".")) for time in label.groups()[:2])
        cues.add(Cue(start, end, label[3] or ""))
    return cues if lines else None


def _rows(text: str, stem: str, least: int, what: str) -> list[list[str]]:
    """The fields of the lines about the recording `stem`; all lines if they name only one."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";;"):
            continue
        row = line.split(None, least)
        if len(row) < least:
            raise ItemError(BAD_TEXT, f"line {number} is not `{what}`")
        rows.append(row)
    if len({row[0] for row in rows}) > 1:
        rows = [row for row in rows if row[0] == stem]
        if not rows:
            raise ItemError(BAD_TEXT, f"no line of it names the recording {stem}")
    return rows


def _sides(rows: list[list[str]]) -> dict[str, Channels | None]:
    """The channel that each name stands for; a single name stands for the whole file."""
    names = {row[1] for row in rows}
    if len(names) == 1:
        return dict.fromkeys(names)
    sides = {name: channel_side(name, names) for name in names}
    if unknown := sorted(name for name, channels in sides.items() if channels is None):
        raise ItemError(
            BAD_TEXT, f"{unknown[0][:20]!r} is not a channel: write A, B, or a number from 1"
        )
    return sides


def _number(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ItemError(BAD_TEXT, f"{text[:20]!r} is not a time in seconds")
    return seconds
