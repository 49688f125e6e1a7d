"""Where a text has personal data, kind by kind, in the order of places and without overlaps.

Phone numbers are valid in a country where the language is spoken, by the plans that `phonenumbers`
has (libphonenumber); cards, accounts and persons have check digits. Numbers that may be dates,
prices or quantities count only after a word that announces them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import NamedTuple

from ..base.errors import ConfigError
from ..scoring import UNSPACED, languages
from ..scoring.normalisers import base, figures_to_words, has_words

KINDS = ("email", "account", "id", "card", "phone")
_NUMBER = re.compile(r"(?<![\w.,+])(?<!\d[ -])(?:\+|00)?\(?\d[\d ()./‐‑–-]{4,26}\d(?![\d%])")
_HAN_NUMBER = re.compile(r"(?<![\d.,])\+?\d[\d -]{5,24}\d(?!\d)")
_HAN = re.compile(r"[零一二三四五六七八九〇]")
_CARD = re.compile(r"(?<![\d.,])[2-6]\d{3}(?:[ -]?\d){9,15}(?!\d)")
_IBAN = re.compile(r"(?<![A-Za-z\d])(?=([A-Za-z]{2}[ -]?\d{2}(?:[ -]?[A-Za-z\d]){11,30}))")
_ID = re.compile(
    r"(?<![\w.,-])(?:\d{3}-\d{2}-\d{4}|\d{17}[\dXx]|\d{8}-?[A-Za-z]|\d{3}\.\d{3}\.\d{3}-\d{2}|"
    r"[12](?: ?\d){14}|[A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z])(?![\w-])"
)
_ACCOUNT = re.compile(
    r"(?:account|konto|compte|cuenta|conto|conta|rekening|счёт|счет|账号|帳號|账户|口座)\D{0,24}"
    r"(?<![\d.,])(\d(?:[ -]?\d){5,22})(?![\d.,]*\d)",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"phone|fon|call|mobil|cell|tel[eé]|handy|ruf|numm?[eé]r|n[uú]mero|dial|ring|fax|whatsapp|"
    r"appel|joind|ll[aá]m|chiam|ligu|\bbel|звон|телефон|номер|набер|电话|電話|手机|号码|打给|携帯|番号",
    re.IGNORECASE,
)
_BEFORE = 40  # characters before a number in which it may be announced
_DATE = re.compile(r"\d{1,4}([-./ ])\d{1,2}\1\d{1,4}|\d{4}[-–/ ]\d{2,4}")
_THOUSANDS = re.compile(r"[1-9]\d{0,2}([., ])\d{3}(?:\1\d{3})+")
_LOOSE = re.compile(r"\d(?:[ ./()-]{0,2}\d){3,}")
_MONEY = re.compile(
    r"\s?(?:[$€£¥%元円]|euro|dollar|pound|yuan|rubl|руб|million|mill)", re.IGNORECASE
)


class Hit(NamedTuple):
    """A place in a text, and the kind of data there."""

    start: int
    end: int
    kind: str


@lru_cache(maxsize=1024)  # used by the rule, and again on publishing
def hits(text: str, language: str | None, thorough: bool = False) -> tuple[Hit, ...]:
    """Personal data in a text; `thorough`: also unconfirmed numbers of four figures and more, for a
    second text of the same words."""
    written = written_in_figures(text, language)
    spots = [Hit(*span, "email") for span in emails(text)]
    spots += [
        Hit(*written.span(start, end), kind)
        for start, end, kind in _numbers(written, base(language or "en"), thorough)
    ]
    taken: list[Hit] = []
    for hit in sorted(spots, key=lambda hit: (KINDS.index(hit.kind), hit.start)):
        if all(hit.end <= other.start or hit.start >= other.end for other in taken):
            taken.append(hit)
    return tuple(sorted(taken))


def _numbers(written: Written, language: str, thorough: bool) -> Iterator[tuple[int, int, str]]:
    text = written.text
    for match in _IBAN.finditer(text):
        for end in range(match.end(1), match.start() + 14, -1):
            piece = text[match.start() : end]
            if piece[-1].isalnum() and iban(re.sub(r"[ -]", "", piece)):
                yield match.start(), end, "account"
                break
    for match in _ACCOUNT.finditer(text):
        yield *match.span(1), "account"
    for match in _ID.finditer(text):
        if person(match[0]):
            yield *match.span(), "id"
    for match in _CARD.finditer(text):
        figures = re.sub(r"\D", "", match[0])
        if 13 <= len(figures) <= 19 and luhn(figures) and len({*figures}) > 1:
            yield *match.span(), "card"
    pattern = _HAN_NUMBER if language in ("zh", "yue", "ja", "th") else _NUMBER
    for match in pattern.finditer(text):
        start, end = written.span(*match.span())
        # Nine figures and more, said one by one, are not a price, year or quantity.
        spoken = end - start > 2 * len(match[0]) or _HAN.search(written.original, start, end)
        if _is_phone(text, match, language, bool(spoken)):
            yield *match.span(), "phone"
    if thorough:
        for match in _LOOSE.finditer(text):
            yield *match.span(), "phone"


def _is_phone(text: str, match: re.Match[str], language: str, spoken: bool) -> bool:
    number = match[0]
    figures = sum(map(str.isdecimal, number))
    announced = _CALL.search(text, max(match.start() - _BEFORE, 0), match.start())
    if _DATE.fullmatch(number) or not 7 <= figures <= 15 or _MONEY.match(text, match.end()):
        return False
    if not announced and number.startswith(("1234567", "01234567")):  # somebody is counting
        return False
    if text[: match.start()].rstrip()[-1:] in {*"$€£¥#№"}:
        return False
    if (
        not (announced or (spoken and figures >= 9 and number.isdecimal()))
        and (figures < 9 or _THOUSANDS.fullmatch(number) or number.isdecimal())
        and (number[0] not in "+0" and not (number.isdecimal() and figures in (10, 11)))
    ):
        return False
    library = phone_plans()
    for region in languages.of(language).countries or ("US",):
        with suppress(library.NumberParseException):
            if library.is_valid_number(library.parse(number, region)):
                return True
    return False


def phone_plans() -> ModuleType:
    """The library phonenumbers. Raises ConfigError if it is missing."""
    try:
        import phonenumbers
    except ImportError as error:
        raise ConfigError(
            f"the rule pii needs phonenumbers ({error}): pip install 'uttermill[pii]'"
        ) from error
    plans: ModuleType = phonenumbers
    return plans


#: Length of an IBAN by country (ISO 13616 registry).
_LENGTHS = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 CH21 CR22 CY28
CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23
GL18 GR27 GT28 HR21 HU28 IE22 IL23 IS26 IT27 JO30 KW30 KZ20 LB28
LI21 LT20 LU20 LV21 MC27 MD24 ME22 MK19 MT31 NL18 NO15 PL28 PS29
PT25 QA29 RO24 RS22 SA24 SE24 SI19 SK24 SM27 TN24 TR26 UA29 XK20
"""
IBAN = {entry[:2]: int(entry[2:]) for entry in _LENGTHS.split()}
_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"


