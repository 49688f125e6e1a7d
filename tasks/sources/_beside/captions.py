"""Captions: SubRip (`.srt`), WebVTT (`.vtt`), SubStation (`.ass`), YouTube's SBV, LRC of lyrics,
TTML (DFXP), MicroDVD (`.sub`), and the tables of Whisper (`.tsv`).

Not by pysubs2 (1.8.1, tried): it takes the name of a WebVTT cue for text, drops cues with broken
times without a count, fails a TTML with `dur`, expands XML entities, loses the times of words, and
has no LRC.
"""

import csv
import io
import math
import re
from collections.abc import Callable
from itertools import count, pairwise
from typing import TypeVar
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from ...base.errors import ItemError
from ...recording import TimedWord
from .._lists import clock
from .._text_encoding import BAD_TEXT
from .cues import Cue, Cues, NoTranscript

Result = TypeVar("Result")

#: Translators and word processors change what stands in a time, and between two.
_CLOCK = r"((?:\d{1,5}:)?\d{1,2}:\d{1,2}(?:\s?[.,]\s?\d{1,3}|:\d{3})?)"
_ARROW = r"(?:\s*(?:(?:--?|[–—])(?:>|&gt;)|→)\s*|(?:(?<=[.\d]\d\d)|(?<=\.\d)),)"
_TIMES = re.compile(rf"\s*{_CLOCK}{_ARROW}{_CLOCK}(?:\s.*)?")
_PRINTED = re.compile(rf"^\[{_CLOCK}{_ARROW}{_CLOCK}\](.*)", re.MULTILINE)  # by Whisper
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT|X-TIMESTAMP-MAP=.*)(?:\s|$)")  # of WebVTT
_HEADS = re.compile(r"^WEBVTT.*\n?(X-TIMESTAMP-MAP=.*)?", re.MULTILINE)  # of parts of a stream
_FROM_ZERO = re.compile(r"LOCAL:(?:00:)?00:00\.000")
#: Minutes and seconds, often with hundredths; hours before them where four numbers stand there.
_LRC = re.compile(r"\[((?:\d{1,2}:(?=\d\d:\d\d[.:]))?\d{1,3}:\d{2}(?:[.:]\d{1,3})?)\]")
_LRC_OFFSET = re.compile(r"\[offset:\s*([+-]?\d{1,6})\s*\]", re.IGNORECASE)
_LRC_WORD = re.compile(r"<(?:\d{1,2}:)?\d{1,3}:\d{2}(?:[.:]\d{1,3})?>")
_TTML_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{2})(?:([.,]\d+)|:(\d{2,})(?:\.\d+)?)?")
#: How words are read, beside them.
_READINGS = ("text", "textContainer", "delimiter")
_NTSC = 1000 / 1001  # of 30 or 24 frames a second
_OFFSET = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|f|t)|(\d+\.\d+)")  # lyrics lack the s
_FRAMES = re.compile(r"\{(\d{1,9})\}\{(\d{1,9})\}(.*)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
FRAMES = 30.0  # a second, where a TTML states none
HEAD = 4096  # characters
LEAST_CUE = 0.1  # s; a list of shorter cues only has other times than it should
MOST_ELEMENTS = 1_000_000  # of an XML file: 200 MB; ten hours of timed words have half of them
#: Tags, names of styles, and effects of what stands on the picture, such as signs.
_PLACED = re.compile(r"\{[^{}]*\\(?:pos|move)\(")
_SIGNS = re.compile(r"\bsigns?\b|typeset|on.?screen", re.IGNORECASE)
_MOVED = ("banner", "scroll", "fx")


def blocks(text: str) -> Cues:
    """SubRip, WebVTT, SBV and SubViewer: blocks of lines, each with times and text. A line of times
    begins a cue wherever it stands: some files lack the empty line before it."""
    clocks = {*_HEADS.findall(text)}
    if len(clocks) > 1 or any(clock and not _FROM_ZERO.search(clock) for clock in clocks):
        raise ItemError(
            BAD_TEXT,
            "it was joined from parts of a stream, each with a clock of its own (X-TIMESTAMP-MAP); "
            "write one file of them: ffmpeg -i PLAYLIST.m3u8 FILE.vtt",
        )
    if "#xywh=" in text[:HEAD]:
        raise NoTranscript("its cues name pictures of the film")
    cues = Cues()
    lines = _PRINTED.sub(r"\1 --> \2\n\3", text).splitlines()
    starts = [n for n, line in enumerate(lines) if "-->" in line or _TIMES.fullmatch(line)]
    if not starts and not text.startswith("WEBVTT"):
        raise ItemError(BAD_TEXT, "it has no line with times (00:00:01,000 --> 00:00:02,000)")
    has_names = any(n > 1 and lines[n - 1].strip() and not lines[n - 2].strip() for n in starts)
    last = 0.0
    for n, following in zip(starts, [*starts[1:], None], strict=bool(starts)):
        times = _TIMES.fullmatch(lines[n])
        if times is None:
            cues.wrong["without a time"] += 1
            continue
        if clock(times[1]) < last and lines[n - 1].strip() == "1":
            raise ItemError(
                BAD_TEXT,
                f"its numbers and its clock begin anew in line {n}: it was joined from several "
                "files, each with a clock of its own; shift the later times, or split the file",
            )
        last = clock(times[1])
        spoken = _said(lines[n + 1 : following], following is None, has_names)
        spoken_text = "\n".join(spoken).replace("[br]", "\n")
        cues.add(Cue(clock(times[1]), clock(times[2]), spoken_text))
    return cues


def are_blocks(text: str) -> bool:
    """Whether a text of any name has times as `blocks` reads them."""
    lines = text[:HEAD].splitlines()
    return any(_TIMES.fullmatch(line) or _PRINTED.match(line) for line in lines)


def _said(lines: list[str], last: bool, has_names: bool) -> list[str]:
    """The text of a cue; `lines` may run into a comment, or into the next cue's number or name,
    which is one line. Texts may contain empty lines, and lines of blanks, which end nothing, and
    end in a number that is said."""
    first = next((n for n, line in enumerate(lines) if not line), len(lines))
    filled = [n for n, line in enumerate(lines) if line.strip()]
    spoken: list[str] = []
    for order, n in enumerate(filled):
        apart = n > first and (order == 0 or filled[order - 1] != n - 1)
        named = not last and order == len(filled) - 1
        number = named and lines[n].strip().isdecimal()
        named = named and (has_names or number)
        # An empty line may be missing before a number, which stands right before the times.
        ends = number and spoken and n == len(lines) - 1
        if ends or (apart and (named or _NO_CUE.match(lines[n]))):
            break
        spoken.append(lines[n])
    return spoken


def substation(text: str) -> Cues:
    """SubStation: `Dialogue:` lines of its `[Events]`, whose `Format:` names the fields. Its `Name`
    is the speaker. What is placed on the picture, where other lines are not, is a sign: read, not
    said."""
    cues = Cues()
    fields: list[str] = []
    events: list[tuple[Cue, str]] = []  # and where it stands
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
            placed = "placed" if _PLACED.search(spoken) else ""
            effect = cells.get("effect", "").strip().lower()
            if _SIGNS.search(cells.get("style", "")) or effect.startswith(_MOVED):
                placed = "sign"
            spoken = re.sub(r"\{[^{}]*\}", "", spoken)  # tags and comments
            name = cells.get("name", "").strip() or None
            events.append((Cue(start, end, "" if drawn else spoken, name), placed))
    if not fields:
        raise ItemError(BAD_TEXT, "no [Events] with a Format line")
    some = 2 * sum(placed == "placed" for _, placed in events) < len(events)
    for cue, placed in events:
        if placed == "sign" or (placed and some):
            cues.wrong["of signs on the picture"] += 1
        else:
            cues.add(cue)
    return cues


def whisper(text: str) -> Cues:
    """Whisper's `.tsv`: columns start, end (ms) and text."""
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    if rows.fieldnames != ["start", "end", "text"]:
        raise NoTranscript("it is a table, but not of start, end and text")
    cues = Cues()
    try:
        for row in rows:
            start, end = (int(row[name]) / 1000 for name in ("start", "end"))
            cues.add(Cue(start, end, row["text"] or ""))
    except (TypeError, ValueError, csv.Error):
        wrong = f"line {rows.line_num}: start and end are not whole milliseconds"
        raise ItemError(BAD_TEXT, f"{wrong}; write the texts as .srt or .vtt") from None
    if cues.cues and max((cue.end or 0) - cue.start for cue in cues.cues) < LEAST_CUE:
        raise ItemError(
            BAD_TEXT, "its start and end may be seconds, not ms; write the texts as .srt or .vtt"
        )
    return cues


def lrc(text: str) -> Cues:
    """LRC: `[00:12.00]text`, each up to the next time; lines of several times are repeated."""
    stated = _LRC_OFFSET.search(text)
    early = int(stated[1]) / 1000 if stated else 0.0
    timed: list[tuple[float, str]] = []
    for line in text.splitlines():
        # Some write hundredths as `01:02:33`.
        times = (re.sub(r"(:.*):(\d+)$", r"\1.\2", time) for time in _LRC.findall(line))
        words = _LRC_WORD.sub("", _LRC.sub("", line)).strip()
        timed += [(max(clock(time) - early, 0.0), words) for time in times]
    if not timed:
        raise ItemError(BAD_TEXT, "it has no line that begins with a time ([00:12.00])")
    timed.sort(key=lambda line: line[0])
    edges: list[float | None] = [*sorted({start for start, _ in timed}), None]
    ends = dict(pairwise(edges))
    cues = Cues()
    for start, words in timed:
        if words:
            cues.add(Cue(start, ends[start], words))
    return cues


def are_frames(text: str) -> bool:
    """Whether a text of any name is MicroDVD."""
    return _FRAMES.match(text.lstrip()) is not None


def microdvd(text: str) -> Cues:
    """MicroDVD: `{25}{50}text|second line`, in frames of the film, whose number a second its first
    line states (`{1}{1}25`). Else SubViewer."""
    lines = [line for line in map(_FRAMES.fullmatch, text.splitlines()) if line]
    if not lines:
        return blocks(text)
    try:
        rate = float(lines[0][3])
    except ValueError:
        rate = math.nan
    if not 1 <= rate <= 1000:
        raise NoTranscript(
            "its times are frames, and it does not state how many a second has; convert it: "
            "ffmpeg -subfps RATE -i FILE.sub FILE.srt, with the film's frame rate"
        )
    cues = Cues()
    for line in lines[1:]:
        spoken = re.sub(r"\{[^{}]*\}", "", line[3]).replace("|", "\n")
        cues.add(Cue(round(int(line[1]) / rate, 3), round(int(line[2]) / rate, 3), spoken))
    return cues


Times = tuple[float, float]
Piece = tuple[str, Times | None]  # text of a paragraph, and the times of its span, if it has some


class _Ttml:
    """Collects the paragraphs of a TTML, and their parts that have times of their own. Times count
    from the beginning of what they are in, or, in lyrics, all from 0."""

    def __init__(self, root: Element, from_zero: bool = False) -> None:
        named = _attributes(root)
        self.cues, self._pace, self._from_zero = Cues(), 1.0, from_zero
        self.over = False  # whether a part would begin when what it is in has ended
        self._frames = float(named.get("frameRate", FRAMES)) or FRAMES
        ticks = float(named.get("frameRate", 1)) * float(named.get("subFrameRate", 1))
        self._ticks = float(named.get("tickRate", ticks)) or 1.0
        styles = (_attributes(e) for e in root.iter() if e.tag.rpartition(":")[2] == "style")
        self._readings = {style.get("id") for style in styles if style.get("ruby") in _READINGS}
        if named.get("frameRateMultiplier") in ("1000 1001", "1000:1001"):
            self._frames *= _NTSC
            if named.get("timeBase") == "smpte" and named.get("dropMode") != "dropNTSC":
                self._pace = _NTSC  # of a time code, which counts frames
        self.read(root, 0.0, None)

    def read(self, element: Element, outer: float, last: float | None) -> list[Piece]:
        """Adds the cues of an element; returns what is part of the text around it, whose times are
        `outer` and `last`."""
        name, named = element.tag.rpartition(":")[2], _attributes(element)
        if name == "br":
            return [("\n", None)]
        styles = named.get("style", "").split()
        if named.get("ruby") in _READINGS or not self._readings.isdisjoint(styles):
            return []  # how words are read
        if named.get("role") in ("x-translation", "x-roman"):  # the same, in lyrics
            return []
        if named.get("timeContainer") == "seq":
            why = 'its times count from one another (timeContainer="seq"), which is not read'
            raise ItemError(BAD_TEXT, why)
        start, end, length = (self._seconds(named.get(key)) for key in ("begin", "end", "dur"))
        zero = 0.0 if self._from_zero else outer
        begins, ends = outer if start is None else zero + start, last
        self.over |= start is not None and last is not None and begins >= last
        if end is not None:
            ends = zero + end
        elif length is not None:
            ends = begins + length
        pieces: list[Piece] = [((element.text or "").replace("\n", " "), None)]
        for inner in element:
            pieces += self.read(inner, begins, ends)
            pieces.append(((inner.tail or "").replace("\n", " "), None))
        times = round(begins, 3), math.nan if ends is None else round(ends, 3)
        if name == "span" and (begins, ends) != (outer, last):
            return [(text, span or (times if text.strip() else None)) for text, span in pieces]
        if name == "p":
            self._paragraph(pieces, times)
        return pieces if name == "span" else []

    def _paragraph(self, pieces: list[Piece], whole: Times) -> None:
        """Adds the cue of a paragraph; its parts with times are cues of their own, unless they are
        the words, or syllables, of a line."""
        timed = [(text.strip(), times) for text, times in pieces if times]
        rest = "".join(text for text, times in pieces if not times)
        if (
            len(timed) > 1
            and not any(map(str.isalnum, rest))
            and all(" " not in text for text, _ in timed)
        ):
            words = tuple(TimedWord(text, *times) for text, times in timed)
            in_order = all(a.start <= b.start <= b.end for a, b in pairwise([words[0], *words]))
            end = max(word.end for word in words)
            line = "".join(text for text, _ in pieces).strip()
            self.cues.add(Cue(words[0].start, end, line, None, words if in_order else None))
            return
        for text, (start, end) in [*timed, (rest.strip(), whole)]:
            if text and math.isnan(end):
                self.cues.wrong["without a time"] += 1
            elif text:
                self.cues.add(Cue(start, end, text))

    def _seconds(self, text: str | None) -> float | None:
        """NaN for what is no time: a cue with a wrong begin does not begin at 0."""
        if text is None:
            return None
        if by_clock := _TTML_CLOCK.fullmatch(text):
            hours, minutes, seconds, fraction, frames = by_clock.groups()
            rest = float((fraction or "0").replace(",", ".")) + int(frames or 0) / self._frames
            return (3600 * int(hours or 0) + 60 * int(minutes) + int(seconds)) / self._pace + rest
        if (by_unit := _OFFSET.fullmatch(text)) is None:
            return math.nan
        units = {**_UNITS, "f": 1 / self._frames, "t": 1 / self._ticks}
        return float(by_unit[3] or by_unit[1]) * units[by_unit[2] or "s"]


def _attributes(element: Element) -> dict[str, str]:
    """An element's attributes without the names' prefixes."""
    return {key.rpartition(":")[2]: value for key, value in element.items()}


def ttml(data: bytes) -> Cues:
    """TTML: `<p begin="00:00:01.000" end="00:00:02.000">text</p>`. ItemError `bad_text`, also if it
    declares entities."""

    def read(root: Element) -> Cues:
        nested = _Ttml(root)
        return _Ttml(root, from_zero=True).cues if nested.over else nested.cues

    return read_xml(data, read, "it is not TTML")


def read_xml(data: bytes, read: Callable[[Element], Result], fault: str) -> Result:
    """What `read` makes of the root of an XML file. ItemError `bad_text` that begins with `fault`,
    also if the file declares entities."""

    def refuse_entities(*_: object) -> None:
        # XML entities may stand for gigabytes, or for files of this machine.
        raise ItemError(BAD_TEXT, "it declares XML entities, which are not read")

    def start(tag: str, named: dict[str, str]) -> None:
        if next(elements) == MOST_ELEMENTS:
            raise ItemError(BAD_TEXT, f"it has more than {MOST_ELEMENTS:,} XML elements")
        tree.start(tag, named)

    parser, tree, elements = expat.ParserCreate(), TreeBuilder(), count()
    parser.StartElementHandler = start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.data
    parser.EntityDeclHandler = refuse_entities
    try:
        parser.Parse(data, True)
        return read(tree.close())
    except RecursionError:
        raise ItemError(BAD_TEXT, f"{fault}: it is nested too deeply") from None
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ItemError(BAD_TEXT, f"{fault}: {error}") from None
