"""From the parameters of an address to SQL: which items, in which order.

q=word            a text anywhere in id, path, speaker, text or hypothesis; `regex=1`: a pattern
in.reason=a       any of the values of a column; several times; empty: null
min.snr=3 max.snr=9
spans=1           also non-speech and unsegmented spans
change=came       against another version: came, went, text, outcome
sort=-snr         by a column, `-` largest first
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flows.explore.corpus import Corpus, Items
from flows.explore.loading import Column
from tasks.errors import ConfigError
from tasks.json_types import JsonObject

Parameters = Iterable[tuple[str, str]]
MOST = 1000  # rows of an answer
UTTERANCES = "outcome IN ('packaged', 'dropped', 'failed')"


@dataclass(frozen=True, slots=True)
class Choice:
    """A condition in SQL and its values."""

    sql: str
    values: tuple[Any, ...]


def choice(columns: Mapping[str, Column], asked: Parameters) -> Choice:
    """The items that the parameters choose; ConfigError where one makes no sense."""
    asked = list(asked)
    single = dict(asked)
    parts: list[str] = [] if single.get("spans") == "1" else [UTTERANCES]
    values: list[Any] = []
    if text := single.get("q", ""):
        if single.get("regex") == "1":
            parts.append("regexp_matches(searched, ?, 'i')")
            values.append(text)
        else:
            parts.append("contains(searched, ?)")
            values.append(text.lower())
    wanted: dict[str, list[str]] = {}
    for key, value in asked:
        kind, dot, column = key.partition(".")
        if not dot:
            continue
        name = quoted(columns, column)
        if kind == "in":
            wanted.setdefault(name, []).append(value)
        elif kind in ("min", "max"):
            parts.append(f"{name} {'>=' if kind == 'min' else '<='} ?")
            values.append(number(value, key))
    for name, some in wanted.items():
        named = [value for value in some if value]
        tests = [f"{name}::VARCHAR IN ({', '.join('?' * len(named))})"] if named else []
        tests += [f"{name} IS NULL"] if "" in some else []
        parts.append(f"({' OR '.join(tests)})")
        values += named
    return Choice(" AND ".join(parts) or "true", tuple(values))


def order(columns: Mapping[str, Column], asked: str | None, back: bool = False) -> str:
    """ORDER BY of `sort=`; without one, the order of the ledger. `back`: from the end."""
    way, nulls, last = ("ASC", "LAST", "item") if not back else ("DESC", "FIRST", "item DESC")
    if not asked:
        return last
    name = asked.removeprefix("-")
    if asked.startswith("-"):
        way = "DESC" if not back else "ASC"
    return f"{quoted(columns, name)} {way} NULLS {nulls}, {last}"


def quoted(columns: Mapping[str, Column], name: str) -> str:
    """A column's name for SQL; ConfigError if there is none of this name."""
    if name not in columns:
        raise ConfigError(f"there is no column {name!r} in this version")
    return f'"{name}"'


def number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a number") from None


def integer(asked: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    text = asked.get(name) or ""
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a whole number") from None


def window(asked: Mapping[str, str]) -> tuple[int, int]:
    """(limit, offset) of a page."""
    limit = min(max(integer(asked, "limit", 100) or 0, 0), MOST)
    return limit, max(integer(asked, "offset", 0) or 0, 0)


def page(asked: Mapping[str, str]) -> str:
    limit, offset = window(asked)
    return f"LIMIT {limit} OFFSET {offset}"


def rows(corpus: Corpus, items: Items, asked: Parameters) -> dict[str, Any]:
    """Rows of a page, and how many there are with how many hours."""
    asked = list(asked)
    single = dict(asked)
    chosen = choice(items.columns, asked)
    whole = total(corpus, items, chosen)
    names = ", ".join(f'"{name}"' for name in items.columns)
    places = _places(corpus, items, chosen, single, whole["total"])
    found = corpus.rows(
        f"SELECT item, {names} FROM {items.name} WHERE item IN "
        f"({', '.join(map(str, places)) or 'NULL'})"
    )
    by_item = {row["item"]: row for row in found}
    return {"rows": [by_item[item] for item in places], **whole}


def _places(
    corpus: Corpus, items: Items, chosen: Choice, asked: Mapping[str, str], total: int
) -> list[int]:
    """The items of a page, in order. A page of the second half is found from the end: what has to
    be sorted is only what lies before it."""
    limit, offset = window(asked)
    limit = min(limit, max(total - offset, 0))
    back = offset > total // 2
    by = order(items.columns, asked.get("sort"), back)
    start = total - offset - limit if back else offset
    found = corpus.rows(
        f"SELECT item FROM {items.name} WHERE {chosen.sql} ORDER BY {by} "
        f"LIMIT {limit} OFFSET {start}",
        chosen.values,
    )
    places = [row["item"] for row in found]
    return places[::-1] if back else places


def total(corpus: Corpus, items: Items, chosen: Choice) -> dict[str, Any]:
    """`total` items and their `hours`; a version never changes, so they are counted once."""
    counted = f"count(*) AS total, coalesce(sum(seconds), 0) / 3600 AS hours FROM {items.name}"
    return corpus.once(f"SELECT {counted} WHERE {chosen.sql}", chosen.values)[0]


OUTCOMES = ("packaged", "dropped", "failed", "non_speech", "unsegmented")
RECORDINGS = {
    "recording": Column("text"),
    "dataset": Column("text"),
    "source_path": Column("text"),
    "speaker": Column("text"),
    "language": Column("text"),
    "utterances": Column("number"),
    "seconds": Column("number", "s"),
    **{outcome: Column("number", "s") for outcome in OUTCOMES},
    "kept": Column("number", "1", "share of its seconds that is packaged"),
    "reasons": Column("text", "", "why the rest is not packaged"),
}


def recordings(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """The same by recording: seconds of each outcome."""
    asked = [*asked, ("spans", "1")]
    single = dict(asked)
    chosen = choice(items.columns, asked)
    sums = ", ".join(
        f"coalesce(sum(seconds) FILTER (outcome = '{outcome}'), 0) AS {outcome}"
        for outcome in OUTCOMES
    )
    grouped = (
        "SELECT recording, any_value(dataset) AS dataset, any_value(source_path) AS source_path, "
        "any_value(speaker) AS speaker, mode(language) AS language, count(id) AS utterances, "
        f"sum(seconds) AS seconds, {sums}, packaged / nullif(sum(seconds), 0) AS kept, "
        "string_agg(DISTINCT reason, ', ' ORDER BY reason) FILTER (outcome IN "
        f"('dropped', 'failed')) AS reasons FROM {items.name} WHERE {chosen.sql} GROUP BY recording"
    )
    way = single.get("sort")
    by = order(RECORDINGS, way).replace(", item", ", recording") if way else "recording"
    found = corpus.rows(f"SELECT * FROM ({grouped}) ORDER BY {by} {page(single)}", chosen.values)
    counted = "SELECT count(DISTINCT recording) AS total, coalesce(sum(seconds), 0) / 3600 AS hours"
    whole = corpus.rows(f"{counted} FROM {items.name} WHERE {chosen.sql}", chosen.values)[0]
    return {"rows": found, **whole}
