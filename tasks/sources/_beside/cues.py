"""Cues: what readers of transcripts return, and what becomes the segments of a recording; and the
one rule for the words in a transcript's line: markup and speakers are removed, and sounds become
marks, as in CHAT, which are no part of a clip's text (`package.text_marks`).

    <i>, {\\an8}, &amp;                       markup: removed, its content kept
    <v Anna>, ANNA:, Speaker 1:, [Anna]:      a speaker: removed, and returned
    - , – , >>                                a change of speaker: removed
    [music], (door slams), ♪ la la ♪          a sound: &=music, &=door_slams; what is sung: &=music
    !SIL, ++breath++, {laugh}, &=laughs       a corpus's mark of a sound: kept
    [inaudible], <UNK>, [ __ ]                words that nobody understood: kept, and reported

A name before a colon is a speaker's if it is in capitals, and what follows is not; if it is
`Speaker` with a number; if it is in square brackets; or if two lines of the file begin with it, or
many lines with such a name.
"""

import html
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ...base.errors import ItemError
from ...recording import Segment, TimedWord
from ...recording.locator import Channels
from ...scoring.cleaning import LONGEST_ASIDE, mark, without_laughing, without_sounds
from ...storage import bounds
from .._text_encoding import BAD_TEXT

MOST = 100_000  # cues of a recording
NOT_TIMED = "without a time", "without a length"
NAMED = 3, 0.4  # lines, and their share, that begin with a name where all such are speakers
OVERLAP = 0.05  # s by which cues may overlap unnoticed: times are rounded

