"""Reads columns of the facts and outcomes of all utterances, a block of rows at a time.

The choice of clips and the charts read their numbers several times, so one pass writes them, and
the rejections by each rule, into a temporary file of fixed-width columns: up to 3 GB for ten
million rows. Memory holds only some columns.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...base.arrays import Bools, Float64s, Int32s, UInt8s
from ...corpus import limits
from ...plugins.rules import Rule, Within
from ...settings.job import Job
from ...shard_store import enhanced
from ...shard_store.chosen_rules import rules_of
from ...storage import queries

VALUES = 30  # shown of a label
BLOCK = 1 << 16  # rows, approximately; intermediate results fit the processor's cache
SPREAD = (0.05, 0.5, 0.95)  # quantiles that are shown
GROUPS = 8  # datasets, and languages, with a chart of their own


class LabelHours(NamedTuple):
    """Utterances and hours with one value of a label, in all and packaged."""

    value: str
    utterances: int
    hours: float
    packaged: int
    packaged_hours: float


class ShelfRule(NamedTuple):
    """A rule, and the kind of plug-in that it comes from."""

    shelf: str
    rule: Rule


def shelf_rules(job: Job) -> list[ShelfRule]:
    """All rules of the job: on filters' measures, on texts, on scores of enhanced clips."""
    by_shelf = {
        "filters": rules_of("filters", job.filter.all_filters),
        "text": rules_of("text", job.transcribe.verdicts),
        "enhance": enhanced.rules(job),
    }
    return [ShelfRule(shelf, rule) for shelf, chosen in by_shelf.items() for rule in chosen]


class Stored:
    """A column in a temporary file. A block of rows with only one value is kept as that value."""

    def __init__(self, file: IO[bytes], kind: type[np.generic]) -> None:
        self._file, self._kind = file, np.dtype(kind)
        self._blocks: list[tuple[int, int | np.generic]] = []  # (rows, offset or only value)

    def add(self, values: NDArray[Any]) -> None:
        bits = values.view(f"u{values.itemsize}")
        if (bits == bits[0]).all():
            self._blocks.append((len(values), values[0]))
        else:
            self._blocks.append((len(values), self._file.tell()))
            self._file.write(np.ascontiguousarray(values).data)

    def block(self, number: int) -> NDArray[Any]:
        rows, place = self._blocks[number]
        if isinstance(place, np.generic):
            return np.full(rows, place, self._kind)
        size = rows * self._kind.itemsize
        return np.frombuffer(os.pread(self._file.fileno(), size, place), self._kind)

    def whole(self) -> NDArray[Any]:
        blocks = [self.block(number) for number in range(len(self._blocks))]
        return np.concatenate([np.empty(0, self._kind), *blocks])


