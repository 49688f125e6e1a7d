"""Makes two texts of one clip comparable: digits and spelled letters have several forms.

A language's rule sees one text, so it has to guess: "39960" may be a quantity or five digits, "ABC"
a word or three letters. The other text of the pair shows which was spoken. Where they differ,

- single letters and figures become the abbreviation that the other side writes ("A. B. C." beside
  "ABC", "a one" beside "A1"), in English also their names ("bee bee see"), and
- a number in figures is read digit by digit ("drei neun neun sechs null"), and a unit, a clock
  time, an ordinal or a fraction in another of its forms (`spoken_forms`), if that is closer to the
  other text.

Neither changes a word without digits that is not an abbreviation, so a difference between words is
never hidden. A token is an abbreviation if its text writes it in capitals and other words not. In a
text without that distinction (all capitals, or none) tokens count if the other side writes the
letters in capitals, and those without a vowel ("tv") in any case.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby, islice
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from . import _plain, languages
from ._plain import CHAR
from .languages import Language
from .normalisers import base, figures_read, normalise, ordinal, ordinals

MOST_NUMBERS = 16  # per text to try in another form; each form costs one normalisation
LONGEST_ABBREVIATION = 12  # characters
_LONE = re.compile(f"(?<!{CHAR}){CHAR}(?!{CHAR})")
_VOWEL = re.compile("[aeiouyäöüáéíóúàèìòùâêîôûаеёиоуыэюя]", re.IGNORECASE)
_BETWEEN = r"[\s.,、،·・\-–‐‑]*"
_APART = r"[\s.,、،·・\-–‐‑]+"
#: Letters and figures one by one.
_RUN = re.compile(rf"(?<!{CHAR}){CHAR}(?:{_APART}{CHAR}(?!{CHAR}))+")
#: Letter, pattern of its names, letter, pattern.
_NAMES = r"""
a ay b bee|be c cee|see d dee e ee f eff|ef g gee h aitch|haitch j jay
k kay l ell|el m em n en o oh p pee q cue|queue r ar s ess|es
t tee u you v vee w double[\s-]?(?:u|you) x ex y why|wye z zee|zed
"""
_LETTER_NAMES = dict(re.findall(r"(\S+) (\S+)", _NAMES))
#: Figures with only marks between them: 39960, 399-60, 39,960, 138 0013 8000; 3; 20; not $20, 20 %.
_NUMBER = re.compile(r"(?<![$€£¥\d])\d+(?:[\W_]{1,3}\d+)*(?!\d|\s?%)")
_DECIMAL = re.compile(r"\d+[.,٫]\d+")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
#: The Academy's rules (دستور خط فارسی) allow many compounds in one piece or in two. A half space
#: (ZWNJ) marks one word; a plain space does not: ما در, مادر.
_PERSIAN = ("fa", "pes", "prs")
_HALF_SPACED = re.compile(f"{CHAR}+(?:\u200c{CHAR}+)+")
_FIGURES = re.compile(r"\d+")
LEAST_OF_TELEPHONE = 6  # figures
LEAST_OF_GROUPS = 4  # figures: "3, 20" are two numbers, "138 0013" is one read digit by digit


def agreed(reference: str, hypothesis: str, language: str) -> tuple[str, str]:
    """Both texts normalised, in the readings that are closest to each other. Symmetric."""
    spoken, heard = normalise(reference, language), normalise(hypothesis, language)
    if spoken == heard or not spoken or not heard:
        return spoken, heard
    one, other = _plain.compatible(reference), _plain.compatible(hypothesis)
    reference, hypothesis = _abbreviated(one, other, language), _abbreviated(other, one, language)
    if reference != one:
        spoken = normalise(reference, language)
    if hypothesis != other:
        heard = normalise(hypothesis, language)
    if base(language) in _PERSIAN:
        spoken, heard = (
            _compounds_joined(reference, spoken, heard, language),
            _compounds_joined(hypothesis, heard, spoken, language),
        )
    if language:
        heard = _read_nearer(hypothesis, heard, spoken, language)
        spoken = _read_nearer(reference, spoken, heard, language)
    return spoken, heard


def _compounds_joined(text: str, normal: str, other: str, language: str) -> str:
    """`normal` (the normalised text) with Persian compounds that the text writes with a half space
    joined if `other` has them in one piece: کتاب‌خانه beside کتابخانه."""
    words = {*other.split()}
    for compound in {*_HALF_SPACED.findall(text)}:
        parts = normalise(compound, language)
        joined = parts.replace(" ", "")
        if joined != parts and joined in words:
            normal = f" {normal} ".replace(f" {parts} ", f" {joined} ").strip()
    return normal


def _abbreviated(text: str, other: str, language: str) -> str:
    """`text` with single letters joined to the abbreviations of `other`."""
    runs = [re.sub(_BETWEEN, "", run[0]).lower() for run in _RUN.finditer(text)]
    lone = bool(runs) or bool(_LONE.search(text))
    letters = bool(runs) and _plain.capitals_tell(text)
    # Tokens of the other text that may be spelled out here; whether their capitals prove it.
    certain = _plain.capitals_tell(other)
    tokens = {t for t in re.findall(_plain.TOKEN, other) if 2 <= len(t) <= LONGEST_ABBREVIATION}
    tokens = {t for t in tokens if t.lower() != t.upper() and (not certain or t.isupper())}
    named = certain and base(language) == "en"
    for token in sorted(tokens, key=lambda t: (-len(t), t)):
        figures = lone and any(c.isdecimal() for c in token)
        if named or figures or any(token.lower() in run for run in runs):
            only_capitals = not certain and bool(_VOWEL.search(token))
            if letters or figures or not only_capitals:
                text = _spelled(token, named, only_capitals).sub(token, text)
    return text


def _spelled(token: str, named: bool, only_capitals: bool) -> re.Pattern[str]:
    """Matches the characters of a token one by one, also by their names; also letters and figures
    apart."""
    letters = [re.escape(c.upper() if only_capitals else c) for c in token]
    apart = _APART.join(letters)
    halves = "|".join(
        rf"{_BETWEEN.join(letters[:position])}{_APART}{_BETWEEN.join(letters[position:])}"
        for position in range(1, len(letters))
    )
    forms = [apart]
    if any(c.isdecimal() for c in token):  # "A 12", "MP 3": parted between letters and figures
        forms.append(halves)
    if named:
        names = [_LETTER_NAMES.get(c.lower()) for c in token]
        forms.append(
            _APART.join(
                rf"(?:{letter}|{name})" if name else letter
                for letter, name in zip(letters, names, strict=True)
            )
        )
    return re.compile(
        rf"(?<!{CHAR})(?:{'|'.join(forms)})(?!{CHAR})", 0 if only_capitals else re.IGNORECASE
    )


def _read_nearer(text: str, normal: str, other: str, language: str) -> str:
    """`normal`, or the text with numbers read digit by digit, and units, times, ordinals and
    fractions in the form that is closest to `other`."""
    best = Levenshtein.distance(normal, other)
    numbers = [
        Forms(*match.span(), tuple(_read_out(match[0], language)))
        for number in _NUMBER.finditer(text)
        for match in (number, *_groups(number))
        if _may_be_read_out(match[0])
    ]
    parts = groupby(sorted([*numbers, *forms(text, language)]), key=lambda part: part.start)
    shift, done = 0, 0
    for start, several in islice(parts, MOST_NUMBERS):
        if not best:
            break
        if start < done:  # a part of a phrase that was replaced
            continue
        tried = [
            (f"{text[: start + shift]} {phrase} {text[part.end + shift :]}", part.end)
            for part in several
            for phrase in part.phrases
        ]
        readings = [(normalise(whole, language), whole, end) for whole, end in tried]
        distances = [(Levenshtein.distance(read[0], other), *read) for read in readings]
        nearest = min(distances, default=(best, normal, text, start))
        if nearest[0] < best:
            shift += len(nearest[2]) - len(text)
            best, normal, text, done = nearest
    return normal


def _groups(number: re.Match[str]) -> Iterator[re.Match[str]]:
    """The groups of a telephone number: "555 01 42" may be read in part figure by figure."""
    groups = [*_FIGURES.finditer(number.string, *number.span())]
    figures = sum(len(group[0]) for group in groups)
    return iter(groups if len(groups) > 1 and figures >= LEAST_OF_TELEPHONE else ())


def _may_be_read_out(number: str) -> bool:
    groups = _FIGURES.findall(number)
    figures = sum(map(len, groups))
    if len(groups) == 1:
        return figures > 1
    if _DECIMAL.fullmatch(number) and not _THOUSANDS.fullmatch(number):
        return False  # the decimal mark is spoken too
    return figures == len(groups) or figures >= LEAST_OF_GROUPS


def _read_out(number: str, language: str) -> Iterator[str]:
    figures = [c for c in number if c.isdecimal()]
    if base(language) == "en":  # Whisper's rule drops a zero between figures
        yield " ".join(figures_read(figure, language) for figure in figures)
    else:
        yield " ".join(figures)
    if base(language) == "ko":  # written together; zero has two names, of which CLDR gives one
        names = [normalise(figure, language) for figure in figures]
        yield "".join(names)
        yield "".join(names).replace(normalise("0", language), "공")


# What people may say for units, times, ordinals, fractions and sums of money: "5 km", "9:30",
# "3. Mai", "1/2", "$3.50".
#
# `readings` tries each form and takes the one that is closest to the other text. So a form never
# hides a difference in the figures, and "5 m" beside "five minutes" stays one.


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
#: A number in Roman figures, perhaps with the ending of a French ordinal; I is a word, and M, D, C
#: and L are initials.
_ROMAN = re.compile(
    r"\b(?!I\b|[CL]\b)(?=[CLXVI]+(?:er?)?\b)"
    r"(C{0,3}(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3}))(?<=[CLXVI])(?:er?)?\b"
)
_ROMAN_FIGURES = {"C": 100, "L": 50, "X": 10, "V": 5, "I": 1}
_RANKS = {"en": ("the",), "de": ("der", "die", "des", "dem", "den")}  # Henry *the* eighth
_SUM = re.compile(
    r"(?P<before>[$€£]\s?)?(?<![\d.,])(?P<whole>\d+)[.,](?P<part>\d\d)(?!\d)(?P<after>\s?[$€£元])?"
)


def forms(text: str, code: str) -> list[Forms]:
    """Parts of a text of figures with other ways to say them, by place. `text`: in compatibility
    form (NFKC), where "½" is "1⁄2"."""
    language = languages.of(base(code))
    if not language.times:
        return []
    rules = _units, _times, _fractions, _and_half, _ones, _ordinals, _roman, _sums, _others
    return sorted(form for rule in rules for form in rule(text, language))


@cache
def _unit(code: str) -> re.Pattern[str]:
    """Finds a unit behind a number."""
    longest = sorted(map(re.escape, languages.of(code).units), key=len, reverse=True)
    units = "|".join(longest).replace("|in|", "|in(?!\\s+\\w|-)|")  # "5 in the box"
    return re.compile(rf"(?<=\d)[\s-]?({units})(?![\w/])")


def _units(text: str, language: Language) -> Iterator[Forms]:
    for match in _unit(language.code).finditer(text):
        blank = "" if language.code == "zh" else " "
        yield Forms(*match.span(), tuple(blank + name for name in language.units[match[1]]))


def _times(text: str, language: Language) -> Iterator[Forms]:
    code = language.code
    pattern = rf"(?<![\d:.,])(?:{language.clock})(?![\d:])(?P<half>\s?[ap]\.?\s?m\b\.?)?"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        hour, minute = (figures for figures in match.groups()[:-1] if figures)
        letters = re.findall("[apmAPM]", match["half"] or "")
        halves = {" ".join(["", *letters]), f" {''.join(letters)}"} if letters else {""}
        hours = dict.fromkeys((int(hour), int(hour) % 12 or 12))  # 13:30 is half past one, too
        phrases = [
            form + half
            for template in language.times
            for number in hours
            for form in _at(template, number, minute, language)
            for half in sorted(halves)
        ]
        if code == "zh" and int(hour) > 12:
            phrases += [half_day + phrase for half_day in _HALF_DAYS for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))
    if code == "en":  # "8 a.m."
        for match in re.finditer(r"(?<=\d)\s?([ap])\.?\s?m\b\.?", text, re.IGNORECASE):
            yield Forms(*match.span(), (f" {match[1]}m", f" {match[1]} m"))


def _at(template: str, hour: int, minute: str, language: Language) -> Iterator[str]:
    """A template with its numbers, if it is for that minute."""
    only = re.match(r"(\d\d) ", template)
    if only and only[1] != minute:
        return
    template = template[3:] if only else template
    if minute == "00" and ("{m}" in template or "{b}" in template):
        return
    following = hour % 12 + 1
    code = language.code
    say: Callable[[int], str] = str if code == "zh" else lambda n: figures_read(str(n), code)
    past = int(minute)
    phrase = template.format(h=say(hour), n=say(following), m=say(past), b=say(60 - past))
    yield phrase
    if language.hour:
        old, new = language.hour
        yield phrase.replace(old, new, 1)


def _fractions(text: str, language: Language) -> Iterator[Forms]:
    for match in _FRACTION.finditer(text):
        phrases = _parts(int(match["of"]), int(match["all"]), language)
        if match["whole"]:
            whole = figures_read(match["whole"], language.code)
            phrases = [f"{whole} {language.conjunction} {phrase}" for phrase in phrases]
        yield Forms(*match.span(), tuple(phrases))


def _parts(of: int, parts: int, language: Language) -> Sequence[str]:
    """What is said for a fraction of 2 to 10 parts."""
    if (of, parts) == (1, 2):
        return language.halves
    if language.code == "zh":
        return [f"{parts}分之{of}"]
    if parts == 2:
        return []
    names = language.parts[parts - 3].split("/")
    if language.code == "it" and of > 1:
        names = [f"{name[:-1]}i" for name in names]
    templates = language.several_parts if of > 1 else language.one_part
    number = figures_read(str(of), language.code)
    return [t.format(w=number, p=name) for t in templates for name in names]


def _and_half(text: str, language: Language) -> Iterator[Forms]:
    for match in _WITH_HALF.finditer(text):
        numbers = [match[1] if language.code == "zh" else figures_read(match[1], language.code)]
        if match[1] == "1":
            numbers += language.ones
        nouns = language.units.get(match[2], (match[2], match[2].removesuffix("s")))
        phrases = [match[0][: match.start(2) - match.start()] + noun for noun in nouns]
        phrases += [
            template.format(w=number, u=noun)
            for template in language.and_half
            if match[1] == "1" or "anderthalb" not in template
            for number in numbers
            for noun in nouns
        ]
        yield Forms(*match.span(), tuple(phrases))


def _ones(text: str, language: Language) -> Iterator[Forms]:
    for match in _ONE.finditer(text):
        yield Forms(*match.span(), tuple(language.ones))


def _ordinals(text: str, language: Language) -> Iterator[Forms]:
    code = language.code
    if language.ordinal:
        for match in re.finditer(language.ordinal, text):
            yield Forms(*match.span(), ordinals(code, match[1] or match[match.lastindex or 1]))
    if code == "de":  # the day and the month: "am 3.5."
        for match in re.finditer(r"(?<![\d.,])(\d{1,2})\.\s?(\d{1,2})\.(?:(\d{4})\b)?", text):
            both = zip(*(ordinals(code, number) for number in match.group(1, 2)), strict=False)
            yield Forms(*match.span(), tuple(f"{d} {m} {match[3] or ''}" for d, m in both))


def _roman(text: str, language: Language) -> Iterator[Forms]:
    """Chapter IV: four; Henry VIII: the eighth."""
    for match in _ROMAN.finditer(text):
        values = [_ROMAN_FIGURES[figure] for figure in match[1]]
        # A smaller figure before a larger one is subtracted.
        signed = [a if a >= b else -a for a, b in zip(values, [*values[1:], 0], strict=True)]
        number = str(sum(signed))
        ranks = ordinals(language.code, number)
        articles = _RANKS.get(language.code, ())
        with_article = [f"{article} {rank}" for article in articles for rank in ranks]
        yield Forms(*match.span(), (number, *ranks, *with_article))


def _others(text: str, language: Language) -> Iterator[Forms]:
    for written, *templates in language.others:
        for match in re.finditer(written, text, re.IGNORECASE):
            groups = [_Number(group) for group in match.groups() if group]
            yield Forms(*match.span(), tuple(t.format(*groups) for t in templates))


class _Number(str):
    """A text whose format `o` is the English ordinal of its number."""

    def __format__(self, form: str) -> str:
        return ordinal("en", self) or self if form == "o" else str(self)


def _sums(text: str, language: Language) -> Iterator[Forms]:
    for match in _SUM.finditer(text):
        sign = (match["before"] or match["after"] or "").strip()
        if templates := language.sums.get(sign):
            phrases = (t.format(w=match["whole"], p=int(match["part"])) for t in templates)
            yield Forms(*match.span(), tuple(phrases))
