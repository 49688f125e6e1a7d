"""A text with its spoken numbers in figures, and where each of its characters comes from.

    call four one five, five five five -> call 415555

The words are CLDR's for 0 to 99, by language. Runs of fewer than FEWEST figures stay as they are:
ages, years and prices.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache

from ..scoring import UNSPACED, languages
from ..scoring.normalisers import base, figures_to_words, has_words

FEWEST = 6  # figures of a run that is said
MOST_WORDS = 5  # of a number below 100: fr quatre-vingt-dix-neuf
_TOKEN = re.compile(rf"\d+|え[ーっ]*と|[{UNSPACED}]|[^\W\d_{UNSPACED}]+|\+")
_BETWEEN = re.compile(r"[\s,.\-‐‑–—/、，。·]{0,3}")
#: Words between figures that are not figures.
_FILLERS = frozenset(
    (
        *("um", "uh", "erm", "er", "äh", "ähm", "öh", "euh", "heu", "eh", "ehm", "hum", "hm", "mm"),
        *("э", "эм", "ну", "ee", "yyy", "嗯", "呃", "啊", "えーと", "えっと", "えと"),
    )
)
_PLUS = {"plus", "más", "più", "mais", "плюс", "加", "プラス"}
_TIMES = {"double": 2, "triple": 3, "doble": 2, "doppel": 2, "doppio": 2}
_HAN = {**dict(zip("零一二三四五六七八九", "0123456789", strict=True)), "〇": "0", "幺": "1"}


@dataclass(slots=True)
class Written:
    """`text` with figures, of the `original`; `starts` and `ends`: where each of its characters is
    from."""

    original: str
    text: str = ""
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The place in the original of a non-empty piece."""
        return self.starts[start], self.ends[end - 1]


@dataclass(frozen=True, slots=True)
class _Item:
    """A number or a sign, in figures; `said`: in words."""

    figures: str
    start: int
    end: int
    said: bool


@lru_cache(maxsize=64)
def words_of(language: str) -> dict[tuple[str, ...], str]:
    """Figures by the words of 0 to 99, and by other words for them."""
    code = base(language)
    code = code if has_words(code) else "en"
    say = figures_to_words(code)
    more = {**_HAN, **languages.of(code).figures}
    words: dict[tuple[str, ...], str] = {(word,): figures for word, figures in more.items()}
    if code not in ("zh", "ja", "yue"):
        for number in range(99, -1, -1):
            words[tuple(_TOKEN.findall(say(str(number)).casefold()))] = str(number)
    return words


@lru_cache(maxsize=64)
def _first_words(language: str) -> frozenset[str]:
    return frozenset(words[0] for words in words_of(language))


def written(text: str, language: str | None) -> Written:
    """The text in figures, decimal figures of every script as ASCII."""
    words, result, copied = words_of(language or "en"), Written(text), 0
    for run in _runs(text, words, _first_words(language or "en")):
        figures = "".join(item.figures for item in run)
        if sum(item.said for item in run) < 4 or len(figures) < FEWEST:
            continue
        _copy(result, text, copied, run[0].start)
        for item in run:
            for figure in item.figures:
                result.text += figure
                result.starts.append(item.start)
                result.ends.append(item.end)
        copied = run[-1].end
    _copy(result, text, copied, len(text))
    return result


def _copy(result: Written, text: str, start: int, end: int) -> None:
    result.text += "".join(map(_ascii, text[start:end]))
    result.starts.extend(range(start, end))
    result.ends.extend(range(start + 1, end + 1))


def _ascii(char: str) -> str:
    if char.isascii():
        return char
    figure = unicodedata.decimal(char, -1)
    return str(figure) if figure >= 0 else {"＋": "+", "＠": "@", "．": "."}.get(char, char)


def _runs(text: str, words: dict[tuple[str, ...], str], first: frozenset[str]) -> list[list[_Item]]:
    """Numbers that follow each other with nothing but spaces and marks between."""
    tokens = [(m[0].casefold(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    runs: list[list[_Item]] = []
    times, number, last_end = 1, 0, 0  # `last_end`: of a filler
    while number < len(tokens):
        word, start, end = tokens[number]
        item, used = None, 1
        if word.isdecimal():
            item = _Item("".join(map(_ascii, word)), start, end, False)
        elif word in _PLUS or word == "+":
            item = _Item("+", start, end, word != "+")
        elif word in first:
            for count in range(min(MOST_WORDS, len(tokens) - number), 0, -1):
                key = tuple(token[0] for token in tokens[number : number + count])
                if (figures := words.get(key)) is not None:
                    end = tokens[number + count - 1][2]
                    item, used = _Item(figures * times, start, end, True), count
                    break
        if item is None and word in _FILLERS and runs and runs[-1]:
            last_end, number = end, number + 1
            continue
        if item is None:
            times = _TIMES.get(word, 1)
            if times == 1:
                runs.append([])
            number += 1
            continue
        times = 1
        last = runs[-1][-1] if runs and runs[-1] else None
        near = last is None or _BETWEEN.fullmatch(text, max(last.end, last_end), item.start)
        doubled = (
            last is not None
            and text[last.end : item.start].split()
            and (text[last.end : item.start].split()[0].casefold() in _TIMES)
        )
        if item.figures == "+" or not runs or not (near or doubled):
            runs.append([])
        runs[-1].append(item)
        number += used
    return [run for run in runs if run]
