"""Captions: SubRip (`.srt`), WebVTT (`.vtt`), SubStation (`.ass`), YouTube's SBV, LRC of lyrics,
and TTML (DFXP)."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from xml.parsers import expat

from ...base.errors import ItemError
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues

_CLOCK = r"((?:\d{1,3}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,3})?)"
_TIMES = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?")
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")  # blocks of WebVTT
_SBV = re.compile(r"\s*(\d{1,2}:\d{2}:\d{2}\.\d{1,3}),(\d{1,2}:\d{2}:\d{2}\.\d{1,3})\s*")
_LRC = re.compile(r"\[(\d{1,3}:\d{2}(?:[.:]\d{1,3})?)\]")
_LRC_OFFSET = re.compile(r"\[offset:\s*([+-]?\d{1,6})\s*\]", re.IGNORECASE)
_LRC_WORD = re.compile(r"<\d{1,3}:\d{2}(?:[.:]\d{1,3})?>")
_TTML_CLOCK = re.compile(r"(\d{2,}):(\d{2}):(\d{2})(?:(\.\d+)|:(\d{2,}))?")
_OFFSET = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|f|t)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
FRAMES = 30.0  # a second, where a TTML states none


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


def sbv(text: str) -> Cues:
    """SBV: `0:00:01.000,0:00:03.500`, the text in the lines below, and an empty line."""
    cues = Cues()
    lines = text.splitlines()
    starts = [(n, times) for n, line in enumerate(lines) if (times := _SBV.fullmatch(line))]
    if not starts:
        raise ItemError(BAD_TEXT, "it has no line with times (0:00:01.000,0:00:02.000)")
    for (n, times), following in zip(starts, [*(n for n, _ in starts[1:]), None], strict=True):
        cues.add(Cue(clock(times[1]), clock(times[2]), "\n".join(lines[n + 1 : following])))
    return cues


def lrc(text: str) -> Cues:
    """LRC: `[00:12.00]text`, each up to the next time; lines of several times are repeated."""
    stated = _LRC_OFFSET.search(text)
    early = int(stated[1]) / 1000 if stated else 0.0
    timed: list[tuple[float, str]] = []
    for line in text.splitlines():
        begins = [max(clock(_dotted(time)) - early, 0.0) for time in _LRC.findall(line)]
        timed += [(start, _LRC_WORD.sub("", _LRC.sub("", line)).strip()) for start in begins]
    if not timed:
        raise ItemError(BAD_TEXT, "it has no line that begins with a time ([00:12.00])")
    timed.sort(key=lambda line: line[0])
    cues = Cues()
    for (start, words), (end, _) in pairwise([*timed, (None, "")]):
        if words:
            cues.add(Cue(start or 0.0, end, words))
    return cues


def _dotted(time: str) -> str:
    """`01:02:33`, as some write hundredths, as `01:02.33`."""
    minutes, seconds, *hundredths = time.split(":")
    return f"{minutes}:{seconds}.{hundredths[0]}" if hundredths else time


class _Ttml:
    """Collects the paragraphs of a TTML."""

    def __init__(self) -> None:
        self.cues, self.frames, self.ticks = Cues(), FRAMES, 1.0
        self._times: dict[str, str] | None = None
        self._said: list[str] = []

    def begin(self, tag: str, named: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        plain = {key.rpartition(":")[2]: value for key, value in named.items()}
        if name == "tt":
            self.frames = float(plain.get("frameRate", FRAMES)) or FRAMES
            self.ticks = float(plain.get("tickRate", 1)) or 1.0
        elif name == "p":
            self._times, self._said = plain, []
        elif name == "br":
            self._said.append("\n")

    def text(self, characters: str) -> None:
        if self._times is not None:
            self._said.append(characters.replace("\n", " "))

    def end(self, tag: str) -> None:
        if tag.rpartition(":")[2] != "p" or self._times is None:
            return
        times, self._times = self._times, None
        start = self._seconds(times.get("begin", ""))
        last = self._seconds(times.get("end", ""))
        length = self._seconds(times.get("dur", ""))
        if last is None and start is not None and length is not None:
            last = start + length
        if start is None or last is None:
            self.cues.wrong["without a time"] += 1
        else:
            self.cues.add(Cue(round(start, 3), round(last, 3), "".join(self._said).strip()))

    def _seconds(self, text: str) -> float | None:
        if by_clock := _TTML_CLOCK.fullmatch(text):
            hours, minutes, seconds, fraction, frames = by_clock.groups()
            rest = float(fraction or 0) + int(frames or 0) / self.frames
            return 3600 * int(hours) + 60 * int(minutes) + int(seconds) + rest
        if (by_unit := _OFFSET.fullmatch(text)) is None:
            return None
        units = {**_UNITS, "f": 1 / self.frames, "t": 1 / self.ticks}
        return float(by_unit[1]) * units[by_unit[2]]


def ttml(data: bytes) -> Cues:
    """TTML: `<p begin="00:00:01.000" end="00:00:02.000">text</p>`. ItemError `bad_text`, also if it
    declares entities."""
    reader = _Ttml()
    read_xml(data, reader.begin, reader.text, reader.end, "it is not TTML")
    return reader.cues


def read_xml(
    data: bytes,
    begin: Callable[[str, dict[str, str]], object],
    text: Callable[[str], object],
    end: Callable[[str], object],
    fault: str,
) -> None:
    """Calls these with each tag, its attributes, and text. ItemError `bad_text` that begins with
    `fault`, also if the file declares entities."""
    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = _refuse_entities
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ItemError(BAD_TEXT, f"{fault}: {error}") from None


def _refuse_entities(*_: object) -> None:
    """XML entities may stand for gigabytes, or for files of this machine."""
    raise ItemError(BAD_TEXT, "it declares XML entities, which are not read")
