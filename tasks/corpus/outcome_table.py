"""The table of outcomes: every utterance of the last run, with the values that rules compare.

    OUT/manifests/package/decisions.parquet/    one row an utterance, whatever its outcome, in parts
    OUT/manifests/package/decisions.json        names of the parts and the state they are valid for;
                                                written last

`package` writes it, so that `what-if` and the report read the columns of a million utterances in
seconds instead of opening thousands of manifests. It is not a checkpoint: no version is computed
from it, and it is ignored once the manifests have changed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .. import plugins, storage
from ..base.errors import CorruptManifest
from ..base.schema import AnyRow
from ..plugins import rules
from ..plugins.rules import Allowed, Limit, Rule, Within
from ..settings import Plugin, role
from ..settings.job import Job
from ..shard_store import annotated, decisions, enhanced, whole_job
from ..shard_store.chosen_rules import rules_of
from ..shard_store.index import Index
from ..shard_store.text_values import text_columns
from ..shard_store.utterance import FinalUtterance
from ..storage import queries, tables
from ..storage.queries import identifier, literal
from ..text import SHARED_COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SPARED = "spared"
STORED = "text_stored"
NOT_IN_AUDIO = "not_in_audio"  # reason of a clip whose text is not in its audio
FIXED = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "recording", "language"), pa.string()),
        "seconds": pa.float64(),
        **dict.fromkeys(("outcome", "stage", "reason"), pa.string()),
        "heard": pa.bool_(),  # has a transcript
        STORED: pa.bool_(),  # a limit dropped it before transcription, but a transcript is stored
        SPARED: pa.bool_(),  # a person decided to keep it; no rule rejects it
        # From `words` on, values of `FinalUtterance.texts` and of its measures.
        "words": pa.int64(),  # of the reference
        "word_errors": pa.int64(),  # of the recogniser's text
    }
)
MEASURES_FROM = FIXED.names.index("words")  # index of the first column that `_fixed` does not give


def schema_of(job: Job) -> pa.Schema:
    """FIXED, then every number that a rule may compare, as float64, and labels."""
    text = text_columns(job.transcribe.verdicts)
    names = [*SHARED_COLUMNS, *text, *enhanced.measures(job)]
    numbers = ((name, pa.float64()) for name in names)
    return pa.schema([*FIXED, *numbers, *annotated.label_fields(job)])


def of_utterances(
    job: Job, utterances: Sequence[FinalUtterance], stored: Collection[str]
) -> pa.Table:
    """One row (`schema_of`) for each utterance. `stored`: ids of utterances that a limit dropped
    before transcription although a transcript is stored."""
    schema = schema_of(job)
    rows = [_fixed(u, u.cut.id in stored) for u in utterances]
    fixed = tables.of_rows(rows, pa.schema(list(schema)[:MEASURES_FROM]))
    values = [(u.texts, u.heard.measures) for u in utterances]
    columns = (
        pa.array([texts[n] if n in texts else measures.get(n) for texts, measures in values], kind)
        for n, kind in zip(schema.names[MEASURES_FROM:], schema.types[MEASURES_FROM:], strict=True)
    )
    return pa.table([*fixed.columns, *columns], schema=schema)


def _fixed(u: FinalUtterance, stored: bool) -> AnyRow:
    heard = u.heard.transcript is not None and not u.heard.transcript["error_code"]
    return {
        "id": u.cut.id,
        "dataset": u.cut.recording["dataset"],
        "recording": u.cut.recording["recording"],
        "language": u.heard.transcript["language"]
        if heard and u.heard.transcript
        else u.cut.language,
        "seconds": u.cut.seconds,
        "outcome": u.outcome.outcome,
        "stage": u.outcome.stage,
        "reason": u.outcome.reason,
        "heard": heard,
        STORED: stored,
        SPARED: u.cut.spared,
    }


def _state(job: Job, manifests: str | None = None) -> dict[str, str]:
    """The state for which the table is valid: the manifests, and all settings but limits.
    `manifests`: the hash of their names; None: list them."""
    return {
        "manifests": manifests or Index(job.out).names_hash(),
        "settings": json.dumps(_measuring(job), sort_keys=True),
    }


def _measuring(job: Job) -> dict[str, object]:
    """Settings that change stored values; limits do not."""
    measuring: dict[str, object] = {**whole_job.recipes_of(job)}
    for stage in ("filter", "resample", "transcribe"):
        model = getattr(job, stage)
        for name in type(model).model_fields:
            value = getattr(model, name)
            if name == "llm_text":  # runs after all rules, on texts that passed them
                continue
            if role(type(model), name) is None and not isinstance(value, Plugin | tuple):
                measuring[f"{stage}.{name}"] = value
    # Settings that choose which text the rules measure.
    transcribe = job.transcribe
    text: list[object] = [transcribe.text, transcribe.close_wer, transcribe.language_by]
    if enhanced.heard(job):
        text += [transcribe.hear, whole_job.settings_of_plugin("enhance", job.enhance)]
    if transcribe.backends:
        given = transcribe.model_dump(mode="json")
        text += [transcribe.asr, given["when"]]
        text += [given["also_when"]] if transcribe.also_when else []
    measuring["text"] = text
    # Recipes of the text plug-ins.
    texts = {p.use: plugins.TEXT.resolve(p)[1].recipe() for p in job.transcribe.verdicts}
    measuring["texts"] = {use: recipe for use, recipe in texts.items() if recipe}
    measuring["reviews"] = decisions.identity(job)
    return measuring


def place(out: Path) -> Path:
    """The folder of the table's parts."""
    return out / "manifests" / "package" / "decisions.parquet"


