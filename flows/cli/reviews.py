"""`uttermill review import` and `export`: decisions by people, as JSON lines or in a table."""

from __future__ import annotations

import codecs
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc

from ...tasks.base.counting import counted
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject, parsed
from ...tasks.base.schema import LEDGER_FILE
from ...tasks.publish import package
from ...tasks.shard_store import decision_log
from ...tasks.shard_store.decision_log import Decision
from ...tasks.storage import tables, versions
from ..explore.corpus import Corpus
from ..run import run_folder
from . import corrections

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
    """Append the decisions of a file to those of OUT, all or none; existing ones are not appended
    again. ConfigError with the line that is wrong."""
    text = _text(file)
    entries = _decisions(text, file)
    log = [*decision_log.read(decision_log.stored(out))]
    stored, counting = {*log}, decision_log.last(log)
    table = corrections.is_table(text)
    new = [
        entry
        for entry in dict.fromkeys(entries)
        # A table has no times: a row that says what counts already is no new decision.
        if entry not in stored and not (table and _says(entry) == _says(counting.get(entry.id)))
    ]
    unknown = _unknown(out, {entry.id for entry in new})
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
    try:
        with nullcontext(sys.stdin) if file == STDIN else _opened(file) as given:
            text = given.read(MOST + 1)
    except (OSError, ValueError) as error:
        wrong = "it is not text in UTF-8 or UTF-16 (in Excel, save it as CSV UTF-8)"
        why = error.strerror if isinstance(error, OSError) else wrong
        expected = f"it must be {corrections.EXPECTED}"
        raise ConfigError(f"{file} cannot be read: {why}; {expected}") from None
    if len(text) > MOST:
        raise ConfigError(f"{file} has more than {MOST >> 20} Mi characters; import it in parts")
    return text


def _opened(file: str) -> io.TextIOWrapper:
    """A text file in UTF-8, or in UTF-16 with its mark, as Excel writes "Unicode text"."""
    data = open(file, "rb")  # noqa: SIM115 (closed with the text)
    wide = data.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return io.TextIOWrapper(data, "utf-16" if wide else "utf-8")


def _decisions(text: str, file: str) -> list[Decision]:
    now = decision_log.now()
    if not text.strip("\ufeff \t\r\n"):
        raise ConfigError(f"{file} is empty, and not {corrections.EXPECTED}")
    if corrections.is_table(text):
        return corrections.read(text, file, now)
    entries = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{file}, line {number}"
            try:
                given = parsed(line)
            except ValueError as error:
                why = f"{place}: this is not JSON: {error}"
                raise ConfigError(f"{why}; the file must be {corrections.EXPECTED}") from None
            if not isinstance(given, dict):
                raise ConfigError(
                    f"{place}: this is not a JSON object; the file must be {corrections.EXPECTED}"
                )
            entries.append(decision_log.checked(given, now, place))
    return entries


def _unknown(out: Path, ids: Iterable[str]) -> set[str]:
    """The ids that the newest version's ledger does not have."""
    newest = versions.newest(out)
    if newest is None:
        return set()
    with versions.reading(newest):
        column = tables.read(newest / LEDGER_FILE, columns=["utterance"])["utterance"]
    return set(ids) - set(pc.unique(column).to_pylist())


def decisions(out: Path, everything: bool) -> list[JsonObject]:
    """The decisions that count, by id; with `everything` all of them, oldest first."""
    entries = decision_log.read(decision_log.stored(out))
    chosen = (
        entries
        if everything
        else [entry for _, entry in sorted(decision_log.last(entries).items())]
    )
    return [{k: v for k, v in asdict(entry).items() if v} for entry in chosen]


def table(out: Path, every: bool = False) -> Iterator[JsonObject]:
    """`corrections.rows` of the newest version; RunError if one of its tables is damaged."""
    if newest := versions.newest(out):
        package.proved(newest)
    with run_folder.scratch() as folder:
        corpus = Corpus(out, folder)
        try:
            yield from corrections.rows(corpus, every)
        finally:
            corpus.close()
