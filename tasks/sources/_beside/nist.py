"""NIST's CTM (words with times) and STM (segments), and labels as Audacity exports them."""

from __future__ import annotations

import math
import re

from tasks.base.errors import ItemError
from tasks.recording import TimedWord
from tasks.sources._beside.cues import Cue, Cues, joined
from tasks.sources._lists import SILENT
from tasks.sources._text_encoding import BAD_TEXT

_LABEL = re.compile(r"(\d+(?:\.\d+)?)\t(\d+(?:\.\d+)?)(?:\t(.*))?")
NO_SPEECH = ("ignore_time_segment_in_scoring", "inter_segment_gap", "<excluded>")


def words(text: str, stem: str) -> Cues:
    """CTM: `file channel start duration word [confidence]`; all words are one cue."""
    rows = _rows(text, stem, 5, "file channel start duration word")
    spoken = []
    for _, _, start, duration, word, *_ in rows:
        if word not in SILENT and not word.startswith("<"):
            spoken.append(TimedWord(word, _number(start), _number(start) + _number(duration)))
    spoken.sort(key=lambda word: word.start)
    cues = Cues()
    if spoken:
        cues.add(Cue(0.0, None, joined(spoken), words=tuple(spoken)))
    return cues


def segments(text: str, stem: str) -> Cues:
    """STM: `file channel speaker start end [<label>] text`."""
    cues = Cues()
    for row in _rows(text, stem, 5, "file channel speaker start end text"):
        content = re.sub(r"^<[^<>]*>\s*", "", row[5]) if len(row) > 5 else ""
        if content.strip().lower() in NO_SPEECH or row[2].lower() in NO_SPEECH:
            content = ""
        cues.add(Cue(_number(row[3]), _number(row[4]), content, row[2]))
    return cues


def labels(text: str) -> Cues | None:
    """Audacity's: `start<tab>end<tab>text`; None if a line is none."""
    if "\t" not in text:
        return None
    cues = Cues()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\\\t")]
    for line in lines:
        label = _LABEL.fullmatch(line)
        if label is None:
            return None
        cues.add(Cue(float(label[1]), float(label[2]), label[3] or ""))
    return cues if lines else None


def _rows(text: str, stem: str, least: int, what: str) -> list[list[str]]:
    """The fields of the lines about a recording: of its name if several are named, else all."""
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
            raise ItemError(BAD_TEXT, f"none of its lines is about {stem}")
    if len(channels := sorted({row[1] for row in rows})) > 1:
        raise ItemError(
            BAD_TEXT,
            f"its lines are about the channels {', '.join(channels[:4])}, and a clip is of all; "
            "write each channel to a file of its own",
        )
    return rows


def _number(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ItemError(BAD_TEXT, f"{text[:20]!r} is no time in seconds")
    return seconds
