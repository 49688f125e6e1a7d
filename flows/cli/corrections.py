"""Corrections in a table: each clip of the newest version, what was decided of it and why, as CSV
for a spreadsheet; and decisions from such a table.

`review export OUT --csv` writes COLUMNS. People fill in `decision` (keep, drop, retext) or `text`;
`review import OUT x.csv` reads `id`, these two, and nothing else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.corpus import limits
from ...tasks.settings.job import Job
from ...tasks.shard_store import decision_log
from ...tasks.shard_store.decision_log import Decision
from ...tasks.storage.queries import identifier
from ..explore.corpus import Corpus

COLUMNS = (
    *("id", "dataset", "recording", "start", "end", "reference", "heard", "wer"),
    *("measure", "value", "limit", "outcome", "reason", "decision", "text"),
    "source_path",  # where a person opens the sound
)
LEDGER = ("stage", "threshold", "detail", "channel", "track")
SEPARATORS = ",;\t"
#: How a column is called in the version's table, where it differs.
_STORED = {
    "reference": "CASE WHEN text_source = 'reference' THEN text ELSE reference END",
    "heard": "hypothesis",
    "limit": "threshold",
}


def rows(corpus: Corpus, every: bool = False) -> Iterator[JsonObject]:
    """A row with COLUMNS and LEDGER for each clip of the newest version, packaged or not, by
    recording and start; `every`: for other spans and recordings of its ledger, too. `wer`: of clips
    with references, 1; `value` and `limit` in the unit of `measure`."""
    items = corpus.items()
    decisions = decision_log.last(decision_log.read(decision_log.stored(corpus.out)))
    job = corpus.job()
    measures = _measures(job) if job else {}
    further = sorted({name for names in measures.values() for name in names} & {*items.columns})
    shown = [
        f"{_selected(name, items.columns)} AS {identifier(name)}"
        for name in (*COLUMNS[:8], *COLUMNS[9:13], *COLUMNS[15:], *LEDGER)
    ]
    shown += [f"{identifier(name)} AS {identifier(f'measure {name}')}" for name in further]
    for batch in corpus.batches(
        f"SELECT {', '.join(shown)} FROM {items.name} WHERE {every} OR id IS NOT NULL "
        "ORDER BY recording, start, id"
    ):
        for row in batch:
            decision = decisions.get(row["id"])
            row["measure"] = next(
                (
                    name
                    for name in measures.get((row["stage"], row["reason"]), ())
                    if row["value"] is not None and row.get(f"measure {name}") == row["value"]
                ),
                None,
            )
            row["decision"] = decision.decision if decision else None
            row["text"] = decision.text if decision else None
            yield {name: row[name] for name in (*COLUMNS, *LEDGER)}


def _selected(name: str, columns: Mapping[str, object]) -> str:
    needs = {"reference": ("text_source", "text", "reference")}.get(
        name, (_STORED.get(name, name),)
    )
    if not {*needs} <= {*columns}:
        return "NULL"
    return _STORED.get(name, identifier(name))


def _measures(job: Job) -> dict[tuple[str, str], list[str]]:
    """The columns that may have led to a reason, by stage and reason."""
    names: dict[tuple[str, str], list[str]] = {}
    for stage, rules in limits.rules_by_stage(job).items():
        for rule in rules:
            for reason in (getattr(rule, "low", ""), getattr(rule, "high", "")):
                if reason:
                    names.setdefault((stage, reason), []).append(rule.column)
    return names


EXPECTED = (
    "a list of decisions: JSON lines, or a table with the columns id and decision or text "
    "(`uttermill review export OUT --csv` writes one)"
)


def is_table(text: str) -> bool:
    """Whether a file to import is a table, and not JSON lines."""
    first = text.removeprefix("\ufeff").partition("\n")[0]
    return not first.lstrip().startswith("{") and any(mark in first for mark in SEPARATORS)


def _rows(table: csv.DictReader[str], file: str) -> Iterator[dict[str, str | None]]:
    try:
        yield from table
    except csv.Error as error:
        raise ConfigError(f"{file}, line {table.line_num}: {error}") from None


def read(text: str, file: str, now: str) -> list[Decision]:
    """The decisions of a table: of each row with a decision or a text. Spreadsheets write a mark of
    bytes, a line `sep=;`, and semicolons or tabs between cells. ConfigError with the line."""
    text = text.removeprefix("\ufeff")
    first, _, rest = text.partition("\n")
    if first.startswith("sep="):
        separator, text = first.strip()[4:5] or "\t", rest
    else:
        separator = max(SEPARATORS, key=first.count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    names = [name.strip() for name in table.fieldnames or ()]
    if "id" not in names or not {"decision", "text"} & {*names}:
        raise ConfigError(f"{file} is not {EXPECTED}")
    table.fieldnames = names
    decisions = []
    for row in _rows(table, file):
        given = {name: (row.get(name) or "").strip() for name in ("id", "decision", "text")}
        if given["decision"] or given["text"]:
            place = f"{file}, line {table.line_num}"
            entry = {name: value for name, value in given.items() if value}
            decisions.append(decision_log.checked(entry, now, place))
    return decisions
