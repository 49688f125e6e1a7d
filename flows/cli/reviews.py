"""`uttermill review import` and `export`: decisions by people, as JSON lines or in a table.

`review export OUT --csv` writes COLUMNS of each clip of the newest version. People fill in
`decision` (keep, drop, retext) or `text`; `review import OUT x.csv` reads `id`, these two, and
nothing else.
"""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import pyarrow.compute as pc

from ...tasks.base.counting import counted
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject, parsed
from ...tasks.base.schema import LEDGER_FILE
from ...tasks.publish import package
from ...tasks.publish.corpus import limits
from ...tasks.settings.job import Job
from ...tasks.shard_store import decision_log
from ...tasks.shard_store.decision_log import Decision
from ...tasks.storage import tables, versions
from ...tasks.storage.queries import identifier
from ..explore.corpus import Corpus
from ..run import run_folder
from ..run.ledger_items import COMPUTED

COLUMNS = (
    *("id", "dataset", "recording", "start", "end", "reference", "heard", "wer"),
    *("measure", "value", "limit", "outcome", "reason", "decision", "text"),
    "source_path",  # where a person opens the sound
)
LEDGER = ("stage", "threshold", "detail", "channel", "track")
SEPARATORS = ",;\t"


def _measures(job: Job) -> dict[tuple[str, str], list[str]]:
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
    first = text.removeprefix("\ufeff").partition("\n")[0]
    return not first.lstrip().startswith("{") and any(mark in first for mark in SEPARATORS)


def _rows(table: csv.DictReader[str], file: str) -> Iterator[dict[str, str | None]]:
    try:
        yield from table
    except csv.Error as error:
        raise ConfigError(f"{file}, line {table.line_num}: {error}") from None


def read_table(text: str, file: str, now: str) -> list[Decision]:
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
        if given["text"][:1] == "'" and COMPUTED.match(given["text"], 1):  # as it was written
            given["text"] = given["text"][1:]
        if given["decision"] or given["text"]:
            place = f"{file}, line {table.line_num}"
            entry = {name: value for name, value in given.items() if value}
            decisions.append(decision_log.checked(entry, now, place))
    return decisions


STDIN = "-"
MOST = 64 << 20  # characters of a file; 300,000 decisions have as many


def places(action: str, given: Sequence[str], out: str | None) -> tuple[str, str | None]:
    """(OUT, FILE) from the arguments: OUT is `--out`, or the folder among them."""
    arguments = list(given)
    if out is None:
        folders = [
            argument for argument in arguments if argument != STDIN and not Path(argument).is_file()
        ]
        if not folders:
            raise ConfigError("give the OUT of a run: --out DIR")
        existing = (folder for folder in folders if "://" in folder or Path(folder).is_dir())
        out = next(existing, folders[0])  # a missing FILE is not OUT
        arguments.remove(out)
    if len(arguments) != (action == "import"):
        wants = "FILE and OUT" if action == "import" else "OUT"
        raise ConfigError(f"review {action} takes {wants}; it got {len(given)} arguments")
    return out, arguments[0] if arguments else None


def import_file(out: Path, file: str) -> JsonObject:
    """Append the new decisions of a file to those of OUT, all or none. ConfigError with the line
    that is wrong."""
    text = _text(file)
    entries = _decisions(text, file)
    log = decision_log.of(out)
    stored, counting = {*log}, decision_log.last(log)
    table = is_table(text)
    new = [
        entry
        for entry in dict.fromkeys(entries)
        # A table has no times: a row that says what counts already is no new decision.
        if entry not in stored and not (table and _says(entry) == _says(counting.get(entry.id)))
    ]
    unknown = set[str]()
    if newest := versions.newest(out):
        with versions.reading(newest):
            column = tables.read(newest / LEDGER_FILE, columns=["utterance"])["utterance"]
        unknown = {entry.id for entry in new} - set(pc.unique(column).to_pylist())
    if unknown and table:
        raise ConfigError(
            f"{file}: {counted(len(unknown), 'row')} with a decision names no clip of the newest "
            f"version of {out}, such as {min(unknown)!r}; nothing was imported"
        )
    decision_log.append(out, new)
    return {
        "out": str(out),
        "imported": len(new),
        "by_decision": dict(sorted(Counter(entry.decision for entry in new).items())),
        "already_there": len(entries) - len(new),
        "unknown": sorted(unknown)[:20],
        "unknown_count": len(unknown),
    }


