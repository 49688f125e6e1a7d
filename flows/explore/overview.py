"""Tables over a whole version: words, characters, speakers, hours; and two versions compared."""

from __future__ import annotations

from collections.abc import Mapping

from flows.explore import query
from flows.explore.corpus import Corpus, Items
from flows.explore.query import Parameters
from flows.explore.sql import identifier
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject

MOST = 500  # rows of a table
GROUPS = ("dataset", "language", "speaker", "split", "outcome", "reason", "recording")
CHANGES = ("came", "went", "outcome", "text")


def table(corpus: Corpus, items: Items, asked: Parameters) -> JsonObject:
    """One of the tables: `what` is words, characters, or a column of GROUPS; `rare=1` gives the
    rare ones first."""
    single = dict(asked)
    what = single.get("what") or "dataset"
    chosen = query.choice(items.columns, asked)
    if what in ("words", "characters"):
        members = items.selection.members(chosen.sql, chosen.values)
        return corpus.words(items).counted(members, what, single.get("rare") == "1")
    if what not in GROUPS:
        raise ConfigError(f"what is {what!r}; use words, characters, {', '.join(GROUPS)}")
    rates = {"wer": ("word_errors", "words"), "cer": ("char_errors", "chars")}
    extra = "".join(
        f", sum({errors}) / nullif(sum({of}) FILTER ({errors} IS NOT NULL), 0) AS {name}"
        for name, (errors, of) in rates.items()
        if {errors, of} <= items.columns.keys()
    )
    name = query.quoted(items.columns, what)
    rows = corpus.once(
        f"SELECT {name} AS name, count(*) AS items, sum(seconds) / 3600 AS hours, "
        "coalesce(sum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 AS kept_hours, "
        f"avg(seconds) AS mean_seconds, sum(spoken) FILTER (text IS NOT NULL) / "
        f"nullif(sum(seconds) FILTER (text IS NOT NULL), 0) AS words_per_second{extra} "
        f"FROM {items.name} WHERE {chosen.sql} GROUP BY ALL ORDER BY hours DESC, name LIMIT {MOST}",
        chosen.values,
    )
    return {"what": what, "rows": rows}


def compared(corpus: Corpus, now: Items, then: Items, asked: Parameters) -> JsonObject:
    """What came, went or changed between two versions; utterances are matched by their ids."""
    single = dict(asked)
    joined = (
        "SELECT coalesce(n.id, t.id) AS id, coalesce(n.recording, t.recording) AS recording, "
        "n.item AS item, t.item AS item_then, coalesce(n.seconds, t.seconds) AS seconds, "
        "t.outcome AS outcome_then, n.outcome AS outcome, t.reason AS reason_then, "
        "n.reason AS reason, t.text AS text_then, n.text AS text, CASE "
        "WHEN coalesce(t.outcome, '') <> 'packaged' AND n.outcome = 'packaged' THEN 'came' "
        "WHEN t.outcome = 'packaged' AND coalesce(n.outcome, '') <> 'packaged' THEN 'went' "
        "WHEN n.id IS NULL OR t.id IS NULL OR n.reason IS DISTINCT FROM t.reason THEN 'outcome' "
        "WHEN n.outcome = 'packaged' AND n.text IS DISTINCT FROM t.text THEN 'text' "
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
    return {"now": now.number, "then": then.number, "counts": counts, "rows": rows}


def facets(corpus: Corpus, items: Items) -> Mapping[str, list[JsonObject]]:
    """The values of each column that has few, with how many items have them."""
    found = {}
    for name in ("outcome", "reason", "dataset", "language", "split", "stage"):
        found[name] = corpus.once(
            f"SELECT {identifier(name)} AS value, count(*) AS items FROM {items.name} "
            f"WHERE {query.UTTERANCES} GROUP BY ALL ORDER BY items DESC, value LIMIT 100"
        )
    return found
