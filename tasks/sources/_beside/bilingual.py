"""Captions in two languages: two lines in a cue, or two cues at the same time, of which one says
what is heard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ...base import language_codes
from ...base.errors import ItemError
from .._text_encoding import BAD_TEXT
from . import spoken
from .cues import Cue

LEAST, SHARE, SURE = 3, 0.5, 0.8  # cues of two lines; of all cues; of those, in two scripts
_SCRIPTS = {
    "Han": "\u3400-\u9fff",
    "Kana": "\u3040-\u30ff",
    "Hangul": "\uac00-\ud7af\u1100-\u11ff",
    "Cyrillic": "\u0400-\u052f",
    "Greek": "\u0370-\u03ff",
    "Arabic": "\u0600-\u06ff",
    "Hebrew": "\u0590-\u05ff",
    "Devanagari": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
    "Latin": "A-Za-z\u00c0-\u024f",
}
_LETTERS = {script: re.compile(f"[{letters}]") for script, letters in _SCRIPTS.items()}
_SCRIPT_OF = {
    **dict.fromkeys(("zh", "yue"), "Han"),
    **{"ja": "Kana", "ko": "Hangul", "el": "Greek", "he": "Hebrew", "th": "Thai"},
    **dict.fromkeys(("ru", "uk", "be", "bg", "mk", "kk", "ky", "mn", "tg"), "Cyrillic"),
    **dict.fromkeys(("ar", "fa", "ur", "ps", "ug"), "Arabic"),
    **dict.fromkeys(("hi", "mr", "ne"), "Devanagari"),
}
#: Words that tell languages in Latin letters apart.
_COMMON = {
    "en": "the and you that is was it of to with what this have are not",
    "de": "der die das und ist nicht ich du wir sie ein eine mit was auf",
    "fr": "le la les et est pas je tu nous vous un une avec que dans",
    "es": "el los las y es no yo tú nosotros una con que por está pero",
    "it": "il lo gli e è non io tu noi una con che per sono ma",
    "pt": "o os as e é não eu você nós uma com que por está mas",
    "nl": "de het en is niet ik jij wij een met wat op van dat maar",
    "sv": "och är inte jag du vi en ett med vad på det som av men",
    "pl": "i jest nie ja ty my się na z co to w do że ale",
    "tr": "ve bir bu ne için değil ben sen biz ile da de çok var mı",
    "id": "dan yang di tidak saya kamu kita ini itu dengan apa ke untuk ada dari",
}
_WORDS_OF = {language: frozenset(words.split()) for language, words in _COMMON.items()}


def of_language(cues: Sequence[Cue], language: str | None) -> list[Cue]:
    """The cues with their lines in `language` alone, if they are of two languages. ItemError
    `bad_text` if none is stated, or neither is it."""
    both = _at_once(cues)
    pairs = [lines for cue in both if len(lines := _lines(cue)) == 2]
    if len(pairs) < max(LEAST, SHARE * len(both)):
        return [*cues]
    tongues = [_tongue(line for line in lines) for lines in zip(*pairs, strict=True)]
    by_script = sum(_script(a) != _script(b) for a, b in pairs) >= SURE * len(pairs)
    if not by_script and (None in tongues or tongues[0] == tongues[1]):
        return [*cues]
    wanted = language_codes.base(language) if language else None
    script = _SCRIPT_OF.get(wanted or "", "Latin")
    scripts = {"Han" if s == "Kana" else s for pair in pairs for s in map(_script, pair)}
    if wanted is not None and by_script and ("Han" if script == "Kana" else script) in scripts:
        kept = [(cue, [s for s in _lines(cue) if _written_in(s, script)]) for cue in both]
    elif wanted is not None and not by_script and wanted in tongues:
        place = tongues.index(wanted)
        kept = [(cue, lines[place:][:1] or lines) for cue in both for lines in [_lines(cue)]]
    else:
        shown = " and ".join(dict.fromkeys(tongue or "another" for tongue in tongues))
        raise ItemError(
            BAD_TEXT,
            f"its cues are in two languages ({shown}); say which is spoken, `language` of the "
            "source or `texts: {language: …}`",
        )
    return [replace(cue, text="\n".join(lines)) for cue, lines in kept if lines]


def _at_once(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of equal times as one, in a file where most have a double."""
    ordered = sorted(cues, key=_times)
    groups = [[*group] for _, group in groupby(ordered, key=_times)]
    if sum(len(group) == 2 for group in groups) < max(LEAST, SHARE * len(groups)):
        return [*cues]
    return [
        replace(group[0], text="\n".join(" ".join(_lines(cue)) for cue in group))
        for group in groups
    ]


def _times(cue: Cue) -> tuple[float, float]:
    return cue.start, cue.end or 0.0


def _lines(cue: Cue) -> list[str]:
    lines = (spoken.untagged(line).strip() for line in cue.text.splitlines())
    return [line for line in lines if line]


def _script(line: str) -> str | None:
    counts = {script: len(letters.findall(line)) for script, letters in _LETTERS.items()}
    if counts["Kana"]:
        return "Kana"
    best = max(counts, key=lambda script: counts[script])
    return best if counts[best] else None


def _written_in(line: str, script: str) -> bool:
    """Whether a line is in a script; Japanese has lines of Han alone, and numbers are in any."""
    has = _script(line)
    return has in (script, None) or {has, script} == {"Han", "Kana"}


def _tongue(lines: Iterable[str]) -> str | None:
    """The language of some lines, by their script, and in Latin letters by their words."""
    scripts, words = Counter[str | None](), Counter[str]()
    for line in lines:
        scripts[_script(line)] += 1
        written = re.findall(r"[^\W\d_]+", line.casefold())
        for language, common in _WORDS_OF.items():
            words[language] += sum(word in common for word in written)
    [(script, _)] = scripts.most_common(1)
    if script != "Latin":
        return {"Han": "zh", "Kana": "ja", "Hangul": "ko", "Cyrillic": "ru"}.get(
            script or "", script
        )
    (first, most), (_, second) = words.most_common(2)
    return first if most >= LEAST and most >= 1.5 * second else None
