"""Reads a version into DuckDB: the ledger, joined with all columns of its utterances."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from ...tasks import plugins, storage
from ...tasks.base import schema, shelves
from ...tasks.base.errors import ConfigError, CorruptManifest, RunError
from ...tasks.base.logs import log
from ...tasks.publish.corpus import limits
from ...tasks.publish.outcomes import shard_batches
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
TEXT, NUMBER = "VARCHAR", "DOUBLE"
LABEL = "label."  # prefix of the columns of sources' labels
MOST_LABELS = 20  # names, the most frequent ones
SKIPPED = frozenset(
    {"offset", "sha256", "generation", "shard", "blob", "word_times", "heard", "turns"}
)
LONGEST = 65_536  # characters shown of a text
LABELS = "MAP(VARCHAR, VARCHAR)"  # DuckDB's type of the column `labels`
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
        try:
            _create(cursor, name, out, version, home, heard)
        except duckdb.Error as error:
            if isinstance(error, NO_DAMAGE):
                raise
            _create(cursor, name, out, version, home, heard, only_version=True)
            log.warning(
                "checkpoints of %s are left out, because one cannot be read: %s; a run makes it "
                "again",
                out,
                first_line(error),
            )
    except duckdb.PermissionException as error:
        raise ConfigError(
            f"a link in {out} leads to a file elsewhere, which the explorer does not read; "
            f"put the file itself there: {first_line(error)}"
        ) from None
    except duckdb.ConstraintException:
        raise ConfigError(f"{version}: an id occurs twice in {schema.UTTERANCES_FILE}") from None
    except duckdb.Error as error:
        if isinstance(error, NO_DAMAGE):
            raise
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
        if column not in HIDDEN
    }


#: DuckDB's errors that do not come from a damaged table.
NO_DAMAGE = (
    *(duckdb.PermissionException, duckdb.ConstraintException, duckdb.InterruptException),
    *(duckdb.OutOfMemoryException, duckdb.IOException),
)


def _create(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    out: Path,
    version: Path,
    home: Path,
    heard: bool,
    only_version: bool = False,
) -> None:
    """Create the table `name`; `only_version`: without anything from checkpoints."""
    with _parquet(cursor, out, version, home, only_version) as views:
        if not heard:
            views.pop("transcribe", None)
        cursor.execute(
            f"CREATE OR REPLACE TABLE {name} AS SELECT *, "
            f"lower(concat_ws(chr(10), {SEARCHED})) AS searched, "
            "CASE WHEN trim(text) = '' THEN 0 ELSE "
            "length(trim(text)) - length(replace(trim(text), ' ', '')) + 1 END AS spoken "
            f"FROM ({_select(views, _numbered(cursor))})"
        )
    # A page is a hundred rows from anywhere: without an index, each reads a block of every
    # column.
    cursor.execute(f"CREATE UNIQUE INDEX {name}_item ON {name} (item)")


def compared(columns: Collection[str]) -> str:
    """SQL for the text of an item as it is compared, whose words are counted."""
    words = 'coalesce("normalised", "text")' if "normalised" in columns else '"text"'
    return f"(CASE WHEN text IS NOT NULL THEN {words} END)"


def first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


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
    cursor: duckdb.DuckDBPyConnection, out: Path, version: Path, home: Path, only_version: bool
) -> Iterator[dict[str, Types]]:
    """Views on the existing files: types of columns by name, by view."""
    store = storage.store_of(out)
    views: dict[str, Types] = {}
    wanted = [n for n in store.tree(version) if n.startswith(TABLES)]
    listed = {n.split("/")[0] for n in versions.files(version) if n.startswith(TABLES)}
    if lost := listed - {n.split("/")[0] for n in wanted}:
        raise RunError(versions.differs(version, min(lost)))
    storage.refuse_links(version)  # DuckDB's globs follow them
    storage.refuse_links(out / "manifests")
    with store.reading(version, wanted, home) as folder:
        globs = {n: parquet_glob(folder / f"{n}.parquet") for n in ("ledger", "utterances")}
        # Fetched from a bucket, checkpoints would be thousands of requests.
        manifests = None if only_version else store.mounted(out / "manifests")
        if manifests is not None:
            for stage in ("shard", "resample", "transcribe"):
                globs[stage] = str(manifests / stage / "*" / "*.parquet")
        for view, pattern in globs.items():
            if cursor.execute("SELECT 1 FROM glob(?) LIMIT 1", [pattern]).fetchone():
                table = f"read_parquet({literal(pattern)}, union_by_name=true)"
                views[view] = _view(cursor, view, table, "filename")
        if manifests is not None and _has_facts(cursor, out):
            views["facts"] = _view(cursor, "facts", STORED, "''")
        needed = [("ledger", LEDGER_NEEDS, schema.LEDGER_FILE)]
        needed += [("utterances", {"id"}, schema.UTTERANCES_FILE)] if "utterances" in views else []
        for view, names, file in needed:
            if missing := sorted(names - views.get(view, {}).keys()):
                says = f"{version}/{file} lacks the column {missing[0]}"
                raise ConfigError(f"{says}; `uttermill verify` says more")
        yield views


#: Columns of facts that other tables have, or that nobody looks for, by type.
FACTS_APART = {
    TEXT: (*limits.FIXED.names, *limits.KNOWN.names),
    NUMBER: ("seconds", "heard", *limits.KNOWN.names),
}
LEDGER_APART = frozenset(
    ("utterance", "samples", "overlap_samples", "language", "sample_rate", "recording", "channel")
)
#: Columns without which nothing of a version can be shown.
LEDGER_NEEDS = {"recording", "utterance", "start", "end", "seconds", "sample_rate", "outcome"}


STORED = "stored_facts"


def _has_facts(cursor: duckdb.DuckDBPyConnection, out: Path) -> bool:
    """Copy the sound facts of utterances into the table STORED; false if there are none. Those
    that a killed run left may have other columns."""
    names = set[str]()
    for batch in shard_batches.stored(out):
        with suppress(CorruptManifest), queries.given(cursor, batch.table(shard_batches.LIMITS)):
            kinds = {name: kind for name, kind, *_ in cursor.execute("DESCRIBE given").fetchall()}
            if not names:
                cursor.execute(f"CREATE OR REPLACE TEMP TABLE {STORED} AS FROM given LIMIT 0")
            for name in kinds.keys() - names if names else ():
                cursor.execute(f"ALTER TABLE {STORED} ADD COLUMN {identifier(name)} {kinds[name]}")
            cursor.execute(f"INSERT INTO {STORED} BY NAME FROM given")
            names |= kinds.keys()
    return bool(names)


def _view(cursor: duckdb.DuckDBPyConnection, view: str, table: str, part: str) -> Types:
    """Create a view of a table whose columns have unique names, as DuckDB compares them, and only
    texts and numbers: values of other types become texts. `part`: SQL of the column of that name,
    the name of a checkpoint, whose newest part sorts last."""
    meant = {"ledger": schema.LEDGER, "utterances": schema.UTTERANCES}.get(view)
    taken = {_compared(name) for name in (*HIDDEN, "part")}
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
    listed = ", ".join([*columns, f"{part} AS part"])
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT {listed} FROM {table}")
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


def parquet_glob(path: Path) -> str:
    """A glob of a Parquet file, or of the folder of its parts under the same name."""
    return str(path / "**" / "*.parquet") if path.is_dir() else str(path)


def _select(views: Mapping[str, Types], ledger: str) -> str:
    u, d = views.get("utterances", {}), views.get("facts", {})
    joins = [f"FROM ({ledger}) l"]
    expressions: dict[str, list[str]] = {name: [] for name in FIRST}
    kinds: dict[str, str] = {}
    taken = {_compared(name) for name in (*HIDDEN, *FIRST)}

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
    if d.get("id") == TEXT:
        for column in (name for name, kind in d.items() if name not in FACTS_APART[kind]):
            add(column, d[column], f"d.{identifier(column)}")
        joins.append("LEFT JOIN facts d ON d.id = l.utterance")
    if _has(views, "resample", RESAMPLED) and _has(views, "transcribe", TRANSCRIBED):
        add("text", TEXT, "t.text")
        add("hypothesis", TEXT, "t.text")
        add("reference", TEXT, "t.reference")
        joins.append(UNPACKAGED_TEXTS)
    if _has(views, "shard", {"recording": TEXT}):
        stated = [
            name
            for name, kind in views["shard"].items()
            if kind == TEXT and (name == "speaker" or name.startswith(LABEL))
        ]
        for name in stated:
            add(name, TEXT, f"r.{identifier(name)}")
        chosen = "".join(f", any_value({n}) AS {n}" for n in map(identifier, stated))
        joins.append(
            f"LEFT JOIN (SELECT recording{chosen} FROM shard GROUP BY recording) r "
            "ON r.recording = l.recording"
        )
    columns = (
        f"coalesce({', '.join(values or [f'NULL::{TEXT}'])}) AS {identifier(name)}"
        for name, values in expressions.items()
    )
    return f"SELECT l.item, {', '.join(columns)} {' '.join(joins)}"


#: Texts of what is not packaged, from the checkpoints.
UNPACKAGED_TEXTS = (
    'LEFT JOIN (SELECT a.recording, a.start, a."end", arg_max(h.text, h.part) AS text, '
    "arg_max(h.reference, h.part) AS reference "
    'FROM (SELECT DISTINCT audio, recording, start, "end" FROM resample) a '
    "JOIN transcribe h ON h.audio = a.audio WHERE h.text IS NOT NULL GROUP BY ALL) t "
    "ON l.outcome IN ('dropped', 'failed') AND t.recording = l.recording "
    'AND t.start = round(l.start * l.sample_rate) AND t."end" = round(l."end" * l.sample_rate)'
)
#: Columns that checkpoints need to be joined.
RESAMPLED = {"audio": TEXT, "recording": TEXT, "start": NUMBER, "end": NUMBER}
TRANSCRIBED = {"audio": TEXT, "text": TEXT, "reference": TEXT}


def _has(views: Mapping[str, Types], view: str, columns: Types) -> bool:
    return columns.items() <= views.get(view, {}).items()


def _is_number(kind: str) -> bool:
    """Whether one of DuckDB's types is a number: `BIGINT`, `DECIMAL(38,10)`."""
    others = ("DOUBLE", "FLOAT", "INTEGER", "UINTEGER")
    return kind in others or kind.endswith("INT") or kind.startswith("DECIMAL")


def meanings() -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every column of the published tables, and of every measure."""
    by_column: dict[str, tuple[str, str]] = {
        "wer": ("1", "word errors by words of the reference"),
        "cer": ("1", "character errors by characters of the reference"),
        "reference": ("", "the source's text of a clip that is not packaged"),
    }
    for shelf in plugins.MEASURING:
        for use in shelves.names(shelf):
            by_column.update(plugins.columns(shelf, use))
    for table in (schema.LEDGER, schema.UTTERANCES):
        by_column.update({field.name: schema.about(field) for field in table})
    return by_column
