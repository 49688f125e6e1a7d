"""Limits as one query over facts: what becomes of each utterance.

Facts are what limits may ask of an utterance (`schema_of`), whatever the limits are. The query puts
the rules of filters, of enhanced clips and of texts, and decisions by people, in their order; where
a fact that it needs is not computed yet, the outcome is pending. `uttermill what-if OUT --explain`
prints it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa

from ...plugins import rules
from ...plugins.rules import Allowed, Limit, Rule, Within
from ...settings.job import Job
from ...shard_store import annotated, clip_choice, enhanced, text_values
from ...shard_store.annotated import filter_rules, rules_of
from ...shard_store.shard_view import PERSON
from ...shard_store.text_values import SHARED_COLUMNS, text_columns
from ...shard_store.utterance import Utterance
from ...storage import queries, tables
from ...storage.queries import identifier, literal

SPARED = "spared"
#: Facts about every utterance, before the values that rules compare.
FIXED = pa.schema(
    {
        **dict.fromkeys(("id", "dataset", "recording", "language"), pa.string()),
        "seconds": pa.float64(),
        "heard": pa.bool_(),  # has a transcript
        SPARED: pa.bool_(),  # a person decided to keep it; no rule rejects it
        # From `words` on, values of `Utterance.texts` and of its measures.
        "words": pa.int64(),  # of the reference
        "word_errors": pa.int64(),  # of the recogniser's text
        "detected_language": pa.string(),
        "detected_probability": pa.float64(),
    }
)
MEASURES_FROM = FIXED.names.index("words")
#: What is known of an utterance without any limit: an outcome, and when it counts.
BEFORE_FILTERS, AFTER_FILTERS, AFTER_TEXTS = 1, 2, 3
KNOWN = pa.schema(
    {
        "step": pa.int8(),  # one of the three above; null: no limit rejects it, it is packaged
        **dict.fromkeys(("known", "known_stage", "known_reason"), pa.string()),
        **dict.fromkeys(("known_value", "known_threshold"), pa.float64()),
        "known_detail": pa.string(),
        "damage": pa.string(),  # decode faults that touch it, in words
        "decided": pa.string(),  # a person's decision, if the person cut it again
        "dropped_by": pa.string(),  # a person's decision to drop it
        "converted": pa.int32(),  # items of the stage resample that are stored for it
        "transcribed": pa.bool_(),  # PCM and the first recogniser's text are stored
        # What `package.only` and `without` ask before recognition (`clip_choice.Asked`).
        "speaker": pa.string(),
        "stated": pa.string(),  # language
        "labels": pa.map_(pa.string(), pa.string()),
        "later": pa.list_(pa.string()),
    }
)
CHOOSING = ("dataset", "speaker", "stated", "labels", "later")  # for `clip_choice.chosen`
OUTCOME_COLUMNS = ("outcome", "stage", "reason", "value", "threshold", "detail")  # of an Outcome
#: The columns of a table of outcomes that are no values which rules compare.
TOLD = (*FIXED.names, *OUTCOME_COLUMNS[:3])
DAMAGED = "damaged"  # reason of utterances that decode faults touch


def values_schema(job: Job) -> pa.Schema:
    """FIXED, then every number that a rule may compare, as float64, and labels."""
    text = text_columns(job.transcribe.verdicts)
    names = [*SHARED_COLUMNS, *text, *enhanced.measures(job)]
    fields = [*FIXED, *(pa.field(name, pa.float64()) for name in names)]
    fields += annotated.label_fields(job)
    present = {field.name for field in fields}
    for rule in chain.from_iterable(rules_by_stage(job).values()):
        kinds = dict.fromkeys(sorted(rules.columns(rule)), pa.float64())
        if isinstance(rule, Allowed):
            kinds[rule.column] = pa.string()
        elif rule.place:
            kinds[rule.place] = pa.float64()
        fields += [pa.field(name, kind) for name, kind in kinds.items() if name not in present]
        present |= kinds.keys()
    return pa.schema(fields)


def outcomes_schema(job: Job) -> pa.Schema:
    """A table of outcomes: `values_schema`, and what became of each utterance."""
    outcomes = (pa.field(name, pa.string()) for name in OUTCOME_COLUMNS[:3])
    return pa.schema([*values_schema(job), *outcomes])


def schema_of(job: Job) -> pa.Schema:
    """All facts that limits may ask: `values_schema`, then KNOWN."""
    return pa.schema([*values_schema(job), *KNOWN])


def facts_of(
    job: Job,
    utterances: Sequence[Utterance],
    stored: Iterable[tuple[str, int, bool]],
) -> pa.Table:
    """A row (`schema_of`) for each utterance of a `FactView`; `stored`: KNOWN's damage, converted
    and transcribed of each."""
    schema, names = schema_of(job), (*FIXED.names[:MEASURES_FROM], *KNOWN.names)
    pairs = zip(utterances, stored, strict=True)
    columns = tables.columns_of(names, [_fixed_and_known(job, u, *one) for u, one in pairs])
    texts, measures = [u.texts for u in utterances], [u.measures for u in utterances]
    of_texts = next(filter(None, texts), {})  # all of them have the same names
    arrays = []
    for number, field in enumerate(schema):
        column: Sequence[object]
        if MEASURES_FROM <= number < len(schema) - len(KNOWN):
            column = tables.column(texts if field.name in of_texts else measures, field.name)
        else:
            column = columns[field.name]
        arrays.append(pa.array(column, field.type))
    return pa.table(arrays, schema=schema)


def _fixed_and_known(
    job: Job, u: Utterance, damage: str, converted: int, transcribed: bool
) -> tuple[object, ...]:
    """FIXED up to the measures, then KNOWN."""
    row, outcome, person = u.transcript, u.outcome, u.person
    heard = row is not None and not row["error_code"]
    asked = clip_choice.of_clip(job, u)
    return (
        u.id,
        u.recording["dataset"],
        u.recording["recording"],
        row["language"] if heard and row else u.language,
        u.seconds,
        heard,
        u.spared,
        _step(u),
        *(outcome.outcome, outcome.stage, outcome.reason),
        *(outcome.value, outcome.threshold, outcome.detail),
        damage or None,
        u.decided if u.moved else None,
        person.words if person is not None and person.decision == "drop" else None,
        converted,
        transcribed,
        asked.speaker,
        asked.language,
        [*asked.labels.items()],
        asked.later,
    )


def _step(u: Utterance) -> int | None:
    """When what is known of an utterance counts (KNOWN)."""
    if u.outcome.outcome == "packaged":
        return None
    if u.outcome.stage == "filter" and u.outcome.outcome != "pending":
        return BEFORE_FILTERS
    return AFTER_TEXTS if u.texts else AFTER_FILTERS


def rules_by_stage(job: Job) -> dict[str, tuple[Rule, ...]]:
    """All rules of the job, by the stage of their rejections, in the order in which they are
    applied. Those on the fit of a reference come last: it is aligned only if the others pass."""
    on_fit = text_values.rules_on_fit(job.transcribe)
    verdicts = sorted(job.transcribe.verdicts, key=lambda plugin: plugin.use in on_fit)
    return {
        "filter": filter_rules(job.filter.all_filters),
        "enhance": enhanced.rules(job),
        "transcribe": rules_of("text", tuple(verdicts)),
    }


# The query.


def query(job: Job) -> str:
    """SQL: the outcome (OUTCOME_COLUMNS) of each row of the table `facts`, in their order. Its
    column `chosen` is `package.only` and `without` as far as they are known before recognition."""
    rules_of_stage = rules_by_stage(job)
    on_filters = _cases(rules_of_stage["filter"], "filter", "NULL")
    on_enhanced = _cases(rules_of_stage["enhance"], "enhance", "language")
    decided = "coalesce(decided, '')"
    on_texts = _cases(rules_of_stage["transcribe"], "transcribe", "language", decided)
    outcome = "known, known_stage, known_reason, known_value, known_threshold, known_detail"
    by_person = _outcome(f"'dropped', 'package', '{PERSON}', NULL, NULL, dropped_by")
    on_choice = []
    if clip_choice.restricts(job.package):
        not_chosen = f"'dropped', 'package', {literal(clip_choice.REASON)}, NULL, NULL, ''"
        measured = "known_stage <> 'filter'"
        on_choice = [f"        WHEN NOT chosen AND {measured} THEN {_outcome(not_chosen)}"]
    cases = "\n".join(
        (
            f"        WHEN step = {BEFORE_FILTERS} THEN {_outcome(outcome)}",
            *on_filters,
            *on_choice,
            *on_enhanced,
            f"        WHEN known = 'pending' AND dropped_by IS NOT NULL THEN {by_person}",
            f"        WHEN step = {AFTER_FILTERS} THEN {_outcome(outcome)}",
            *on_texts,
            f"        WHEN dropped_by IS NOT NULL THEN {by_person}",
            f"        ELSE {_outcome(outcome)}",
        )
    )
    columns = ", ".join(f"o.{name} AS {name}" for name in OUTCOME_COLUMNS)
    return f"SELECT {columns}\nFROM (\n    SELECT CASE\n{cases}\n    END AS o\n    FROM facts\n)"


def asked(job: Job) -> list[str]:
    """The columns of `schema_of` that `query` and the choice by `package.only` read, perhaps some
    more."""
    sql = query(job)
    words = {*re.findall(r"\w+", sql)}
    if clip_choice.restricts(job.package):
        words |= {*CHOOSING}
    return [n for n in schema_of(job).names if n in words or identifier(n) in sql]


def _outcome(values: str) -> str:
    """SQL: a struct of OUTCOME_COLUMNS from six values, separated by commas."""
    kinds = ", ".join(
        f"{name} {'DOUBLE' if name in ('value', 'threshold') else 'VARCHAR'}"
        for name in OUTCOME_COLUMNS
    )
    return f"row({values})::STRUCT({kinds})"


def _cases(applied: Iterable[Rule], stage: str, language: str, detail: str = "''") -> Iterator[str]:
    """SQL: a line `WHEN … THEN …` for each limit. `language`: what rules for some languages ask;
    `detail`: of rejections whose rule gives none."""
    for rule in applied:
        column = identifier(rule.column)
        for condition, reason, limit in _refusals(rule, language):
            if isinstance(rule, Allowed):
                allowed = literal(f", allowed {', '.join(rule.values)}")
                values = f"NULL, NULL, coalesce({column}, 'None') || {allowed}"
            elif reason == DAMAGED:
                values = f"{column}, {limit}, coalesce(damage, '')"
            elif rule.place:
                place = f"printf('at %.1f s', {identifier(rule.place)})"
                values = f"{column}, {limit}, coalesce({place}, {detail})"
            else:
                values = f"{column}, {limit}, {literal(rule.detail) if rule.detail else detail}"
            outcome = _outcome(f"'dropped', {literal(stage)}, {literal(reason)}, {values}")
            yield f"        WHEN NOT {SPARED} AND {condition} THEN {outcome}"


def _refusals(rule: Rule, language: str) -> Iterator[tuple[str, str, str]]:
    """(SQL predicate, reason, threshold) of each way in which the rule rejects a row; NULL, too,
    is for a row that it does not reject."""
    column = identifier(rule.column)
    if isinstance(rule, Allowed):
        allowed = f"coalesce({_is_in(column, rule.values)}, {not rule.refuse_null})"
        yield f"NOT {allowed}", rule.reason, "NULL"
        return
    for limit, sign, reason in ((rule.min, "<", rule.low), (rule.max, ">", rule.high)):
        if limit is not None:
            beyond = f"{column} {sign} {_number(limit)}"
            if sign == ">":  # DuckDB takes NaN for the largest number
                beyond += f" AND NOT isnan({column})"
            terms = [beyond, *_applies(rule, language)]
            yield " AND ".join(terms), reason, _number(limit)


def _applies(rule: Limit, language: str) -> Iterator[str]:
    """SQL predicates that must all hold for the rule to apply to a row."""
    if rule.languages:
        yield _null_as_false(_is_in(language, rule.languages))
    if rule.other_than:
        yield f"NOT {_null_as_false(_is_in(language, rule.other_than))}"
    for within in rule.unless:
        yield f"NOT {inside(within)}"


def _number(value: float) -> str:
    return f"'{float(value)!r}'::DOUBLE"


def _is_in(column: str, values: Sequence[str]) -> str:
    """SQL predicate: the column is one of these texts; NULL if the column is."""
    return f"{column} IN ({', '.join(map(literal, values))})" if values else f"{column} <> {column}"


def inside(limit: Limit | Within) -> str:
    """SQL predicate: the column is within the limits; false for NULL and NaN."""
    column = identifier(limit.column)
    terms = [f"{column} IS NOT NULL", f"NOT isnan({column})"]
    if limit.min is not None:
        terms.append(f"{column} >= {_number(limit.min)}")
    if limit.max is not None:
        terms.append(f"{column} <= {_number(limit.max)}")
    return _null_as_false(" AND ".join(terms))


def _null_as_false(predicate: str) -> str:
    return f"coalesce({predicate}, false)"


@contextmanager
def asking(job: Job) -> Iterator[Callable[[pa.Table], pa.Table]]:
    """A function that gives the outcome (OUTCOME_COLUMNS) of each row of a table of facts
    (`schema_of`), in their order."""
    sql = query(job)
    with queries.tables(job.package.memory, job.scratch) as database:

        def outcomes(facts: pa.Table) -> pa.Table:
            if clip_choice.restricts(job.package):
                clips = facts.select(CHOOSING).rename_columns({"stated": "language"})
                chosen = clip_choice.chosen(job.package, clips)
                facts = facts.append_column("chosen", pa.array(chosen))
            database.register("facts", facts)
            try:
                return database.sql(sql).to_arrow_table()
            finally:
                database.unregister("facts")

        yield outcomes


def spares(rule: Limit) -> str:
    """SQL predicate: rows to which a rule does not apply, or that a person keeps."""
    terms = (f"NOT ({term})" for term in _applies(rule, "language"))
    return f"(coalesce({SPARED}, false) OR {' OR '.join([*terms, 'false'])})"


def passes(applied: Iterable[Rule]) -> str:
    """SQL predicate: rows that none of the rules rejects, or that a person keeps."""
    refusals = (condition for rule in applied for condition, *_ in _refusals(rule, "language"))
    return f"(coalesce({SPARED}, false) OR NOT {_null_as_false(' OR '.join(['false', *refusals]))})"
