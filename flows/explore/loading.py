"""Reads a version into DuckDB: the ledger, joined with all columns of its utterances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tasks import plugins, schema, shelves, storage
from tasks.corpuswide import outcome_table

#: Columns of every item, in the order in which the page offers them.
FIRST = (
    *("outcome", "stage", "reason", "seconds", "text", "language", "speaker", "dataset", "split"),
    *("id", "source_path", "recording", "start", "end", "value", "threshold", "detail"),
    *("text_source", "hypothesis", "normalised", "wer", "cer"),
)
#: What is searched: what was heard only where the text says something else.
SEARCHED = (
    "id, source_path, speaker, text, CASE WHEN hypothesis IS DISTINCT FROM text THEN hypothesis END"
)
HIDDEN = ("item", "searched", "spoken")  # columns that the page does not offer
TEXTS = "VARCHAR"
SKIPPED = frozenset({"offset", "sha256", "generation", "shard", "blob", "word_times", "heard"})

#: A value that a query is given.
SqlValue = str | float | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the page shows it; `kind` is `text` or `number`."""

    kind: str
    unit: str = ""
    doc: str = ""


def load(
    cursor: duckdb.DuckDBPyConnection, out: Path, version: Path, name: str
) -> Mapping[str, Column]:
    """Create the table `name`; returns its columns."""
    with _parquet(cursor, out, version) as views:
        cursor.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT *, "
            f"lower(concat_ws(chr(10), {SEARCHED})) AS searched, "
            "length(trim(text)) - length(replace(trim(text), ' ', '')) + 1 AS spoken "
            f"FROM ({_select(views, _numbered(cursor))})"
        )
    # A page is a hundred rows from anywhere: without an index each costs a block of every column.
    cursor.execute(f"CREATE UNIQUE INDEX {name}_item ON {name} (item)")
    return _described(cursor, name)


def _numbered(cursor: duckdb.DuckDBPyConnection) -> str:
    """The ledger with `item`, the place of a row by recording, start, end and id: the same each
    time that a version is read. A ledger is in this order, which is cheap to verify."""
    back = cursor.execute(
        'SELECT count(*) FROM (SELECT recording, start, "end", utterance, '
        'lag(recording) OVER () AS r, lag(start) OVER () AS s, lag("end") OVER () AS e, '
        "lag(utterance) OVER () AS u FROM ledger) "
        'WHERE (r, s, e, u) > (recording, start, "end", utterance)'
    ).fetchall()[0][0]
    by = 'ORDER BY recording, start, "end", utterance' if back else ""
    return f"SELECT row_number() OVER ({by}) - 1 AS item, * FROM ledger"


@contextmanager
def _parquet(
    cursor: duckdb.DuckDBPyConnection, out: Path, version: Path
) -> Iterator[dict[str, dict[str, str]]]:
    """Views on the existing files: types of columns by name, by view."""
    store = storage.of(out)
    found: dict[str, dict[str, str]] = {}
    wanted = [n for n in store.tree(version) if n.startswith(("ledger.", "utterances."))]
    storage.refuse_links(version)  # DuckDB's globs follow them
    storage.refuse_links(out / "manifests")
    with store.reading(version, wanted) as home:
        globs = {n: parquet_glob(home / f"{n}.parquet") for n in ("ledger", "utterances")}
        # Fetched from a bucket, checkpoints would be thousands of requests.
        if (manifests := store.mounted(out / "manifests")) is not None:
            globs["outcomes"] = parquet_glob(outcome_table.place(out))
            for stage in ("shard", "resample", "transcribe"):
                globs[stage] = str(manifests / stage / "*" / "*.parquet")
        for view, pattern in globs.items():
            if not cursor.execute("SELECT 1 FROM glob(?) LIMIT 1", [pattern]).fetchone():
                continue
            quoted = pattern.replace("'", "''")
            cursor.execute(
                f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT * FROM "
                f"read_parquet('{quoted}', union_by_name=true, filename='part')"
            )
            types = cursor.execute(f"DESCRIBE {view}").fetchall()
            found[view] = {row[0]: row[1] for row in types}
        yield found


