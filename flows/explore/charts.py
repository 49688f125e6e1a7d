"""The data of the charts and tables over a version: histograms with limits, points of two measures,
hours kept; words, characters, speakers; and two versions compared."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from ...tasks import plugins
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.insight import comparing, frequent_texts
from ...tasks.plugins.rules import Limit
from ...tasks.publish.published import Dataset
from ...tasks.settings import THRESHOLD, roles
from ...tasks.settings.job import Job
from ...tasks.shard_store import annotated
from ...tasks.storage import queries
from ...tasks.storage.queries import identifier
from . import query
from .corpus import Corpus, Items
from .loading import Column, SqlValue, compared
from .query import Choice, Parameters
from .responses import parsed

BINS = 48
EDGES = (0, 1, 2, 3, 5, 8, 12, 20, 30)  # s
POINTS = 4000  # of a scatter, drawn by a hash of the id: the same each time
CHART_GROUPS = ("outcome", "dataset", "language", "split")
MOST_ROWS = 500  # rows of a table
FACETS = ("outcome", "reason", "dataset", "speaker", "language", "split", "stage")
TABLE_GROUPS = ("dataset", "language", "speaker", "split", "outcome", "reason", "recording")
RATES = {"wer": ("word_errors", "words"), "cer": ("char_errors", "chars")}
_GROUP = ("name", "items", "hours", "kept_hours", "mean_seconds", "words_per_second", *RATES)
GROUP_COLUMNS = {name: Column("text" if name == "name" else "number") for name in _GROUP}
CHANGES = ("came", "went", "outcome", "text", "heard")


def histogram(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """Counts of a measure in equal bins, from each of the `edges` to below the next, by `by`; the
    tails beyond the 0.1 % and 99.9 % quantiles are counted in the outermost bins."""
    single = dict(asked)
    name = single.get("column", "seconds")
    column = query.quoted(items.columns, name)
    if items.columns[name].kind != "number":
        raise ConfigError(f"{name} is a text; a histogram needs numbers")
    by = single.get("by") or "outcome"
    if by not in CHART_GROUPS:
        raise ConfigError(f"by is {by!r}; use {', '.join(CHART_GROUPS)}")
    chosen = query.choice(items.columns, asked)
    where = f"{items.name} WHERE {chosen.sql} AND {column} IS NOT NULL AND isfinite({column})"
    [whole] = corpus.rows(
        f"SELECT count(*) AS n, min({column}) AS least, max({column}) AS most, "
        f"quantile_disc({column}, 0.001) AS low, quantile_disc({column}, 0.999) AS high "
        f"FROM {where}",
        chosen.values,
    )
    if not whole["n"]:
        return {"low": 0, "high": 0, "bins": BINS, "least": None, "most": None, "counts": []}
    low, high = whole["low"], whole["high"]
    if high <= low:
        low, high = whole["least"], whole["most"]
    width = (high - low) / BINS or max(abs(low), 1.0) / (10 * BINS)  # of equal values: a tenth
    edges = [low + bin * width for bin in range(BINS + 1)]
    bins = " + ".join(f"({column} >= ?)::INT" for _ in edges[1:-1])
    counts = corpus.rows(
        f"SELECT {bins} AS bin, {identifier(by)} AS name, count(*) AS count, "
        f"sum(seconds) / 3600 AS hours FROM {where} GROUP BY ALL ORDER BY name, bin",
        [*edges[1:-1], *chosen.values],
    )
    return {**whole, "low": low, "high": edges[-1], "edges": edges, "bins": BINS, "counts": counts}


def scatter(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """Points of two measures, POINTS at most."""
    single = dict(asked)
    x = query.quoted(items.columns, single.get("x", ""))
    y = query.quoted(items.columns, single.get("y", ""))
    chosen = query.choice(items.columns, asked)
    where = f"{items.name} WHERE {chosen.sql} AND {x} IS NOT NULL AND {y} IS NOT NULL"
    whole = corpus.rows(f"SELECT count(*) AS total FROM {where}", chosen.values)[0]
    points = corpus.rows(
        f"SELECT item, {x} AS x, {y} AS y, outcome FROM {where} ORDER BY hash(item) LIMIT {POINTS}",
        chosen.values,
    )
    return {**whole, "points": points}


def limits(job: Job | None) -> list[JsonObject]:
    """Every limit that a setting can set on a measure: `column`, `side`, `value` now, its `key` in
    the settings, and the `reason` that it gives."""
    if job is None:
        return []
    chosen = [("filters", "filter.filters", plugin) for plugin in job.filter.filters]
    chosen += [("text", "transcribe.verdicts", plugin) for plugin in job.transcribe.verdicts]
    entries = []
    for shelf, key, plugin in chosen:
        module, settings = plugins.resolve(shelf, plugin)
        for name in type(settings).model_fields:
            if roles(type(settings))[name] == THRESHOLD["role"]:
                entries += [
                    {
                        "column": limit.column,
                        "side": side,
                        "value": getattr(limit, side),
                        "key": f"{key}.{plugin.use}.{name}",
                        "reason": limit.low if side == "min" else limit.high,
                        "conditional": bool(limit.unless),
                    }
                    for limit, side in _set_by(module, settings, name)
                ]
    return entries


def _set_by(module: Any, settings: Any, name: str) -> list[tuple[Limit, str]]:
    """The limits of the rules, as they are now, that a change of one setting moves."""
    probe = 0.123456789
    changed = settings.model_copy(update={name: probe})
    try:
        pairs = list(zip(module.verdict(settings), module.verdict(changed), strict=False))
    except (TypeError, ValueError, ValidationError):  # the setting is not a number
        return []
    return [
        (now, side)
        for now, then in pairs
        if isinstance(now, Limit) and isinstance(then, Limit)
        for side in ("min", "max")
        if getattr(then, side) == probe != getattr(now, side)
    ]


def kept(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """What the page's limits would keep: `limits` is JSON, `[{column, side, value}, …]`.

    A dropped item comes back if only this limit rejects it, by the recorded reason, and it passes
    all given limits. Approximate if a rule exempts rows or several reject one: `uttermill what-if`
    is exact.
    """
    single = dict(asked)
    try:
        wanted: Any = parsed(single.get("limits") or "[]", "limits")
        moved = {
            (str(w["column"]), str(w["side"])): query.number(w["value"], "value") for w in wanted
        }
    except (TypeError, KeyError):
        raise ConfigError("limits is not a JSON list of column, side and value") from None
    chosen = query.choice(items.columns, asked)
    entries = limits(corpus.job())
    today = {(entry["column"], entry["side"]): entry["value"] for entry in entries}
    reasons = [entry["reason"] for entry in entries if (entry["column"], entry["side"]) in moved]
    tests, values = [], list[SqlValue]()
    for (column, side), value in {**today, **moved}.items():
        if value is None or column not in items.columns:
            continue
        name, sign = query.quoted(items.columns, column), ">=" if side == "min" else "<="
        test = f"{name} {sign} ?"
        if (column, side) not in moved:  # the packaged clips passed today's limits
            test = f"(outcome = 'packaged' OR {test})"
        tests.append(f"({name} IS NULL OR {test})")
        values.append(value)
    within = " AND ".join(tests) or "true"
    back = f"reason IN ({', '.join('?' * len(reasons))})" if reasons else "false"
    then = f"(outcome = 'packaged' OR (outcome = 'dropped' AND {back})) AND {within}"
    sql = (
        "SELECT count(*) FILTER (outcome = 'packaged') AS now, "
        "coalesce(sum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 AS now_hours, "
        f"count(*) FILTER ({then}) AS then, coalesce(sum(seconds) FILTER ({then}), 0) / 3600 AS "
        f"then_hours FROM {items.name} WHERE {chosen.sql}"
    )
    twice = [*reasons, *values]
    return corpus.rows(sql, [*twice, *twice, *chosen.values])[0]


def table(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """One of the tables: `what` is words, characters, texts, or a column of GROUPS; `rare=1` lists
    rare words or characters first; `by=-wer` sorts groups, of which there are `kinds`."""
    single = dict(asked)
    what = single.get("what") or "dataset"
    chosen = query.choice(items.columns, asked)
    if what in ("words", "characters"):
        return words(corpus, items, chosen, what, single.get("rare") == "1")
    if what == "texts":
        return texts_of_items(corpus, items, chosen)
    groups = (*TABLE_GROUPS, *items.labels)
    if what not in groups:
        raise ConfigError(f"what is {what!r}; use words, characters, texts, {', '.join(groups)}")
    extra = "".join(
        f", sum({errors}) / nullif(sum({of}) FILTER ({errors} IS NOT NULL), 0) AS {name}"
        if {errors, of} <= items.columns.keys()
        else f", NULL AS {name}"
        for name, (errors, of) in RATES.items()
    )
    name = query.quoted(items.columns, what)
    grouped = (
        f"SELECT {name} AS name, count(*) AS items, sum(seconds) / 3600 AS hours, "
        "coalesce(sum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 AS kept_hours, "
        f"avg(seconds) AS mean_seconds, sum(spoken) FILTER (text IS NOT NULL) / "
        f"nullif(sum(seconds) FILTER (text IS NOT NULL), 0) AS words_per_second{extra} "
        f"FROM {items.name} WHERE {chosen.sql} GROUP BY ALL"
    )
    by = query.order(GROUP_COLUMNS, single.get("by") or "-hours", "name")
    rows = corpus.rows(f"{grouped} ORDER BY {by} LIMIT {MOST_ROWS}", chosen.values)
    counted = f"SELECT count(*) AS kinds FROM (SELECT DISTINCT {name} FROM {items.name} "
    whole = corpus.rows(f"{counted} WHERE {chosen.sql})", chosen.values)[0]
    return {"what": what, **whole, "rows": rows}


def words(corpus: Corpus, items: Items, chosen: Choice, what: str, rare: bool) -> JsonObject:
    """The most frequent words (between spaces) or characters of the texts as they are compared, or
    the rarest; how many there are in all (`whole`), how many different ones (`kinds`), and how many
    that occur once (`once`)."""
    counted = (
        f"SELECT name, count(*) AS n FROM (SELECT unnest(string_split({compared(items.columns)}, "
        f"' ')) AS name FROM {items.name} WHERE {chosen.sql}) WHERE name <> '' GROUP BY name"
    )
    if what == "characters":
        split = f"SELECT unnest(string_split(name, '')) AS name, n FROM ({counted})"
        counted = f"SELECT name, sum(n) AS n FROM ({split}) GROUP BY name"
    rows = corpus.rows(
        "SELECT name, n, sum(n) OVER () AS whole, count(*) OVER () AS kinds, "
        f"count(*) FILTER (n = 1) OVER () AS once FROM ({counted}) "
        f"ORDER BY n {'ASC' if rare else 'DESC'}, name LIMIT {MOST_ROWS}",
        chosen.values,
    )
    sums = {name: rows[0][name] if rows else 0 for name in ("whole", "kinds", "once")}
    named = [{"name": row["name"], "count": row["n"]} for row in rows]
    return {"what": what, **sums, "rows": named}


def compared_versions(corpus: Corpus, now: Items, then: Items, asked: Parameters) -> JsonObject:
    """What came, went or changed between two versions, and their totals; utterances are matched by
    their ids."""
    single = dict(asked)
    heard = "hypothesis" if "hypothesis" in now.columns.keys() & then.columns.keys() else "text"
    joined = (
        "SELECT coalesce(n.id, t.id) AS id, coalesce(n.recording, t.recording) AS recording, "
        "n.item AS item, t.item AS item_then, coalesce(n.seconds, t.seconds) AS seconds, "
        "t.outcome AS outcome_then, n.outcome AS outcome, t.reason AS reason_then, "
        "n.reason AS reason, t.text AS text_then, n.text AS text, "
        f"t.{heard} AS heard_then, n.{heard} AS heard, CASE "
        "WHEN coalesce(t.outcome, '') <> 'packaged' AND n.outcome = 'packaged' THEN 'came' "
        "WHEN t.outcome = 'packaged' AND coalesce(n.outcome, '') <> 'packaged' THEN 'went' "
        "WHEN n.id IS NULL OR t.id IS NULL OR n.reason IS DISTINCT FROM t.reason THEN 'outcome' "
        "WHEN n.outcome = 'packaged' AND n.text IS DISTINCT FROM t.text THEN 'text' "
        f"WHEN n.outcome = 'packaged' AND n.{heard} IS DISTINCT FROM t.{heard} THEN 'heard' "
        "END AS change "
        f"FROM (SELECT * FROM {now.name} WHERE id IS NOT NULL) n "
        f"FULL JOIN (SELECT * FROM {then.name} WHERE id IS NOT NULL) t ON n.id = t.id"
    )
    counts = corpus.rows(
        f"SELECT change, count(*) AS items, sum(seconds) / 3600 AS hours FROM ({joined}) "
        "WHERE change IS NOT NULL GROUP BY change ORDER BY change"
    )
    change = single.get("change") or ""
    if change and change not in CHANGES:
        raise ConfigError(f"change is {change!r}; use {', '.join(CHANGES)}")
    where = "change = ?" if change else "change IS NOT NULL"
    rows = corpus.rows(
        f"SELECT * FROM ({joined}) WHERE {where} ORDER BY change, id {query.page(single)}",
        [change] if change else [],
    )
    totals = _totals(*(corpus.place(items.number) for items in (then, now)))
    numbers = {"now": now.number, "then": then.number}
    return {**numbers, "totals": totals, "counts": counts, "rows": rows}


@lru_cache(maxsize=8)  # versions never change
def _totals(then: Path, now: Path) -> comparing.Totals:
    return comparing.totals(Dataset(then), Dataset(now))


def facets(corpus: Corpus, items: Items, asked: Parameters = ()) -> JsonObject:
    """The most frequent values of each column, the same for all filters, and the number of items
    with each, among those that the filters of all other columns choose."""
    by_column: JsonObject = {}
    job = corpus.job()
    by_plugins = annotated.labels(job) if job is not None else ()
    for name in (*FACETS, *items.labels, *(name for name in by_plugins if name in items.columns)):
        others = [(key, value) for key, value in asked if key != f"in.{name}"]
        chosen = query.choice(items.columns, others)
        by_column[name] = corpus.rows(
            f"SELECT value, items FROM (SELECT {identifier(name)} AS value, "
            f"count(*) FILTER ({chosen.sql}) AS items, "
            f"count(*) FILTER ({query.UTTERANCES}) AS of_all FROM {items.name} "
            "GROUP BY ALL ORDER BY of_all DESC, value LIMIT 100) "
            "WHERE items > 0 ORDER BY items DESC, value",
            chosen.values,
        )
    return by_column


def with_wer(corpus: Corpus, items: Items) -> bool:
    """Whether any item has a word error rate."""
    return bool(corpus.rows(f"SELECT count(wer) AS n FROM {items.name}")[0]["n"])


def hours(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """Hours by the duration of clips (`edges`, in s; the last bin is open) and by outcome:
    packaged, or the reason why not."""
    chosen = query.choice(items.columns, asked)
    places = " + ".join(f"(seconds >= {edge})::INT" for edge in EDGES[1:])
    booked = "CASE WHEN outcome = 'packaged' THEN outcome ELSE stage || '.' || reason END"
    rows = corpus.rows(
        f"SELECT bin, name, count(*) AS count, sum(seconds) / 3600 AS hours FROM (SELECT seconds, "
        f"{places} AS bin, {booked} AS name FROM {items.name} WHERE {chosen.sql}) "
        "WHERE seconds IS NOT NULL GROUP BY bin, name ORDER BY name <> 'packaged', name, bin",
        chosen.values,
    )
    return {"edges": list(EDGES), "counts": rows}


# Texts that several clips have, near-equal ones as one: adverts, jingles, prompts.

MOST = 100  # groups in a response
LETTERS = 4000  # characters of the texts of a group that fit into an address


def texts_of_items(corpus: Corpus, items: Items, chosen: Choice) -> JsonObject:
    """The most frequent texts of these items, if shared by several; `kinds`: how many there are.

    Each is named by the most frequent of the `different` texts of its group, and has the texts that
    find its clips in `column` (`same`; none if they are too long).
    """
    sql = f"SELECT item FROM {items.name} WHERE {chosen.sql} ORDER BY item"
    with corpus.cursor() as cursor:
        members = queries.column(cursor, sql, *chosen.values)
    asked = pa.table({"item": members, "number": corpus.text_groups(items)[members]})
    column = items.compared_text
    clips = (
        f"SELECT number, {identifier(column)} AS text, seconds, outcome "
        f"FROM given JOIN {items.name} USING (item)"
    )
    with corpus.cursor() as cursor, queries.given(cursor, asked):
        rows = frequent_texts.of_clips(cursor, clips, MOST)
    kinds = [row.pop("kinds") for row in rows]
    for row in rows:
        same: list[str] = []
        for text in row["same"]:
            if sum(map(len, same)) + len(text) <= LETTERS:
                same.append(text)
        row["same"] = same
    return {"what": "texts", "column": column, "kinds": kinds[0] if kinds else 0, "rows": rows}