def luhn(figures: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    doubled = (2 * int(f) if place % 2 else int(f) for place, f in enumerate(reversed(figures)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def iban(text: str) -> bool:
    """Whether a text is an IBAN: letters and figures, a country's length and ISO 7064's check."""
    text = text.upper()
    if len(text) != IBAN.get(text[:2]) or not text.isalnum() or not text.isascii():
        return False
    return int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1


def person(text: str) -> bool:
    """Whether a text is an identity number of the USA, China, Spain, France, Italy or Brazil."""
    bare = re.sub(r"[\s.-]", "", text).upper()
    if re.fullmatch(r"\d{3}-\d{2}-\d{4}", text):
        return text[:3] not in ("000", "666") and text[0] != "9"
    if re.fullmatch(r"\d{17}[\dX]", bare):
        weighted = sum(int(f) * (1 << (17 - place)) % 11 for place, f in enumerate(bare[:17]))
        return "10X98765432"[weighted % 11] == bare[17] and "1900" <= bare[6:10] <= "2100"
    if re.fullmatch(r"\d{8}[A-Z]", bare):
        return _DNI[int(bare[:8]) % 23] == bare[8]
    if re.fullmatch(r"[12]\d{14}", bare):
        return 97 - int(bare[:13]) % 97 == int(bare[13:]) and 1 <= int(bare[3:5]) <= 12
    if re.fullmatch(r"\d{11}", bare) and re.fullmatch(r"\d{3}\.\d{3}\.\d{3}-\d{2}", text):
        first = sum(int(f) * w for f, w in zip(bare, range(10, 1, -1), strict=False)) * 10 % 11
        second = sum(int(f) * w for f, w in zip(bare, range(11, 1, -1), strict=False)) * 10 % 11
        return bare[9:] == f"{first % 10}{second % 10}"
    return bool(re.fullmatch(r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", bare))


# E-mail addresses, written and said: `john.smith@gmail.com`, `john dot smith at gmail dot com`.

AROUND = 90  # characters searched before and after the at sign
_STRONG = (
    "klammeraffe|arobase|arobas|arroba|chiocciola|apenstaartje|apestaart|małpa|kuyruklu a|"
    "собака|собачка|艾特|圈a|アットマーク|アット"
)
_AT = re.compile(
    rf"\s?[@＠]\s?|\s*[(\[]\s?at\s?[)\]]\s*|\s*(?:{_STRONG})\s*|\s+(?:at|ät|et)\s+", re.IGNORECASE
)
_DOT = (
    r"(?:\.|\s+(?:dot|punkt|point|punto|ponto|punt|точка|kropka|nokta)\s+|"
    r"\s*(?:点|點|ドット)\s*)"
)
_JOIN = (
    r"(?:[-_+]|\s+(?:underscore|unterstrich|bindestrich|dash|hyphen|minus|tiret|trattino|"
    r"guion bajo|guion|streepje|подчёркивание|дефис)\s+|(?<=\b\w)\s(?=\w\b)|"
    r"\s*(?:下划线|アンダーバー)\s*)"
)
_ATOM = rf"[^\W_{UNSPACED}]{{1,40}}"
_LOCAL = re.compile(
    rf"(?:(?<=[{UNSPACED}])|(?<![\w.+-])){_ATOM}(?:(?:{_DOT}|{_JOIN}){_ATOM}){{0,9}}$",
    re.IGNORECASE,
)
_TLD = (
    "com|org|net|edu|gov|info|io|biz|eu|de|at|ch|fr|be|es|it|pt|br|nl|ru|ua|by|uk|us|ca|au|in|cn|"
    "hk|tw|jp|kr|pl|mx|ar|cl|tr|gr|se|no|dk|fi|cz|ro|hu|il|app|dev|ком|ру|рф|нет"
)
_DOMAIN = re.compile(
    rf"{_ATOM}(?:(?:{_DOT}|{_JOIN}){_ATOM}){{0,5}}?{_DOT}(?:{_TLD})(?:{_DOT}(?:{_TLD}))?"
    rf"(?=$|[^\w]|[{UNSPACED}])",
    re.IGNORECASE,
)
#: After a sign that means nothing else, any domain counts.
_ANY_DOMAIN = re.compile(
    rf"{_ATOM}(?:(?:{_DOT}|{_JOIN}){_ATOM}){{0,5}}?{_DOT}[^\W\d_{UNSPACED}]{{2,24}}"
    rf"(?=$|[^\w]|[{UNSPACED}])",
    re.IGNORECASE,
)
#: "look at gmail dot com" is rare; "at" before other names is mostly a place.
_PROVIDER = re.compile(
    r"(?:gmail|googlemail|yahoo|hotmail|outlook|gmx|web|icloud|proton|protonmail|aol|live|msn|qq|"
    r"163|126|mail|yandex|яндекс|orange|free|wanadoo|libero|virgilio|terra|uol|bol|ziggo|kpn)\b",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"mail|correo|courriel|почт|邮|郵|メール|address|adresse|write|reach", re.IGNORECASE
)


def emails(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each address. Linear: searches a window around each at sign."""
    for sign in _AT.finditer(text):
        low = max(sign.start() - AROUND, 0)
        local = _LOCAL.search(text[low : sign.start()])
        plain = sign[0].strip().casefold() in ("at", "ät", "et")
        behind = text[sign.end() : sign.end() + AROUND]
        domain = _DOMAIN.match(behind) or (None if plain else _ANY_DOMAIN.match(behind))
        if local is None or domain is None:
            continue
        if plain and not (
            _PROVIDER.match(domain[0])
            or not local[0].isalpha()
            or _CUE.search(text[max(low, sign.start() - 50) : sign.start()])
        ):
            continue
        yield low + local.start(), sign.end() + domain.end()


# A text with its spoken numbers in figures, and where each of its characters comes from.
#
#     call four one five, five five five -> call 415555
#
# The words are CLDR's for 0 to 99, by language. Runs of fewer than FEWEST figures stay as they are:
# ages, years and prices.


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
_IN_HAN = {
    **dict(zip("零一二三四五六七八九", "0123456789", strict=True)),
    "〇": "0",
    "幺": "1",
}


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
    more = {**_IN_HAN, **languages.of(code).figures}
    words: dict[tuple[str, ...], str] = {(word,): figures for word, figures in more.items()}
    if code not in ("zh", "ja", "yue"):
        for number in range(99, -1, -1):
            words[tuple(_TOKEN.findall(say(str(number)).casefold()))] = str(number)
    return words


@lru_cache(maxsize=64)
def _first_words(language: str) -> frozenset[str]:
    return frozenset(words[0] for words in words_of(language))


def written_in_figures(text: str, language: str | None) -> Written:
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