class Columns:
    """The outcomes and measures of all utterances: `parts` of a table of outcomes with this
    schema (`limits.outcomes_schema`)."""

    def __init__(self, job: Job, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        self.job = job
        fields, fixed = [*schema], limits.TOLD
        #: Columns with labels of plug-ins; all other columns are in `names`.
        self.labels = [f.name for f in fields if f.name not in fixed and f.type == pa.string()]
        self.names = [field.name for field in fields if field.name not in self.labels]
        self.rules = shelf_rules(job)
        opened = ExitStack()
        self._outcomes = opened.enter_context(queries.tables(job.package.memory))
        weakref.finalize(self, opened.close)
        file = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - `opened` closes it
        texts = {f.name for f in fields if f.type in (pa.string(), pa.bool_()) and f.name in fixed}
        self._numbers = {n: Stored(file, np.float64) for n in self.names if n not in texts}
        self._refused = [Stored(file, np.bool_) for _ in self.rules]  # may name one twice
        self._spreads: dict[str, list[float] | None] = {}
        self.blocks: list[slice] = []  # row numbers of each block
        with queries.given(self._outcomes, schema.empty_table()):
            self._outcomes.execute("CREATE TABLE outcomes AS SELECT * FROM given")
        for part in parts:
            queries.add(self._outcomes, "outcomes", part)
        self._store()
        file.flush()

    def _store(self) -> None:
        """Copy the numbers (null as NaN) and the rejections, in one pass over the table."""
        undrawn = _left_out_by_weight(self.job)
        decided = [
            "outcome = 'packaged'",
            "heard",
            # Rows that no limit would keep, or that `package.weights` drops.
            f"{BEYOND_LIMITS} OR ({undrawn} AND heard)",
            *map(_refuses, self.rules),
        ]
        numbers = [f"coalesce({queries.identifier(n)}::DOUBLE, 'nan')" for n in self._numbers]
        flags = [f"coalesce({sql}, false)" for sql in decided]
        selected = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate([*numbers, *flags]))
        decisions: list[tuple[Bools, Bools, Bools, UInt8s]] = []
        first = 0
        relation = self._outcomes.sql(f"SELECT {selected} FROM outcomes")
        for batch in relation.to_arrow_reader(BLOCK):
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
            packaged, heard, blocked, *refused = columns[len(numbers) :]
            refusals = np.zeros(len(batch), np.uint8)
            for flags_of_rule in refused:
                refusals += flags_of_rule
            stored = (*self._numbers.values(), *self._refused)
            for column, values in zip(stored, [*columns[: len(numbers)], *refused], strict=True):
                column.add(values)
            decisions.append((packaged, heard, blocked, refusals))
            self.blocks.append(slice(first, first := first + len(batch)))
        none = np.zeros(0, bool), np.zeros(0, bool), np.zeros(0, bool), np.zeros(0, np.uint8)
        whole = map(np.concatenate, zip(none, *decisions, strict=True))
        #: For each row: whether it is packaged, has a transcript, cannot be kept by other limits;
        #: and the number of rules that reject it.
        self.packaged, self.heard, self.blocked, self.refusals = whole

    def ids(self, rows: Sequence[int]) -> list[str]:
        """The ids of these rows, in their order."""
        wanted = pa.table({"row": pa.array(rows, pa.int64()), "place": range(len(rows))})
        numbered = "SELECT id, row_number() OVER () - 1 AS row FROM outcomes"
        sql = f"SELECT id FROM given JOIN ({numbered}) USING (row) ORDER BY place"
        names: list[str] = queries.joined(self._outcomes, wanted, sql)["id"].to_pylist()
        return names

    def _flags(self, sql: str) -> Bools:
        """The value of an SQL predicate for each row; false for NULL. bool [rows]"""
        answer = self._outcomes.execute(f"SELECT coalesce({sql}, false) AS flag FROM outcomes")
        flags: Bools = np.asarray(answer.fetchnumpy()["flag"], bool)
        return flags

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._outcomes.execute(sql).fetchall()

    def values(self, name: str) -> Float64s:
        """A measure of each utterance, NaN without a value; float64 [rows], 80 MB for ten
        million."""
        return self._numbers[name].whole()

    def block(self, name: str, number: int) -> Float64s:
        """`values` for the rows `blocks[number]`; read-only."""
        return self._numbers[name].block(number)

    @cached_property
    def seconds(self) -> Float64s:
        return self.values("seconds")

    def spread(self, name: str) -> list[float] | None:
        """The quantiles SPREAD of packaged utterances; None if none has a value."""
        if name not in self._spreads:
            kept = self.values(name)[self.packaged]
            ordered = np.sort(kept[np.isfinite(kept)])
            self._spreads[name] = quantiles(ordered, SPREAD) if len(ordered) else None
        return self._spreads[name]

    def rejected(self, group: str) -> Bools:
        """Whether each row was rejected for the reason `group` (`stage.reason`); bool [rows]."""
        name = queries.literal(group)
        return self._flags(f"stage || '.' || reason = {name} AND outcome <> 'packaged'")

    def only(self, shelf_rule: ShelfRule, number: int) -> Bools:
        """Which rows of a block would be kept without this one rule; bool [rows of the block]."""
        rows = self.blocks[number]
        flags: Bools = ~self.blocked[rows]
        flags &= self.refusals[rows] == self._refused[self.rules.index(shelf_rule)].block(number)
        return flags

    def inside(self, limit: Within, number: int) -> Bools:
        """Which rows of a block have a value within the limits; bool [rows of the block]."""
        values = self.block(limit.column, number)  # comparisons with NaN are false
        flags: Bools = values >= (-np.inf if limit.min is None else limit.min)
        flags &= values <= (np.inf if limit.max is None else limit.max)
        return flags

    def label_hours(self, name: str) -> list[LabelHours]:
        """Utterances and hours by the values of a label, those with the most hours first."""
        column = queries.identifier(name)
        rows = self._rows(
            f"SELECT {column}, count(*), fsum(seconds) / 3600 AS hours, "
            "count(*) FILTER (outcome = 'packaged'), "
            "coalesce(fsum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 FROM outcomes "
            f"WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY hours DESC, 1 LIMIT {VALUES}"
        )
        return [LabelHours(*row) for row in rows]

    @cached_property
    def groups(self) -> list[tuple[str, str | None, Int32s]]:
        """(`dataset` or `language`, name, its sorted rows) of the GROUPS largest by hours; none of
        a kind with only one."""
        return [(kind, *group) for kind in ("dataset", "language") for group in self._largest(kind)]

    def _largest(self, kind: str) -> list[tuple[str | None, Int32s]]:
        largest = self._rows(
            f"SELECT {kind}, fsum(seconds) AS length FROM outcomes GROUP BY {kind} "
            f"HAVING length > 0 ORDER BY length DESC, coalesce({kind}, 'None') LIMIT {GROUPS}"
        )
        if len(largest) < 2:
            return []
        named = [f"{kind} IS NOT DISTINCT FROM {_literal(name)}" for name, _ in largest]
        rows = (np.flatnonzero(self._flags(sql)).astype(np.int32) for sql in named)
        return [(name, some) for (name, _), some in zip(largest, rows, strict=True)]


