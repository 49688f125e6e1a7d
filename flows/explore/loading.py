"""Reads a version into DuckDB: the ledger, joined with all columns of its utterances."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from ...tasks import plugins, storage
from ...tasks.base import schema, shelves
from ...tasks.base.errors import ConfigError, CorruptManifest, RunError
from ...tasks.publish.corpus import limits
from ...tasks.publish.outcomes import shard_batches
from ...tasks.shard_store import manifest
from ...tasks.storage import queries, versions
from ...tasks.storage.queries import identifier, literal

#: Columns of every item, in the order in which the page offers them.
FIRST = (
    *("outcome", "stage", "reason", "seconds", "text", "language", "speaker", "dataset", "split"),
    *("id", "source_path", "recording", "start", "end", "value", "threshold", "detail"),
    *("text_source", "hypothesis", "normalised", "wer", "cer"),
)
#: What is searched; the hypothesis only if it differs from the text.
SEARCHED = (
    "id, source_path, speaker, text, CASE WHEN hypothesis IS DISTINCT FROM text THEN hypothesis END"
)
HIDDEN = ("item", "searched", "spoken")  # columns that the page does not show
PLACE = ("shard", "offset")  # the same, of a clip's tar and its place there
TEXT, NUMBER = "VARCHAR", "DOUBLE"
LABEL = "label."  # prefix of the columns of sources' labels
MOST_LABELS = 20  # names, the most frequent ones
SKIPPED = frozenset({"sha256", "generation", "blob", "word_times", "heard", "turns"})
LONGEST = 65_536  # characters shown of a text
LABELS = "MAP(VARCHAR, VARCHAR)"  # DuckDB's type of the column `labels`
#: SQL: the place of a ledger's row, the same each time that a version is read.
NUMBERED = 'row_number() OVER (ORDER BY recording, start, "end", utterance) - 1'
LARGEST = "1e300"  # larger numbers, which may have no finite sum or difference, are shown as null

TABLES = ("ledger.", "utterances.")  # beginnings of the names of a version's tables

#: A parameter of a query; a list is for `unnest`.
SqlValue = str | float | bool | list[str] | list[int] | None
#: TEXT or NUMBER for each column of a view, by name.
Types = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the page shows it; `kind` is `text` or `number`."""

    kind: str
    unit: str = ""
    doc: str = ""


def load(
    cursor: duckdb.DuckDBPyConnection,
    out: Path,
    version: Path,
    home: Path,
    name: str,
    heard: bool = True,
) -> Mapping[str, Column]:
    """Create the table `name`; returns its columns. `home`: for copies of objects; `heard`: with
    the texts of dropped clips, from checkpoints. ConfigError, with the reason, if the version's
    tables cannot be shown."""
    try:
        with _parquet(cursor, out, version, home, heard) as views:
            cursor.execute(
                f"CREATE OR REPLACE TABLE {name} AS SELECT *, "
                f"lower(concat_ws(chr(10), {SEARCHED})) AS searched, "
                "CASE WHEN trim(text) = '' THEN 0 ELSE "
                "length(trim(text)) - length(replace(trim(text), ' ', '')) + 1 END AS spoken "
                f"FROM ({_select(views)})"
            )
        # A page is a hundred rows from anywhere: without an index, each reads a block of every
        # column.
        cursor.execute(f"CREATE UNIQUE INDEX {name}_item ON {name} (item)")
    except duckdb.PermissionException as error:
        raise ConfigError(
            f"a link in {out} leads to a file elsewhere, which the explorer does not read; "
            f"put the file itself there: {first_line(error)}"
        ) from None
    except duckdb.ConstraintException:
        raise ConfigError(f"{version}: an id occurs twice in {schema.UTTERANCES_FILE}") from None
    except (duckdb.InterruptException, duckdb.OutOfMemoryException, duckdb.IOException):
        raise  # no damage of a table
    except duckdb.Error as error:
        raise RunError(
            f"a table of {version} cannot be read: {first_line(error)}; `uttermill verify` names "
            f"what is damaged"
        ) from None
    about = meanings()
    return {
        column: Column("number" if _is_number(kind) else "text", *about.get(column, ("", "")))
        if not column.startswith(LABEL)
        else Column("text", "", f"the source's label `{column.removeprefix(LABEL)}`; null: none")
        for column, kind, *_ in cursor.execute(f"DESCRIBE {name}").fetchall()
        if column not in HIDDEN + PLACE
    }


