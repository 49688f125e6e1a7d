"""Decisions made on the page: checks and stores them, and sends them to other open pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from urllib.parse import parse_qsl

from flows.explore import query
from flows.explore.corpus import Corpus, Items
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject
from tasks.shard_store import decision_log

MOST = 100_000  # decisions of one request
PLACES = 3  # of seconds, as the page writes the boundaries of a clip


def since(corpus: Corpus, line: int) -> JsonObject:
    """Decisions from a line of the file on, and the line after the last."""
    decisions = decision_log.read(decision_log.stored(corpus.out))
    start = line if 0 <= line <= len(decisions) else 0
    return {
        "next": len(decisions),
        "decisions": [asdict(decision) for decision in decisions[start:]],
    }


def store(corpus: Corpus, items: Items, given: JsonObject) -> JsonObject:
    """Store `decisions`, each on an utterance of this version; answers with the new ones."""
    asked = given.get("decisions")
    if not isinstance(asked, list) or not all(isinstance(entry, dict) for entry in asked):
        raise ConfigError("decisions must be a list of objects")
    decisions = [decision_log.checked(entry, decision_log.now()) for entry in asked]
    _known(corpus, items, [decision.id for decision in decisions])
    _within(corpus, items, decisions)
    return _stored(corpus, decisions, given)


def store_selection(corpus: Corpus, items: Items, given: JsonObject) -> JsonObject:
    """Store one decision on many: on `items`, or on all that the filters `selection` choose."""
    if picked := given.get("items"):
        if not isinstance(picked, list) or not all(
            type(item) is int and abs(item) < query.LARGEST for item in picked
        ):
            raise ConfigError("items must be a list of numbers")
        where, values = f"item IN ({', '.join('?' * len(picked))})", tuple(picked)
    else:
        chosen = query.choice(items.columns, parse_qsl(str(given.get("selection") or "")))
        where, values = chosen.sql, chosen.values
    rows = corpus.rows(
        f"SELECT id FROM {items.name} WHERE id IS NOT NULL AND ({where}) ORDER BY item "
        f"LIMIT {MOST + 1}",
        values,
    )
    if len(rows) > MOST:
        raise ConfigError(f"choose up to {MOST:,} clips at once, or change the limits instead")
    one = {name: given.get(name) for name in ("decision", "note", "who", "text")}
    decisions = [decision_log.checked({**one, "id": row["id"]}, decision_log.now()) for row in rows]
    return {**_stored(corpus, decisions, given), "stored": len(decisions)}


def _stored(
    corpus: Corpus, decisions: Sequence[decision_log.Decision], given: JsonObject
) -> JsonObject:
    decision_log.append(corpus.out, decisions)
    line = given.get("since")
    return since(corpus, line if isinstance(line, int) else 0)


def _known(corpus: Corpus, items: Items, ids: Sequence[str]) -> None:
    """ConfigError unless the version has an utterance of each id."""
    if not ids:
        return
    marks = ", ".join("?" * len(set(ids)))
    rows = corpus.rows(f"SELECT id FROM {items.name} WHERE id IN ({marks})", list(set(ids)))
    if missing := set(ids) - {row["id"] for row in rows}:
        raise ConfigError(f"version {items.number} has no utterance {min(missing)!r}")


def _within(corpus: Corpus, items: Items, decisions: Sequence[decision_log.Decision]) -> None:
    """ConfigError for boundaries beyond the end of their recording."""
    ends = [(decision.id, decision.end) for decision in decisions if decision.end is not None]
    if not ends:
        return
    ids = list({name for name, _ in ends})
    rows = corpus.rows(
        f'SELECT cut.id AS id, max(beside."end") AS last FROM {items.name} AS cut '
        f"JOIN {items.name} AS beside ON beside.recording = cut.recording "
        f"WHERE cut.id IN ({', '.join('?' * len(ids))}) GROUP BY cut.id",
        ids,
    )
    last_of = {row["id"]: float(row["last"]) for row in rows}
    for name, end in ends:
        last = last_of[name]
        if end > last + 0.5 * 10**-PLACES:
            raise ConfigError(
                f"the recording ends at {last:.{PLACES}f} s; end the clip there, or before"
            )
