"""The table of outcomes: all utterances of the last run with the values that rules ask for.

    OUT/manifests/package/decisions.parquet/    one row an utterance, kept or not, in parts
    OUT/manifests/package/decisions.json        what the parts are valid for, written last

`package` writes it, so that `what-if` and the report read the columns of a million utterances in
seconds, instead of thousands of manifests. It is not a checkpoint: no version is computed from it,
and it is ignored once the manifests have changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins, storage
from tasks.base.schema import AnyRow
from tasks.plugins import rules
from tasks.plugins.rules import Allowed, Rule
from tasks.settings import Plugin, role
from tasks.settings.job import Job
from tasks.shard_store import decisions, enhanced, whole_job
from tasks.shard_store.chosen_rules import rules_of
from tasks.shard_store.index import Index
from tasks.shard_store.text_values import text_columns
from tasks.shard_store.utterance import FinalUtterance
from tasks.storage import tables
from tasks.text import SHARED_COLUMNS

SPARED = "spared"
STORED = "text_stored"
NOT_IN_AUDIO = "not_in_audio"  # the reason of a text that was never said
FIXED = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "recording", "language"), pa.string()),
        "seconds": pa.float64(),
        **dict.fromkeys(("outcome", "stage", "reason"), pa.string()),
        "heard": pa.bool_(),  # it has a transcript
        STORED: pa.bool_(),  # it has not, since a limit dropped it first; but one is stored
        SPARED: pa.bool_(),  # a person keeps it, whatever rules say
        # From here on, columns of `FinalUtterance.texts` and `FinalUtterance.measures`.
        "words": pa.int64(),  # of the reference
        "word_errors": pa.int64(),  # of the recogniser's text
    }
)
MEASURES_FROM = FIXED.names.index("words")  # index of the first column that `_fixed` does not give


def schema_of(job: Job) -> pa.Schema:
    """FIXED, then every value that a rule may ask for, as float64."""
    text = text_columns(job.transcribe.verdicts)
    names = [*SHARED_COLUMNS, *text, *enhanced.measures(job)]
    return pa.schema([*FIXED, *((name, pa.float64()) for name in names)])


def of_utterances(
    job: Job, utterances: Sequence[FinalUtterance], stored: Collection[str]
) -> pa.Table:
    """One row for each utterance that has an outcome; `stored`: ids of those dropped before their
    transcript was looked up, although there is one."""
    schema = schema_of(job)
    fixed = pa.Table.from_pylist(
        [_fixed(u, u.cut.id in stored) for u in utterances],
        schema=pa.schema(list(schema)[:MEASURES_FROM]),
    )
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
    """The state for which the table is valid: the manifests, and the settings that are not
    thresholds. `manifests`: the hash of their names, if they have been listed."""
    return {
        "manifests": manifests or Index(job.out).names_hash(),
        "settings": json.dumps(_measuring(job), sort_keys=True),
    }


def _measuring(job: Job) -> dict[str, object]:
    """Settings that change measures: those of the stages without thresholds."""
    measuring: dict[str, object] = {**whole_job.recipes_of(job)}
    for stage in ("filter", "resample", "transcribe"):
        model = getattr(job, stage)
        for name in type(model).model_fields:
            value = getattr(model, name)
            if name == "llm_text":  # comes last, for texts that passed the rules
                continue
            if role(type(model), name) is None and not isinstance(value, Plugin | tuple):
                measuring[f"{stage}.{name}"] = value
    # These choose the text that the rules measure.
    transcribe = job.transcribe
    text: list[object] = [transcribe.text, transcribe.close_wer, transcribe.language_by]
    if enhanced.heard(job):
        text += [transcribe.hear, whole_job.settings_of_plugin("enhance", job.enhance)]
    if transcribe.backends:
        text += [transcribe.asr, transcribe.model_dump(mode="json")["when"]]
    measuring["text"] = text
    # Settings that change measures of text.
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
    `manifests`: the hash of their names, if they have been listed."""
    sealed = {**_state(job, manifests), "parts": sorted(names)}
    storage.write_atomic(_seal(job.out), json.dumps(sealed).encode())


def where(job: Job) -> Path | None:
    """The folder of the table if it is valid for these settings, whatever their thresholds; else
    None."""
    home = place(job.out)
    try:
        sealed = storage.read_json(_seal(job.out))
        schema = tables.schema(home)
    except (OSError, ValueError, pa.ArrowException):
        return None
    # It may have more columns, of rules that are not used now.
    whole = columns_asked(job).union(schema_of(job).names) <= set(schema.names)
    parts = [path.name for path in storage.names(home, ".parquet")]
    state = {**_state(job), "parts": parts}
    return home if whole and sealed == state else None


def columns_asked(job: Job) -> set[str]:
    """Columns that the job's rules ask for."""
    asked = (*measured_rules(job), *rules_of("text", job.transcribe.verdicts))
    return {column for rule in asked for column in rules.columns(rule)}


def measured_rules(job: Job) -> tuple[Rule, ...]:
    """The rules on measures taken before transcription."""
    return (*rules_of("filters", job.filter.all_filters), *enhanced.rules(job))


def beyond_limits(table: pa.Table) -> pa.ChunkedArray:
    """Rows whose outcome no limit can change: failed ones, texts that were never said, and rows
    that corpus-wide rules reject (copies, outliers, splits); Boolean [rows]. From the columns
    outcome, stage and reason."""
    across = pc.and_(pc.equal(table["outcome"], "dropped"), pc.equal(table["stage"], "package"))
    across = pc.and_(across, pc.not_equal(table["reason"], "weight"))
    fixed = pc.or_(pc.equal(table["outcome"], "failed"), across)
    return pc.or_(fixed, pc.fill_null(pc.equal(table["reason"], NOT_IN_AUDIO), False))


def passes(table: pa.Table, asked: Iterable[Rule]) -> pa.ChunkedArray:
    """Rows that no rule rejects, or that a person keeps, if the table has SPARED: `rules.judge`
    over columns; Boolean [rows]."""
    kept = pa.array([True] * table.num_rows, pa.bool_())
    for rule in asked:
        column = table[rule.column]
        null = pc.is_null(column)
        if isinstance(rule, Allowed):
            good = pc.is_in(column, pa.array(rule.values, pa.string()))
            good = pc.if_else(null, not rule.refuse_null, good)
        else:
            good = pc.or_(null, _inside(column, rule.min, rule.max))
            if rule.languages:
                in_languages = pc.is_in(table["language"], pa.array(rule.languages, pa.string()))
                good = pc.or_(good, pc.invert(in_languages))
            if rule.other_than:
                spared = pc.is_in(table["language"], pa.array(rule.other_than, pa.string()))
                good = pc.or_(good, spared)
            for within in rule.unless:
                good = pc.or_(good, _inside(table[within.column], within.min, within.max))
        kept = pc.and_(kept, good)
    if SPARED not in table.column_names:
        return kept
    return pc.or_(kept, pc.fill_null(table[SPARED], False))


def _inside(column: pa.ChunkedArray, low: float | None, high: float | None) -> pa.ChunkedArray:
    """Whether values are known and within the limits; Boolean [rows]."""
    good = pc.is_valid(column)
    if low is not None:
        good = pc.and_(good, pc.fill_null(pc.greater_equal(column, low), False))
    if high is not None:
        good = pc.and_(good, pc.fill_null(pc.less_equal(column, high), False))
    return good
