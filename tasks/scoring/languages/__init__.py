"""What the rules on texts know of languages: `<code>.toml` beside this file, by ISO 639-1 code.

To teach a language, write such a file: each of its keys is a field of `Language`. Patterns are
Python's regular expressions.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HOME = Path(__file__).parent
CODES = frozenset(path.stem for path in HOME.glob("*.toml"))


@dataclass(frozen=True, slots=True)
class Language:
    """Empty fields: what is not known."""

    code: str = ""
    common: str = ""  # frequent words, by which captions in two languages are told apart
    countries: Sequence[str] = ()  # where it is spoken, for the plans of telephone numbers

    # Figures as they are read out, and as they are said.
    decimal: str = ""  # 3,5 -> drei *Komma* fünf; without it, figures after a mark stay
    by_figure: bool = True  # decimals: drei Komma zwei fünf; else trois virgule vingt-cinq
    years: bool = False  # 1990: neunzehnhundertneunzig
    symbols: Mapping[str, str] = field(default_factory=dict)  # 20 % -> zwanzig *Prozent*
    fold: Sequence[Sequence[str]] = ()  # (pattern over folded text, form) of one number
    figures: Mapping[str, str] = field(default_factory=dict)  # words besides CLDR's: zwo is 2
    endings: str = ""  # pattern of what follows figures and is no word of its own: 1990s
    signs: Mapping[str, str] = field(default_factory=dict)  # words where `symbols` has none
    date_signs: str = ""  # words after the numbers of a date (year, month, day)
    time_signs: str = ""
    part_of: str = ""  # between the parts of a fraction and their number: 三*分之*二
    to: str = "to"  # 10-20

    # One spelling of a word.
    letters: str = ""  # "أإآ ا, ى ي": each of the former is the latter
    forms: Sequence[Sequence[str]] = ()  # (pattern over decomposed text, form)

    # Other phrases for units, times, fractions and sums (`spoken_forms`).
    units: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names of one and several
    #: {h}: the hour, {n}: the next one, {m}: minutes, {b}: minutes to the next hour. After `30`,
    #: `15`, `45` and `00`: at that minute.
    times: Sequence[str] = ()
    hour: Sequence[str] = ()  # an hour, and what may be said for it
    clock: str = r"([01]?\d|2[0-4]):([0-5]\d)"
    halves: Sequence[str] = ()  # 1/2
    parts: Sequence[str] = ()  # names of 1/3 to 1/10; `/` separates two of one
    one_part: Sequence[str] = ()  # {p} of these
    several_parts: Sequence[str] = ()  # {w} of {p}
    and_half: Sequence[str] = ()  # {w} and a half of {u}: "1 1/2", "1.5" and a unit or another word
    ones: Sequence[str] = ()  # what the number one is before a noun
    conjunction: str = ""
    ordinal: str = ""  # a number that the mark behind it makes an ordinal
    others: Sequence[Sequence[str]] = ()  # what is written, and what is said for its groups
    #: By sign; {w}: notes, {p}: coins.
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)


@cache
def of(code: str) -> Language:
    """What is known of a language; empty if there is no file of it."""
    if code not in CODES:
        return Language()
    return Language(code, **tomllib.loads((HOME / f"{code}.toml").read_text("utf-8")))