def _seal(out: Path) -> Path:
    return out / "manifests" / "package" / "decisions.json"


def unseal(out: Path) -> None:
    """Invalidate the table before its parts change; only while holding OUT's lock."""
    storage.remove(_seal(out))


def seal(job: Job, names: Iterable[str], manifests: str | None = None) -> None:
    """Declare the named parts valid for the current manifests; the caller holds OUT's lock.
    `manifests`: the hash of the manifests' names; None: list them."""
    sealed = {**_state(job, manifests), "parts": sorted(names)}
    storage.write_atomic(_seal(job.out), json.dumps(sealed).encode())


def where(job: Job) -> Path | None:
    """The folder of the table if it is valid for these settings, whatever their limits; else
    None."""
    home = place(job.out)
    try:
        sealed = storage.read_json(_seal(job.out))
        schema = tables.schema(home)
    except (OSError, ValueError, pa.ArrowException):
        return None
    # Columns of rules that are no longer used do no harm.
    whole = columns_asked(job).union(schema_of(job).names) <= set(schema.names)
    parts = [path.name for path in storage.names(home, ".parquet")]
    state = {**_state(job), "parts": parts}
    return home if whole and sealed == state else None


def columns_asked(job: Job) -> set[str]:
    """Columns that the job's rules compare."""
    job_rules = (*measured_rules(job), *rules_of("text", job.transcribe.verdicts))
    return {column for rule in job_rules for column in rules.columns(rule)}


def measured_rules(job: Job) -> tuple[Rule, ...]:
    """The rules on measures taken before transcription."""
    return (*rules_of("filters", job.filter.all_filters), *enhanced.rules(job))