def compared(columns: Collection[str]) -> str:
    """SQL for the text of an item as it is compared, whose words are counted."""
    words = 'coalesce("normalised", "text")' if "normalised" in columns else '"text"'
    return f"(CASE WHEN text IS NOT NULL THEN {words} END)"


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _parquet(
    cursor: duckdb.DuckDBPyConnection, out: Path, version: Path, home: Path, heard: bool
) -> Iterator[dict[str, Types]]:
    """Views on the version's tables, and on what OUT's checkpoints add: types of columns by name,
    by view."""
    store = storage.store_of(out)
    views: dict[str, Types] = {}
    wanted = [n for n in store.tree(version) if n.startswith(TABLES)]
    listed = {n.split("/")[0] for n in versions.files(version) if n.startswith(TABLES)}
    if lost := listed - {n.split("/")[0] for n in wanted}:
        raise RunError(versions.differs(version, min(lost)))
    storage.refuse_links(version)  # DuckDB's globs follow them
    storage.refuse_links(out / "manifests")
    with store.reading(version, wanted, home) as folder:
        for view in ("ledger", "utterances"):
            path = folder / f"{view}.parquet"  # or a folder of its parts
            pattern = str(path / "**" / "*.parquet") if path.is_dir() else str(path)
            if cursor.execute("SELECT 1 FROM glob(?) LIMIT 1", [pattern]).fetchone():
                table = f"read_parquet({literal(pattern)}, union_by_name=true)"
                views[view] = _view(cursor, view, table)
        # Fetched from a bucket, checkpoints would be thousands of requests.
        if store.mounted(out / "manifests") is not None:
            stated = (t.select(["recording", "speaker", "labels"]) for t in manifest.listings(out))
            for view, parts in (("facts", _facts(out, heard)), ("recordings", stated)):
                if _insert(cursor, f"stored_{view}", parts):
                    views[view] = _view(cursor, view, f"stored_{view}")
        needed = [("ledger", LEDGER_NEEDS, schema.LEDGER_FILE)]
        needed += [("utterances", {"id"}, schema.UTTERANCES_FILE)] if "utterances" in views else []
        for view, names, file in needed:
            if missing := sorted(names - views.get(view, {}).keys()):
                says = f"{version}/{file} lacks the column {missing[0]}"
                raise ConfigError(f"{says}; `uttermill verify` says more")
        yield views


LEDGER_APART = frozenset(
    ("utterance", "samples", "overlap_samples", "language", "sample_rate", "recording", "channel")
)
#: Columns without which nothing of a version can be shown.
LEDGER_NEEDS = {"recording", "utterance", "start", "end", "seconds", "sample_rate", "outcome"}
#: Facts that other tables have, or that nobody looks for.
FACTS_APART = {*limits.FIXED.names, *limits.KNOWN.names} - {"id", "words", "word_errors"}
#: What clips that are not packaged would be published with.
TEXTS = ("text", "normalised", "text_source", "hypothesis")


def _facts(out: Path, heard: bool) -> Iterator[pa.Table]:
    """Measures and, with `heard`, TEXTS of the utterances of the last run, by `id`."""
    for batch in shard_batches.stored(out):
        with suppress(CorruptManifest):
            facts = batch.table(shard_batches.LIMITS)
            facts = facts.drop_columns([n for n in facts.column_names if n in FACTS_APART])
            if heard:
                rows = batch.table("rows.arrow", TEXTS)  # in the same order
                for text in TEXTS:
                    facts = facts.append_column(text, rows[text])
            yield facts


def _insert(cursor: duckdb.DuckDBPyConnection, name: str, parts: Iterable[pa.Table]) -> bool:
    """Make a table of all parts; false if there is none. Those that a killed run left may have
    other columns."""
    names = set[str]()
    for part in parts:
        with suppress(duckdb.ConversionException), queries.given(cursor, part):
            kinds = {name: kind for name, kind, *_ in cursor.execute("DESCRIBE given").fetchall()}
            if not names:
                cursor.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given LIMIT 0")
            for column in kinds.keys() - names if names else ():
                add = f"ALTER TABLE {name} ADD COLUMN {identifier(column)} {kinds[column]}"
                cursor.execute(add)
            names |= kinds.keys()
            cursor.execute(f"INSERT INTO {name} BY NAME FROM given")
    return bool(names)


def _view(cursor: duckdb.DuckDBPyConnection, view: str, table: str) -> Types:
    """Create a view of a table whose columns have unique names, as DuckDB compares them, and only
    texts and numbers: values of other types become texts."""
    meant = {"ledger": schema.LEDGER, "utterances": schema.UTTERANCES}.get(view)
    taken = {_compared(name) for name in HIDDEN}
    types, columns = dict[str, str](), list[str]()
    for name, kind, *_ in cursor.execute(f"DESCRIBE SELECT * FROM {table}").fetchall():
        if kind.endswith("[]"):  # shown on a clip's own page; too much for all clips
            continue
        if meant and name in meant.names:
            is_number = pa.types.is_primitive(meant.field(name).type)
        else:
            is_number = _is_number(kind)
        types[free := _free(name, taken)] = target = NUMBER if is_number else TEXT
        columns.append(f"{_as(target, identifier(name))} AS {identifier(free)}")
        if name == "labels" and kind == LABELS:
            labels = cursor.execute(
                f"SELECT name FROM (SELECT unnest(map_keys(labels)) AS name FROM {table}) "
                f"GROUP BY name ORDER BY count(*) DESC, name LIMIT {MOST_LABELS}"
            ).fetchall()
            for (label,) in sorted(labels):
                types[free := _free(LABEL + label, taken)] = TEXT
                value = _as(TEXT, f"map_extract(labels, {literal(label)})[1]")
                columns.append(f"{value} AS {identifier(free)}")
    cursor.execute(
        f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {', '.join(columns)} FROM {table}"
    )
    return types


