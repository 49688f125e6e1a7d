"""The one rule for the words in a transcript's line: markup and speakers are removed, and sounds
become marks, as in CHAT, which are no part of a clip's text (`package.text_marks`).

    <i>, {\\an8}, &amp;                       markup: removed, its content kept
    <v Anna>, ANNA:, Speaker 1:, [Anna]:      a speaker: removed, and returned
    - , – , >>                                a change of speaker: removed
    [music], (door slams), ♪ la la ♪          a sound: &=music, &=door_slams; what is sung: &=music
    !SIL, ++breath++, {laugh}, &=laughs       a corpus's mark of a sound: kept
    [inaudible], <UNK>, [ __ ]                words that nobody understood: kept, and reported

A name before a colon is a speaker's if it is in capitals, and what follows is not; if it is
`Speaker` with a number; if it is in square brackets; or if two lines of the file begin with it.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...scoring.cleaning import LONGEST_ASIDE, mark, without_laughing, without_sounds

_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_TAG = re.compile(
    r"<rt>[^<>]*</rt>"  # how a word is read
    r"|</?(?:i|b|u|s|c|v|em|strong|font|span|br|p|div|ruby|rt|lang)(?:[\s.][^<>]*)?/?>"
    r"|<(?:\d+:)?\d\d:\d\d\.\d{3}>|\{\\[^{}]*\}",
    re.IGNORECASE,
)
_SUNG = re.compile(r"[♪♫♬♩].*")
#: What the rule looks for begins or ends with one of these, or is a mark before a line.
_MARK = re.compile(r"[<>{}&\[\]()（）【】［］*♪♫♬♩:：]|\+\+|![A-Za-z]|^\s*[-‐‑–—]", re.MULTILINE)
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
_STARRED = re.compile(rf"\*+[^*\s][^*]{{0,{LONGEST_ASIDE}}}\*+")
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
    return _TAG.sub("", html.unescape(line))


def said(raw: str, recurring: frozenset[str] = frozenset()) -> Said:
    """The words of a cue or a text. `recurring`: the names that recur in its file, see below."""
    if not _MARK.search(raw):  # most texts
        return Said(" ".join(raw.split()) if any(map(str.isalnum, raw)) else "")
    lines, speakers, last = [], dict[str | None, None](), None
    for line in html.unescape(raw).splitlines():
        voice = _VOICE.search(line)
        line = _TAG.sub("", line).strip()
        name, line = _prefix(line, recurring)
        if voice:
            name = voice[1].strip()
        last = name or last
        line = _marked(line)
        lines.append(line)
        if any(map(str.isalnum, without_sounds(line))):
            speakers[last] = None
    only = next(iter(speakers)) if len(speakers) == 1 else None
    text = " ".join(" ".join(lines).split()) if speakers else ""
    return Said(text, only, bool(_UNHEARD.search(text)))


def recurring(texts: Iterable[str]) -> frozenset[str]:
    """Names before a colon with which at least two lines of a file begin."""
    texts = [text for text in texts if ":" in text or "：" in text]
    if not texts:  # most files
        return frozenset()
    counts = Counter[str]()
    for text in texts:
        for line in text.splitlines():
            match = _NAME.match(_DASH.sub("", _TAG.sub("", line).strip(), count=1))
            name = match and match["plain"]
            if name and _CAPITALISED.fullmatch(name) and not name[0].islower():
                counts[name] += 1
    return frozenset(name for name, count in counts.items() if count > 1)


def _prefix(line: str, recurring: frozenset[str]) -> tuple[str | None, str]:
    """The speaker that a line names, and the rest of the line."""
    if dash := _DASH.match(line):
        line = line[dash.end() :]
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
