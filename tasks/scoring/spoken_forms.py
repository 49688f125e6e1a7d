"""What people may say for units, times, ordinals, fractions and sums of money: "5 km", "9:30",
"3. Mai", "1/2", "$3.50".

`readings` tries each form and takes the one that is closest to the other text. So a form never
hides a difference in the figures, and "5 m" beside "five minutes" stays one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from . import languages
from .languages import Language
from .normalisers import base, figures_read, ordinal, ordinals


class Forms(NamedTuple):
    """A part of a text, and other phrases for it."""

    start: int
    end: int
    phrases: tuple[str, ...]


_HALF_DAYS = ("下午", "晚上")  # before the hours from 1 to 11 of 13:00 to 23:00
_WITH_HALF = re.compile(r"(?<![\d.,/⁄])(\d{1,3})(?:[.,]5|\s+1[/⁄]2)(?![\d/⁄.,])\s?([^\W\d_]*)")
_ONE = re.compile(r"(?<![\d.,:/⁄])1(?=\s?[^\W\d_]|$)")
_FRACTION = re.compile(
    r"(?<![\d/⁄])(?:(?P<whole>\d+)\s+)?(?P<of>\d)[/⁄](?P<all>10|[2-9])(?![\d/⁄])"
)
_SUM = re.compile(
    r"(?P<before>[$€£]\s?)?(?<![\d.,])(?P<whole>\d+)[.,](?P<part>\d\d)(?!\d)(?P<after>\s?[$€£元])?"
)


def forms(text: str, language: str) -> list[Forms]:
    """Parts of a text of figures with other ways to say them, by place. `text`: in compatibility
    form (NFKC), where "½" is "1⁄2"."""
    known = languages.of(base(language))
    if not known.times:
        return []
    rules = _units, _times, _fractions, _and_half, _ones, _ordinals, _sums, _others
    return sorted(form for rule in rules for form in rule(text, known))


@cache
def _unit(code: str) -> re.Pattern[str]:
    """Finds a unit behind a number."""
    longest = sorted(map(re.escape, languages.of(code).units), key=len, reverse=True)
    units = "|".join(longest).replace("|in|", "|in(?!\\s+\\w|-)|")  # "5 in the box"
    return re.compile(rf"(?<=\d)[\s-]?({units})(?![\w/])")


def _units(text: str, known: Language) -> Iterator[Forms]:
    for match in _unit(known.code).finditer(text):
        blank = "" if known.code == "zh" else " "
        yield Forms(*match.span(), tuple(blank + name for name in known.units[match[1]]))


def _times(text: str, known: Language) -> Iterator[Forms]:
    code = known.code
    pattern = rf"(?<![\d:.,])(?:{known.clock})(?![\d:])(?P<half>\s?[ap]\.?\s?m\b\.?)?"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        hour, minute = (figures for figures in match.groups()[:-1] if figures)
        half = " " + " ".join(re.findall("[apmAPM]", match["half"])) if match["half"] else ""
        hours = dict.fromkeys((int(hour), int(hour) % 12 or 12))  # 13:30 is half past one, too
        phrases = [
            form + half
            for template in known.times
            for number in hours
            for form in _at(template, number, minute, known)
        ]
        if code == "zh" and int(hour) > 12:
            phrases += [half_day + phrase for half_day in _HALF_DAYS for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))
    if code == "en":  # "8 a.m."
        for match in re.finditer(r"(?<=\d)\s?([ap])\.?\s?m\b\.?", text, re.IGNORECASE):
            yield Forms(*match.span(), (f" {match[1]}m", f" {match[1]} m"))


def _at(template: str, hour: int, minute: str, known: Language) -> Iterator[str]:
    """A template with its numbers, if it is for that minute."""
    only = re.match(r"(\d\d) ", template)
    if only and only[1] != minute:
        return
    template = template[3:] if only else template
    if minute == "00" and ("{m}" in template or "{b}" in template):
        return
    following = hour % 12 + 1
    code = known.code
    say: Callable[[int], str] = str if code == "zh" else lambda n: figures_read(str(n), code)
    past = int(minute)
    phrase = template.format(h=say(hour), n=say(following), m=say(past), b=say(60 - past))
    yield phrase
    if known.hour:
        yield phrase.replace(*known.hour, 1)


def _fractions(text: str, known: Language) -> Iterator[Forms]:
    for match in _FRACTION.finditer(text):
        phrases = _parts(int(match["of"]), int(match["all"]), known)
        if match["whole"]:
            whole = figures_read(match["whole"], known.code)
            phrases = [f"{whole} {known.conjunction} {phrase}" for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))


def _parts(of: int, parts: int, known: Language) -> Sequence[str]:
    """What is said for a fraction of 2 to 10 parts."""
    if (of, parts) == (1, 2):
        return known.halves
    if known.code == "zh":
        return [f"{parts}分之{of}"]
    if parts == 2:
        return []
    names = known.parts[parts - 3].split("/")
    if known.code == "it" and of > 1:
        names = [f"{name[:-1]}i" for name in names]
    templates = known.several_parts if of > 1 else known.one_part
    number = figures_read(str(of), known.code)
    return [t.format(w=number, p=name) for t in templates for name in names]


def _and_half(text: str, known: Language) -> Iterator[Forms]:
    for match in _WITH_HALF.finditer(text):
        numbers = [match[1] if known.code == "zh" else figures_read(match[1], known.code)]
        if match[1] == "1":
            numbers += known.ones
        nouns = known.units.get(match[2], (match[2], match[2].removesuffix("s")))
        phrases = [match[0][: match.start(2) - match.start()] + noun for noun in nouns]
        phrases += [
            template.format(w=number, u=noun)
            for template in known.and_half
            if match[1] == "1" or "anderthalb" not in template
            for number in numbers
            for noun in nouns
        ]
        yield Forms(*match.span(), tuple(phrases))


def _ones(text: str, known: Language) -> Iterator[Forms]:
    for match in _ONE.finditer(text):
        yield Forms(*match.span(), tuple(known.ones))


def _ordinals(text: str, known: Language) -> Iterator[Forms]:
    code = known.code
    if known.ordinal:
        for match in re.finditer(known.ordinal, text):
            yield Forms(*match.span(), ordinals(code, match[1] or match[match.lastindex or 1]))
    if code == "de":  # the day and the month: "am 3.5."
        for match in re.finditer(r"(?<![\d.,])(\d{1,2})\.\s?(\d{1,2})\.(?:(\d{4})\b)?", text):
            both = zip(*(ordinals(code, number) for number in match.group(1, 2)), strict=False)
            yield Forms(*match.span(), tuple(f"{d} {m} {match[3] or ''}" for d, m in both))


def _others(text: str, known: Language) -> Iterator[Forms]:
    for written, *templates in known.others:
        for match in re.finditer(written, text, re.IGNORECASE):
            groups = [_Number(group) for group in match.groups() if group]
            yield Forms(*match.span(), tuple(t.format(*groups) for t in templates))


class _Number(str):
    """A text whose format `o` is the English ordinal of its number."""

    def __format__(self, form: str) -> str:
        return ordinal("en", self) or self if form == "o" else str(self)


def _sums(text: str, known: Language) -> Iterator[Forms]:
    for match in _SUM.finditer(text):
        sign = (match["before"] or match["after"] or "").strip()
        if templates := known.sums.get(sign):
            phrases = (t.format(w=match["whole"], p=int(match["part"])) for t in templates)
            yield Forms(*match.span(), tuple(phrases))
