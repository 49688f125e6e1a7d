"""Turns the parameters of a request into SQL: which items, in which order.

q=word            a text anywhere in id, path, speaker, text or hypothesis; `regex=1`: a pattern
word=a            a whole word of the text as it is compared; character=a: a character of it
in.reason=a       any of the values of a column; several times; empty: null
min.snr=3 max.snr=9 below.snr=9     `max` has the value itself, `below` has not
spans=1           also non-speech and unsegmented spans
change=came       against another version: came, went, text, outcome
sort=-snr         by a column, `-` largest first
"""

from __future__ import annotations

import math
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...tasks.accounting.ledger import PRECEDENCE
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.storage.queries import identifier, literal
from .corpus import Corpus, Items
from .loading import Column, SqlValue, compared

Parameters = Sequence[tuple[str, str]]
MOST = 1000  # rows in a response
LARGEST = 10**15  # whole numbers in a request are smaller
UTTERANCES = "outcome IN ('packaged', 'dropped', 'failed')"
SIGNS = {"min": ">=", "max": "<=", "below": "<"}


@dataclass(frozen=True, slots=True)
class Choice:
    """A condition in SQL and its values."""

    sql: str
    values: tuple[SqlValue, ...]


def choice(columns: Mapping[str, Column], asked: Parameters) -> Choice:
    """The items that the parameters choose; ConfigError if one is invalid."""
    single = dict(asked)
    parts: list[str] = [] if single.get("spans") == "1" else [UTTERANCES]
    values: list[SqlValue] = []
    if text := single.get("q", ""):
        if single.get("regex") == "1":
            parts.append("regexp_matches(searched, ?, 'i')")
            values.append(text)
        else:  # an é may be one character, or two, as in names of files by macOS
            forms = {text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}
            parts.append(f"({' OR '.join(['contains(searched, lower(?))'] * len(forms))})")
            values += sorted(forms)
    for kind, space in (("word", " "), ("character", "")):
        if text := single.get(kind, ""):
            parts.append(f"contains(concat(?, {compared(columns)}, ?), ?)")
            values += [space, space, f"{space}{text}{space}"]
    wanted: dict[str, list[str]] = {}
    for key, value in asked:
        kind, dot, column = key.partition(".")
        if not dot:
            continue
        name = quoted(columns, column)
        if kind == "in":
            wanted.setdefault(name, []).append(value)
        elif kind in SIGNS:
            parts.append(f"{name} {SIGNS[kind]} ?")
            values.append(number(value, key))
    for name, given in wanted.items():
        named = [value for value in given if value]
        tests = [f"{name}::VARCHAR IN ({', '.join('?' * len(named))})"] if named else []
        tests += [f"{name} IS NULL"] if "" in given else []
        parts.append(f"({' OR '.join(tests)})")
        values += named
    return Choice(" AND ".join(parts) or "true", tuple(values))


def order(columns: Mapping[str, Column], asked: str | None, last: str = "item") -> str:
    """ORDER BY of `sort=`; without one, and among equal values, by the column `last`."""
    if not asked:
        return last
    way = "DESC" if asked.startswith("-") else "ASC"
    return f"{quoted(columns, asked.removeprefix('-'))} {way} NULLS LAST, {last}"


def quoted(columns: Mapping[str, Column], name: str) -> str:
    """A column's name for SQL; ConfigError if no column has this name."""
    if name not in columns:
        raise ConfigError(f"there is no column {name!r} in this version")
    return identifier(name)


def number(text: object, name: str, most: float = sys.float_info.max) -> float:
    """A number in a request, between -`most` and `most`; ConfigError if it is not one."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        value = math.nan
    if not abs(value) <= most:
        limit = "" if most == sys.float_info.max else f" up to {most:,.0f}"
        raise ConfigError(f"{name} is {_shown(text)}; give a number{limit}")
    return value


def integer(asked: Mapping[str, object], name: str, default: int | None = None) -> int | None:
    """A whole number in a request, in the range of DuckDB's and numpy's integers."""
    text = str(asked.get(name) or "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < len(str(LARGEST))):
        raise ConfigError(f"{name} is {_shown(text)}; give a whole number below {LARGEST:,}")
    return int(text)


def _shown(given: object) -> str:
    return textwrap.shorten(repr(given), 80, placeholder="…")


def page(asked: Mapping[str, str]) -> str:
    limit = min(max(integer(asked, "limit", 100) or 0, 0), MOST)
    return f"LIMIT {limit} OFFSET {max(integer(asked, 'offset', 0) or 0, 0)}"


def rows(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """Rows of a page, with the number and the hours of all chosen items."""
    single = dict(asked)
    chosen = choice(items.columns, asked)
    where = f"FROM {items.name} WHERE {chosen.sql}"
    whole = corpus.rows(
        f"SELECT count(*) AS total, coalesce(sum(seconds), 0) / 3600 AS hours {where}",
        chosen.values,
    )[0]
    by = order(items.columns, single.get("sort"))
    shown = f"SELECT item, {items.listed} {where} ORDER BY {by} {page(single)}"
    return {"rows": corpus.rows(shown, chosen.values), **whole}


_SUMS = {
    outcome: f"coalesce(sum(seconds) FILTER (outcome = {literal(outcome)}), 0)"
    for outcome in PRECEDENCE
}
_WHY = "string_agg(DISTINCT reason, ', ' ORDER BY reason) FILTER (outcome IN ('dropped', 'failed'))"
#: The columns of a recording, and how each but the first follows from its items.
_SUMMED = {
    "recording": (Column("text"), ""),
    "dataset": (Column("text"), "any_value(dataset)"),
    "source_path": (Column("text"), "any_value(source_path)"),
    "speaker": (Column("text"), "any_value(speaker)"),
    "language": (Column("text"), "mode(language)"),
    "utterances": (Column("number"), "count(id)"),
    "seconds": (Column("number", "s"), "sum(seconds)"),
    **{outcome: (Column("number", "s"), total) for outcome, total in _SUMS.items()},
    "kept": (
        Column("number", "1", "share of its seconds that is packaged"),
        f"{_SUMS['packaged']} / nullif(sum(seconds), 0)",
    ),
    "reasons": (Column("text", "", "why the rest is not packaged"), _WHY),
}
RECORDINGS = {name: column for name, (column, _) in _SUMMED.items()}


def recordings(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """Rows by recording, with the seconds of each outcome."""
    asked = [*asked, ("spans", "1")]
    single = dict(asked)
    chosen = choice(items.columns, asked)
    whole = corpus.rows(
        "SELECT count(DISTINCT recording) AS total, coalesce(sum(seconds), 0) / 3600 AS hours "
        f"FROM {items.name} WHERE {chosen.sql}",
        chosen.values,
    )[0]
    by = order(RECORDINGS, single.get("sort"), "recording")
    summed = ", ".join(f"{sql} AS {identifier(name)}" for name, (_, sql) in _SUMMED.items() if sql)
    grouped = f"SELECT recording, {summed} FROM {items.name} WHERE {chosen.sql} GROUP BY recording"
    return {"rows": corpus.rows(f"{grouped} ORDER BY {by} {page(single)}", chosen.values), **whole}