def _free(name: str, taken: set[bytes]) -> str:
    """The name, with a number appended if taken; adds it to `taken`."""
    free, number = name, 2
    while _compared(free) in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(_compared(free))
    return free


def _compared(name: str) -> bytes:
    """A name as DuckDB compares it: in lower case, for ASCII alone."""
    return name.encode().lower()


def _as(target: str, column: str) -> str:
    if target == NUMBER:
        number = f"TRY_CAST({column} AS {NUMBER})"
        return f"CASE WHEN abs({number}) < {LARGEST} THEN {number} END"
    text = f"{column}::{TEXT}"
    cut = f"left({text}, {LONGEST}) || ' … (' || length({text}) || ' characters)'"
    return f"CASE WHEN length({text}) > {LONGEST} THEN {cut} ELSE {text} END"


def _select(views: Mapping[str, Types]) -> str:
    u, d = views.get("utterances", {}), views.get("facts", {})
    joins = [f"FROM (SELECT {NUMBERED} AS item, * FROM ledger) l"]
    expressions: dict[str, list[str]] = {name: [] for name in FIRST + PLACE}
    kinds: dict[str, str] = {}
    taken = {_compared(name) for name in (*HIDDEN, *FIRST, *PLACE)}

    def add(name: str, kind: str, expression: str) -> None:
        """Add a further expression for a column's value; of another type, it is another column."""
        if kinds.get(name, kind) != kind or (name not in expressions and _compared(name) in taken):
            name = _free(name, taken)
        taken.add(_compared(name))
        kinds[name] = kind
        expressions.setdefault(name, []).append(expression)

    for column, kind in views["ledger"].items():
        if column not in LEDGER_APART:
            add(column, kind, f"l.{identifier(column)}")
    add("recording", TEXT, "coalesce(l.recording, '')")
    add("sample_rate", NUMBER, "TRY_CAST(l.sample_rate AS BIGINT)")
    add("id", TEXT, "l.utterance")
    for column, kind in u.items():
        if column not in SKIPPED | {"start", "end"} | kinds.keys():
            add(column, kind, f"u.{identifier(column)}")
    for column, kind in (("language", TEXT), ("channel", NUMBER)):
        if column in views["ledger"]:
            add(column, kind, f"l.{column}")
    if {"words", "word_errors", "chars", "char_errors"} <= u.keys():
        add("wer", NUMBER, "u.word_errors / nullif(u.words, 0)")
        add("cer", NUMBER, "u.char_errors / nullif(u.chars, 0)")
    if u:
        joins.append("LEFT JOIN utterances u ON u.id = l.utterance")
    if d:
        for column, kind in d.items():
            value = f"d.{identifier(column)}"
            if column in TEXTS:  # of clips that this version does not hold
                value = f"CASE WHEN l.outcome IN ('dropped', 'failed') THEN {value} END"
            if column != "id":
                add(column, kind, value)
        joins.append("LEFT JOIN facts d ON d.id = l.utterance")
    if stated := [name for name in views.get("recordings", {}) if name != "recording"]:
        for name in stated:
            if name != "labels":
                add(name, TEXT, f"r.{identifier(name)}")
        chosen = "".join(f", any_value({n}) AS {n}" for n in map(identifier, stated))
        joins.append(
            f"LEFT JOIN (SELECT recording{chosen} FROM recordings GROUP BY recording) r "
            "ON r.recording = l.recording"
        )
    columns = (
        f"coalesce({', '.join(values or [f'NULL::{TEXT}'])}) AS {identifier(name)}"
        for name, values in expressions.items()
    )
    return f"SELECT l.item, {', '.join(columns)} {' '.join(joins)}"


def _is_number(kind: str) -> bool:
    """Whether one of DuckDB's types is a number: `BIGINT`, `DECIMAL(38,10)`."""
    others = ("DOUBLE", "FLOAT", "INTEGER", "UINTEGER")
    return kind in others or kind.endswith("INT") or kind.startswith("DECIMAL")


def meanings() -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every column of the published tables, and of every measure."""
    by_column: dict[str, tuple[str, str]] = {
        "wer": ("1", "word errors by words of the reference"),
        "cer": ("1", "character errors by characters of the reference"),
    }
    for shelf in plugins.MEASURING:
        for use in shelves.names(shelf):
            by_column.update(plugins.columns(shelf, use))
    for table in (schema.LEDGER, schema.UTTERANCES):
        by_column.update({field.name: schema.about(field) for field in table})
    return by_column