#: SQL predicate on outcome, stage and reason: rows whose outcome no limit can change, because they
#: failed, their text is not in their audio, or a corpus-wide rule rejects them (copies, outliers,
#: splits).
BEYOND_LIMITS = (
    "(outcome = 'failed' OR (outcome = 'dropped' AND stage = 'package' AND reason <> 'weight') "
    "OR coalesce(reason = 'not_in_audio', false))"
)


def _left_out_by_weight(job: Job) -> str:
    """SQL predicate on dataset and id: rows that `package.weights` drops, by the same draw as
    `choosing.weights` makes: the first 64 bits of a seeded SHA-256, as a fraction of 2**64."""
    draw = f"('0x' || left(sha256('{job.package.seed}:weight:' || id), 16))::UBIGINT::DOUBLE"
    shares = (
        f"(dataset = {queries.literal(name)} AND {draw} / {float(2**64)!r} >= '{weight!r}'::DOUBLE)"
        for name, weight in job.package.weights.items()
        if weight < 1
    )
    return f"coalesce({' OR '.join(['false', *shares])}, false)"


def _refuses(shelf_rule: ShelfRule) -> str:
    """SQL predicate: rows that a rule rejects; a rule on texts rejects only transcribed ones."""
    applies = "heard" if shelf_rule.shelf == "text" else "true"
    return f"{applies} AND NOT {limits.passes([shelf_rule.rule])}"


def _literal(name: str | None) -> str:
    return "NULL" if name is None else queries.literal(name)


def quantiles(ordered: Float64s, shares: Sequence[float]) -> list[float]:
    """`np.quantile` of sorted values, without sorting them again."""
    places = np.asarray(shares) * (len(ordered) - 1)
    below = np.floor(places).astype(np.int64)
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    part, step = places - below, high - low
    exact = np.where(part < 0.5, low + step * part, high - step * (1 - part))
    return [*map(float, exact)]


def flags_of(column: pa.ChunkedArray) -> Bools:
    """A column of booleans; False for null."""
    flags: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return flags


def numbers_of(column: pa.ChunkedArray) -> Float64s:
    """A column of numbers; NaN for null."""
    numbers: Float64s = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
