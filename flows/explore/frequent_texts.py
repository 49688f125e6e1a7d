"""Texts that several clips have, near-equal ones as one: adverts, jingles, prompts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows.explore.corpus import Corpus, Items
from flows.explore.selection import Places
from tasks.base.json_types import JsonObject
from tasks.storage import queries
from tasks.storage.queries import identifier

MOST = 100  # groups of an answer
NAMED, LETTERS = 20, 4000  # texts of a group, and their characters, that an address has room for


def of_items(corpus: Corpus, items: Items, members: Places) -> JsonObject:
    """The texts of most of these items, those of several only; `kinds`: how many there are.

    Each is named by the most frequent text of its group, of `different` ones, and has the texts by
    which its clips are found in `column` (`same`; none if they are too long).
    """
    group = corpus.text_groups(items)[members]
    members, group = members[group >= 0], group[group >= 0]
    counts = np.bincount(group)
    several = np.flatnonzero(counts > 1)
    largest = several[np.argsort(-counts[several], kind="stable")][:MOST]
    rank = np.full(len(counts), -1)
    rank[largest] = np.arange(len(largest))
    chosen = rank[group] >= 0
    column = items.said
    asked = pa.table({"item": members[chosen], "rank": rank[group[chosen]]})
    with corpus.cursor() as cursor:
        variants = queries.joined(
            cursor,
            asked,
            f"SELECT rank, {identifier(column)} AS text, count(*) AS items, "
            "sum(seconds) / 3600 AS hours, "
            "coalesce(sum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 AS kept_hours "
            f"FROM given JOIN {items.name} USING (item) GROUP BY ALL "
            "ORDER BY rank, items DESC, text",
        ).to_pylist()
    rows: list[JsonObject] = [{} for _ in largest]
    for variant in variants:
        row = rows[variant["rank"]]
        row.setdefault("name", variant["text"])
        row.setdefault("same", [])
        row["different"] = row.get("different", 0) + 1
        for name in ("items", "hours", "kept_hours"):
            row[name] = row.get(name, 0) + variant[name]
        same = [*row["same"], variant["text"]]
        if len(same) <= NAMED and sum(map(len, same)) <= LETTERS:
            row["same"] = same
    return {"what": "texts", "column": column, "kinds": len(several), "rows": rows}