def parquet_glob(path: Path) -> str:
    """A glob of a Parquet file, or of the folder of its parts under the same name."""
    return str(path / "**" / "*.parquet") if path.is_dir() else str(path)


def _select(views: Mapping[str, Mapping[str, str]], ledger: str) -> str:
    u, d = views.get("utterances", {}), views.get("outcomes", {})
    joins = [f"FROM ({ledger}) l"]
    known: dict[str, list[str]] = {}

    def add(name: str, expression: str) -> None:
        known.setdefault(name, []).append(expression)

    for column in views["ledger"]:
        if column not in ("utterance", "part", "samples", "overlap_samples", "language"):
            add(column, f'l."{column}"')
    add("id", "l.utterance")
    for column, kind in u.items():
        if column not in SKIPPED | {"part", "start", "end"} | known.keys() - {"language"}:
            add(column, f'u."{column}"::DOUBLE' if _number(kind) else f'u."{column}"')
    add("language", "l.language")
    if {"words", "word_errors"} <= u.keys():
        add("wer", "u.word_errors / nullif(u.words, 0)")
        add("cer", "u.char_errors / nullif(u.chars, 0)")
    joins.append("LEFT JOIN utterances u ON u.id = l.utterance")
    if d:
        for column, kind in d.items():
            if _number(kind) and column not in ("seconds", "heard", "part"):
                add(column, f'd."{column}"::DOUBLE')
        joins.append("LEFT JOIN outcomes d ON d.id = l.utterance")
    if {"resample", "transcribe"} <= views.keys():
        add("text", "t.text")
        add("hypothesis", "t.text")
        joins.append(
            'LEFT JOIN (SELECT a.recording, a.start, a."end", arg_max(h.text, h.part) AS text '
            'FROM (SELECT DISTINCT audio, recording, start, "end" FROM resample) a '
            "JOIN transcribe h ON h.audio = a.audio WHERE h.text IS NOT NULL GROUP BY ALL) t "
            "ON l.outcome IN ('dropped', 'failed') AND t.recording = l.recording "
            'AND t.start = round(l.start * l.sample_rate) AND t."end" = round(l."end" * '
            "l.sample_rate)"
        )
    if "shard" in views:
        add("speaker", "r.speaker")
        joins.append(
            "LEFT JOIN (SELECT recording, any_value(speaker) AS speaker FROM shard "
            "WHERE speaker IS NOT NULL GROUP BY recording) r ON r.recording = l.recording"
        )
    for name in FIRST:
        known.setdefault(name, [f"NULL::{TEXTS}"])
    names = [*FIRST, *(name for name in known if name not in FIRST)]
    columns = (f'coalesce({", ".join(known[name])}) AS "{name}"' for name in names)
    return f"SELECT l.item, {', '.join(columns)} {' '.join(joins)}"


def _number(kind: str) -> bool:
    return kind in ("DOUBLE", "FLOAT", "BIGINT", "INTEGER", "UBIGINT", "UINTEGER", "SMALLINT")


def _described(cursor: duckdb.DuckDBPyConnection, name: str) -> dict[str, Column]:
    about = meanings()
    return {
        row[0]: Column("number" if _number(row[1]) else "text", *about.get(row[0], ("", "")))
        for row in cursor.execute(f"DESCRIBE {name}").fetchall()
        if row[0] not in HIDDEN
    }


def meanings() -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every column of the published tables, and of every measure."""
    found: dict[str, tuple[str, str]] = {
        "wer": ("1", "word errors by words of the reference"),
        "cer": ("1", "character errors by characters of the reference"),
    }
    for shelf in plugins.MEASURING:
        for use in shelves.names(shelf):
            found.update(plugins.columns(shelf, use))
    for table in (schema.LEDGER, schema.UTTERANCES):
        found.update({field.name: schema.about(field) for field in table})
    return found