@contextmanager
def database(path: Path, memory: str = queries.MEMORY) -> Iterator[DuckDBPyConnection]:
    """A DuckDB connection with the view `outcomes` over the table of outcomes at `path`. Queries
    without ORDER BY return the rows in the table's order (one thread).

    Raises CorruptManifest if a part is damaged.
    """
    parts = tables.parts(path)
    home, names = parts[0].parent, [part.name for part in parts]
    storage.refuse_links(home)  # DuckDB would follow links
    with tempfile.TemporaryDirectory() as scratch:
        copies = Path(scratch) / "parts"
        with storage.of(home).reading(home, names, copies) as folder:
            if queries.is_pattern(folder):
                folder = shutil.copytree(folder, copies)
            connection = queries.connect(Path(scratch), [folder], memory, threads=1)
            files = ", ".join(literal(str(folder / name)) for name in names)
            try:
                with reading(path):
                    view = f"CREATE VIEW outcomes AS SELECT * FROM read_parquet([{files}])"
                    connection.execute(view)
                    yield connection
            finally:
                connection.close()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises CorruptManifest if DuckDB finds a part of the table damaged in the body of `with`."""
    import duckdb

    try:
        yield
    # DuckDB raises RuntimeError where its message is not UTF-8, as a damaged name may make it.
    except (duckdb.Error, RuntimeError) as error:
        damage = duckdb.InvalidInputException
        if isinstance(error, duckdb.ProgrammingError) and not isinstance(error, damage):
            raise
        why = str(error).partition("\n")[0]
        raise CorruptManifest(f"{path} cannot be read: {why}", str(path)) from None


#: SQL predicate on outcome, stage and reason: rows whose outcome no limit can change, because they
#: failed, their text is not in their audio, or a corpus-wide rule rejects them (copies, outliers,
#: splits).
BEYOND_LIMITS = (
    "(outcome = 'failed' OR (outcome = 'dropped' AND stage = 'package' AND reason <> 'weight') "
    f"OR coalesce(reason = '{NOT_IN_AUDIO}', false))"
)


def passes(applied: Iterable[Rule]) -> str:
    """SQL predicate: rows that none of the rules rejects, by the semantics of `rules.judge`, or
    that a person keeps."""
    return f"(coalesce({SPARED}, false) OR ({' AND '.join(['true', *map(_passes, applied)])}))"


def _passes(rule: Rule) -> str:
    """SQL predicate: rows that the rule does not reject. Never NULL."""
    column = identifier(rule.column)
    if isinstance(rule, Allowed):
        return f"coalesce({_is_in(column, rule.values)}, {not rule.refuse_null})"
    alternatives = [f"{column} IS NULL", _inside(rule)]
    if rule.languages:
        alternatives.append(f"NOT {_null_as_false(_is_in('language', rule.languages))}")
    if rule.other_than:
        alternatives.append(_null_as_false(_is_in("language", rule.other_than)))
    return f"({' OR '.join([*alternatives, *map(_inside, rule.unless)])})"


def _is_in(column: str, values: Sequence[str]) -> str:
    """SQL predicate: the column is one of these texts; NULL if the column is."""
    return f"{column} IN ({', '.join(map(literal, values))})" if values else f"{column} <> {column}"


def _inside(limit: Limit | Within) -> str:
    """SQL predicate: the column is within the limits; false for NULL."""
    column = identifier(limit.column)
    terms = [f"{column} IS NOT NULL"]
    if limit.min is not None:
        terms.append(f"{column} >= '{limit.min!r}'::DOUBLE")
    if limit.max is not None:
        terms.append(f"{column} <= '{limit.max!r}'::DOUBLE")
    return _null_as_false(" AND ".join(terms))


def _null_as_false(predicate: str) -> str:
    return f"coalesce({predicate}, false)"


def left_out_by_weight(job: Job) -> str:
    """SQL predicate on dataset and id: rows that `package.weights` drops, by the same draw as
    `choosing.weights` makes: the first 64 bits of a seeded SHA-256, as a fraction of 2**64."""
    draw = f"('0x' || left(sha256('{job.package.seed}:weight:' || id), 16))::UBIGINT::DOUBLE"
    shares = (
        f"(dataset = {literal(name)} AND {draw} / {float(2**64)!r} >= '{weight!r}'::DOUBLE)"
        for name, weight in job.package.weights.items()
        if weight < 1
    )
    return _null_as_false(" OR ".join(["false", *shares]))