def _says(entry: Decision | None) -> tuple[str, str | None] | None:
    return None if entry is None else (entry.decision, entry.text)


def _text(file: str) -> str:
    """A file in UTF-8, or in UTF-16 with its mark, as Excel writes "Unicode text"."""
    try:
        if file == STDIN:
            text = sys.stdin.read(MOST + 1)
        else:
            with open(file, "rb") as data:
                wide = data.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
                with io.TextIOWrapper(data, "utf-16" if wide else "utf-8") as given:
                    text = given.read(MOST + 1)
    except (OSError, ValueError) as error:
        wrong = "it is not text in UTF-8 or UTF-16 (in Excel, save it as CSV UTF-8)"
        why = error.strerror if isinstance(error, OSError) else wrong
        raise ConfigError(f"{file} cannot be read: {why}; it must be {EXPECTED}") from None
    if len(text) > MOST:
        raise ConfigError(f"{file} has more than {MOST >> 20} Mi characters; import it in parts")
    return text


def _decisions(text: str, file: str) -> list[Decision]:
    now = decision_log.now()
    if not text.strip("\ufeff \t\r\n"):
        raise ConfigError(f"{file} is empty, and not {EXPECTED}")
    if is_table(text):
        return read_table(text, file, now)
    entries = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{file}, line {number}"
            try:
                given = parsed(line)
            except ValueError as error:
                why = f"{place}: this is not JSON: {error}"
                raise ConfigError(f"{why}; the file must be {EXPECTED}") from None
            if not isinstance(given, dict):
                raise ConfigError(
                    f"{place}: this is not a JSON object; the file must be {EXPECTED}"
                )
            entries.append(decision_log.checked(given, now, place))
    return entries


def decisions(out: Path, everything: bool) -> list[JsonObject]:
    """Those that count, by id; with `everything` all, oldest first."""
    entries = decision_log.of(out)
    chosen = (
        entries
        if everything
        else [entry for _, entry in sorted(decision_log.last(entries).items())]
    )
    return [{k: v for k, v in asdict(entry).items() if v} for entry in chosen]


def table(out: Path, every: bool = False) -> Iterator[JsonObject]:
    """A row with COLUMNS and LEDGER for each clip of the newest version, packaged or not, by
    recording and start; `every`: for other spans and recordings of its ledger, too. `wer`: of clips
    with references, 1; `value` and `limit` in the unit of `measure`. RunError if one of the
    version's tables is damaged."""
    if newest := versions.newest(out):
        package.proved(newest)
    with run_folder.scratch() as folder, closing(Corpus(out, folder)) as corpus:
        items, job = corpus.items(), corpus.job()
        decisions = decision_log.last(decision_log.of(out))
        measures = _measures(job) if job else {}
        names = {*COLUMNS, *LEDGER, "hypothesis", "text_source", *chain(*measures.values())}
        shown = ", ".join(map(identifier, sorted(names & {*items.columns})))
        batches = corpus.batches(
            f"SELECT {shown} FROM {items.name} WHERE {every} OR id IS NOT NULL "
            "ORDER BY recording, start, id"
        )
        for row in chain.from_iterable(batches):
            value, rules = row["value"], measures.get((row["stage"], row["reason"]), ())
            named = (name for name in rules if value is not None and row.get(name) == value)
            decision = decisions.get(row["id"])
            cells = {
                "reference": row["text"] if row["text_source"] == "reference" else None,
                "heard": row["hypothesis"],
                "measure": next(named, None),
                "limit": row["threshold"],
                "decision": decision.decision if decision else None,
                "text": decision.text if decision else None,
            }
            yield {name: cells.get(name, row.get(name)) for name in (*COLUMNS, *LEDGER)}
