"""Captions in two languages: two lines in a cue, or two cues at the same time, of which one says
what is heard."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from ...base import language_codes
from ...base.errors import ItemError
from ...scoring import languages
from .._text_encoding import BAD_TEXT
from .cues import Cue, untagged

LEAST, SHARE, SURE = 3, 0.5, 0.8  # cues of two lines; of all cues; of those, in two scripts
#: Words by which two languages are told apart if those of one are listed, or of none; the most
#: frequent words that stand for a list; the largest share of them in another language.
FEW, MANY, MOST, RARE = 12, 60, 10, 0.3
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
#: Languages that have about the words of one of these.
_ALIKE = {
    **{"sk": "cs", "sl": "hr"},
    **dict.fromkeys(("no", "nb", "nn"), "da"),
    **dict.fromkeys(("be", "bg", "mk", "sr"), "ru"),
    **{"gl": "pt", "ms": "id", "af": "nl", "lb": "de"},
}


@cache
def _common() -> dict[str, frozenset[str]]:
    """Words that tell languages of the same script apart."""
    words = {code: languages.of(code).common for code in sorted(languages.CODES)}
    return {code: frozenset(some.split()) for code, some in words.items() if some}


def of_language(cues: Sequence[Cue], language: str | None) -> list[Cue]:
    """The cues with their lines in `language` alone, if they are of two languages. ItemError
    `bad_text` if none is stated, or neither is it."""
    both = _at_once(cues)
    pairs = [lines for cue in both if len(lines := _lines(cue)) == 2]
    if len(pairs) < max(LEAST, SHARE * len(both)):
        return [*cues]
    tongues = [_tongue(line for line in lines) for lines in zip(*pairs, strict=True)]
    by_script = sum(_family(a) != _family(b) for a, b in pairs) >= SURE * len(pairs)
    if not by_script and not _two(tongues, *zip(*pairs, strict=True)):
        return [*cues]
    wanted = language_codes.base(language) if language else None
    script = _SCRIPT_OF.get(wanted or "", "Latin")
    family = "Han" if script == "Kana" else script
    wanted = wanted if wanted in tongues else _ALIKE.get(wanted or "", wanted)
    has_words = wanted in _common() or wanted in ("zh", "ja")
    if by_script and wanted is not None and family in {_family(s) for pair in pairs for s in pair}:
        # Japanese has lines of Han alone, and numbers are in any script.
        fitting = ("Han", "Kana", None) if script in ("Han", "Kana") else (script, None)
        kept = [(cue, [s for s in _lines(cue) if _script(s) in fitting]) for cue in both]
    elif (
        not by_script
        and wanted is not None
        and (wanted in tongues or (not has_words and tongues.count(None) == 1))
    ):
        place = tongues.index(wanted if wanted in tongues else None)
        kept = [(cue, _half(_lines(cue), place)) for cue in both]
    else:
        shown = " and ".join(dict.fromkeys(tongue or "another" for tongue in tongues))
        raise ItemError(
            BAD_TEXT,
            f"its cues are in two languages ({shown}); say which is spoken, `language` of the "
            "source or `texts: {language: …}`",
        )
    return [replace(cue, text="\n".join(lines)) for cue, lines in kept if lines]


def _two(tongues: Sequence[str | None], *places: Sequence[str]) -> bool:
    """Whether lines in the same script are in two languages: the words of each are rare in the
    other. A language whose words are not listed may look like two that are near it."""
    if {*tongues} == {"zh", "ja"}:
        return True
    if tongues[0] == tongues[1] and tongues[0]:
        return False
    counts = [Counter(_words(" ".join(lines))) for lines in places]
    listed = [_common().get(tongue or "", frozenset[str]()) for tongue in tongues]
    least = FEW if None in tongues else LEAST
    if not any(listed):
        listed[0], least = frozenset(word for word, _ in counts[0].most_common(MOST)), MANY

    def is_rare(one: int, other: int) -> bool:
        words = listed[one] - listed[other]
        shares = [sum(count[word] for word in words) / max(count.total(), 1) for count in counts]
        return shares[other] < RARE * shares[one]

    enough = min(count.total() for count in counts) >= least
    return enough and all(is_rare(n, 1 - n) for n in (0, 1) if listed[n])


def _half(lines: list[str], place: int) -> list[str]:
    """The lines of one of two languages; none where it is uncertain which these are."""
    if len(lines) == 1:
        return lines
    half = len(lines) // 2
    return lines[place * half :][:half] if len(lines) % 2 == 0 else []


def _at_once(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of equal times as one, in a file where most have a double."""

    def times(cue: Cue) -> tuple[float, float]:
        return cue.start, cue.end or 0.0

    ordered = sorted(cues, key=times)
    groups = [[*group] for _, group in groupby(ordered, key=times)]
    if sum(len(group) == 2 for group in groups) < max(LEAST, SHARE * len(groups)):
        return [*cues]
    return [
        replace(group[0], text="\n".join(" ".join(_lines(cue)) for cue in group))
        for group in groups
    ]


def _lines(cue: Cue) -> list[str]:
    """Its lines; of more than two, neighbours in one script are a line."""
    lines = (untagged(line).strip() for line in cue.text.splitlines())
    filled = [line for line in lines if line]
    if len(filled) > 2 and len({*map(_family, filled)}) > 1:
        return [" ".join(some) for _, some in groupby(filled, key=_family)]
    return filled


def _family(line: str) -> str | None:
    """The script of a line; Japanese has lines in that of Chinese."""
    script = _script(line)
    return "Han" if script == "Kana" else script


def _words(line: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", line.casefold())


def _script(line: str) -> str | None:
    counts = {script: len(letters.findall(line)) for script, letters in _LETTERS.items()}
    if counts["Kana"]:
        return "Kana"
    best = max(counts, key=lambda script: counts[script])
    return best if counts[best] else None


def _tongue(lines: Iterable[str]) -> str | None:
    """The language of some lines, by their script, and where several have it by their words."""
    scripts, words = Counter[str | None](), Counter[str]()
    for line in lines:
        scripts[_script(line)] += 1
        written = _words(line)
        for language, common in _common().items():
            words[language] += sum(word in common for word in written)
    [(script, _)] = scripts.most_common(1)
    if script not in ("Latin", "Cyrillic", "Arabic"):
        return {"Han": "zh", "Kana": "ja", "Hangul": "ko"}.get(script or "", script)
    (first, most), (_, second) = words.most_common(2)
    return first if most >= LEAST and most >= 1.5 * second else None