_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>\s][^<>]*)>")
_TAG = re.compile(
    r"<rt>[^<>]*</rt>"  # how a word is read
    r"|</?(?:i|b|u|s|c|v|em|strong|font|span|ruby|rt|lang)(?:[\s.][^<>]*)?/?>"
    r"|<(?:\d+:)?\d\d:\d\d\.\d{3}>|\{\\[^{}]*\}",
    re.IGNORECASE,
)
_BREAK = re.compile(r"</?(?:br|p|div)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_SUNG = re.compile(r"[♪♫♬♩].*")
#: What the rule looks for begins or ends with one of these, or is a mark before a line.
_MARK = re.compile(
    r"[<>{}&\[\]()（）【】［］*♪♫♬♩:：]|\+\+|![A-Za-z]|^[^\S\n]*[-‐‑–—]", re.MULTILINE
)
_DASH = re.compile(r"(?:[-‐‑–—]+\s+|[-–—](?=[^\W\d_])|>{2,3}\s*)")
_NAME = re.compile(
    r"(?:\[(?P<bracketed>[^\[\]]{1,40})\]|(?P<plain>[^\W\d_][^:：\[\]()<>!?,;]{0,38}))"
    r"\s*[:：](?:\s+|(?<=：))"
)
_NUMBERED = re.compile(r"(?:speaker|spk|sprecher|locuteur|hablante)[ _-]?\w{1,3}", re.IGNORECASE)
_CAPITALISED = re.compile(r"[^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}")
_SQUARE = re.compile(
    rf"\[[^\[\]]{{0,{LONGEST_ASIDE}}}\]|【[^【】]{{0,{LONGEST_ASIDE}}}】|［[^［］]{{0,{LONGEST_ASIDE}}}］"
)
_ROUND = re.compile(rf"\(([^()]{{1,{LONGEST_ASIDE}}})\)|（([^（）]{{1,{LONGEST_ASIDE}}})）")
_STARRED = re.compile(rf"(?<!\*)\*+[^*\s][^*]{{0,{LONGEST_ASIDE}}}\*+")
_UNHEARD = re.compile(
    r"[\[(<（【](?:[^\[\]()<>（）【】]{0,40}\b)?"
    r"(?:inaudible|unintelligible|indistinct|unclear|unk|unknown|incomprehensible|crosstalk|"
    r"неразборчиво|unverständlich|inaudible|ininteligible|聞き取れず|听不清)\b[^\[\]()<>（）【】]{0,40}[\])>）】]"
    r"|\[\s*_+\s*\]",  # a word that a video site hides
    re.IGNORECASE,
)
#: Words of sounds in round brackets, in which people also write what is said.
_SOUND = re.compile(
    r"laugh|chuckl|giggl|sigh|gasp|cough|sneez|sniff|sob|cry|cries|scream|shout|groan|moan|grunt|"
    r"music|song|sing|hum|whistl|applau|clap|cheer|bark|ring|beep|buzz|knock|click|clatter|"
    r"door|footstep|phone|engine|siren|gunshot|explo|thunder|noise|static|silence|pause|breath|"
    r"throat|whisper|mumbl|murmur|speak|foreign|inaudible|unintelligible|indistinct|crosstalk|"
    r"musik|lach|applaus|seufz|musique|rire|soupir|música|risas|aplauso|suspir|"
    r"музык|смех|смеё|аплодисмент|вздох|笑|音楽|音乐|拍手|掌声|歓声|ため息",
    re.IGNORECASE,
)


class Said(NamedTuple):
    """`text`: empty without words, and with marks of the sounds beside them. `speaker`: if exactly
    one is named; `unheard`: nobody understood some of the words."""

    text: str
    speaker: str | None = None
    unheard: bool = False


def untagged(line: str) -> str:
    """A line without its markup."""
    return _TAG.sub("", _lines(line))


def _lines(raw: str) -> str:
    """A text with line ends in place of their markup."""
    return _BREAK.sub("\n", html.unescape(raw))


def said(raw: str, recurring: frozenset[str] = frozenset()) -> Said:
    """The words of a cue or a text. `recurring`: the names that recur in its file, see below."""
    if not _MARK.search(raw):  # most texts
        return Said(" ".join(raw.split()) if any(map(str.isalnum, raw)) else "")
    lines, speakers, last = [], dict[str | None, None](), None
    for line in _lines(raw).splitlines():
        voices = [voice.strip() for voice in _VOICE.findall(line)]
        line = _TAG.sub("", line).strip()
        name, line = _prefix(line, recurring)
        named = [*voices] or [name or last]
        last = named[-1]
        line = _marked(line)
        lines.append(line)
        if any(map(str.isalnum, without_sounds(line))):
            for speaker in named:
                speakers[speaker] = None
    only = next(iter(speakers)) if len(speakers) == 1 else None
    text = " ".join(" ".join(lines).split()) if speakers else ""
    return Said(text, only, bool(_UNHEARD.search(text)))


def recurring(texts: Iterable[str]) -> frozenset[str]:
    """Names before a colon with which at least two lines of a file begin; all of these, where many
    lines begin with one."""
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    counts = Counter[str]()
    for line in lines:
        if ":" in line or "：" in line:
            match = _NAME.match(_undashed(_TAG.sub("", line).strip()))
            name = match and match["plain"]
            if name and _CAPITALISED.fullmatch(name) and not name[0].islower():
                counts[name] += 1
    least, share = NAMED
    least = 1 if counts.total() >= max(least, share * len(lines)) else 2
    return frozenset(name for name, count in counts.items() if count >= least)


def _undashed(line: str) -> str:
    """The line without the dash that begins another speaker's."""
    dash = _DASH.match(line)
    return line[dash.end() :] if dash else line


def _prefix(line: str, recurring: frozenset[str]) -> tuple[str | None, str]:
    """The speaker that a line names, and the rest of the line."""
    line = _undashed(line)
    match = _NAME.match(line)
    if not match:
        return None, line
    name, rest = (match["bracketed"] or match["plain"]).strip(), line[match.end() :]
    capitals = name.upper() == name != name.lower()
    beside_small = capitals and any(c.isalpha() and not c.isupper() for c in rest)
    if beside_small or match["bracketed"] or _NUMBERED.fullmatch(name) or name in recurring:
        return name, rest
    return None, line


def _marked(line: str) -> str:
    """The line with marks of its sounds; empty without words and sounds."""
    kept = _SQUARE.sub(lambda aside: _unless_unheard(aside[0]), without_laughing(line))
    whole = _ROUND.fullmatch(kept.strip())
    kept = _ROUND.sub(
        lambda aside: (
            _unless_unheard(aside[0]) if whole or _is_sound(aside[1] or aside[2]) else aside[0]
        ),
        kept,
    )
    kept = _SUNG.sub(f" {mark('music')}", _STARRED.sub(lambda sound: f" {mark(sound[0])} ", kept))
    return kept.strip() if any(map(str.isalnum, kept)) else ""


def _unless_unheard(aside: str) -> str:
    return aside if _UNHEARD.fullmatch(aside) else f" {mark(aside)} "


def _is_sound(inside: str) -> bool:
    capitals = inside.upper() == inside != inside.lower()
    return (
        (capitals and len(inside) > 1)
        or _SOUND.match(inside.split()[-1]) is not None
        or (_SOUND.match(inside) is not None)
    )


class NoTranscript(Exception):
    """A file whose kind has other uses, too, is not a transcript."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text with its times in s, as it is written; `end` None: to the end of the recording."""

    start: float
    end: float | None
    text: str
    speaker: str | None = None
    words: tuple[TimedWord, ...] | None = None
    channels: Channels | None = None


@dataclass(slots=True)
class Cues:
    """The cues of a file, and how many were left out, by fault."""

    cues: list[Cue] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, cue: Cue) -> None:
        if len(self.cues) >= MOST:
            raise ItemError(BAD_TEXT, f"it has more than {MOST:,} cues")
        if not math.isfinite(cue.start) or cue.start < 0:
            self.wrong[NOT_TIMED[0]] += 1
        elif cue.end is not None and not cue.start < cue.end < math.inf:
            self.wrong[NOT_TIMED[1]] += 1
        else:
            self.cues.append(cue)

    def segments(self) -> tuple[Segment, ...]:
        """One segment for each cue with speech, in order of time; counts the others."""
        names = recurring(cue.text for cue in self.cues)
        segments: dict[Segment, None] = {}
        last: dict[Channels | None, float] = {}
        for cue in sorted(self.cues, key=lambda cue: (cue.start, cue.end or math.inf)):
            says = said(cue.text, names)
            if not cue.text.strip():
                self.wrong["without a text"] += 1
            elif not says.text:
                self.wrong["of sounds only"] += 1
            elif says.unheard:
                self.wrong["marked as not understood"] += 1
            elif too_long := bounds.too_long(len(says.text)):
                raise ItemError(BAD_TEXT, too_long)
            else:
                speaker = cue.speaker or says.speaker
                timed = cue.words, cue.channels
                segment = Segment(cue.start, cue.end, None, says.text, speaker, None, *timed)
                if segment in segments:
                    self.wrong["given twice"] += 1
                    continue
                before = last.get(cue.channels, 0.0)
                self.wrong["overlapping others, kept"] += cue.start < before - OVERLAP
                last[cue.channels] = max(before, math.inf if cue.end is None else cue.end)
                segments[segment] = None
        return tuple(segments)


def joined(words: Iterable[TimedWord]) -> str:
    """The words as one text; punctuation joins the word before it."""
    parts: list[str] = []
    for word in words:
        parts += [" ", word.word] if any(map(str.isalnum, word.word)) else [word.word]
    return "".join(parts).strip()
