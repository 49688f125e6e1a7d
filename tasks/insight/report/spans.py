"""The ledger of a version, or of the work done so far, and the facts of its utterances: tables of
one database, for charts and the choice of clips."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...accounting.summary import REMOVED
from ...base.arrays import Bools, Float64s, Int32s
from ...base.schema import LEDGER, LedgerRow
from ...plugins.rules import Rule
from ...publish.choosing import split_input
from ...publish.corpus import limits
from ...settings.job import Job
from ...storage import queries

GROUPS = 8  # datasets, and languages, with a chart of their own


class Hours(NamedTuple):
    """The spans with one value of a column, in all and packaged."""

    value: str | None
    items: int
    hours: float
    packaged: int
    packaged_hours: float
    names: int = 1  # different values, if small ones are summed


class Spans:
    """The table `ledger`, and the table `outcomes` of the outcomes and measures of all utterances;
    both are given in parts. `schema`: of the outcomes (`limits.outcomes_schema`)."""

    def __init__(
        self,
        job: Job,
        schema: pa.Schema,
        outcomes: Iterable[pa.Table],
        ledger: Iterable[pa.Table] = (),
    ) -> None:
        self.job = job
        fields = [field for field in schema if field.name not in limits.TOLD]
        #: Columns with labels of plug-ins; all other columns of `outcomes` are in `names`.
        self.labels = [field.name for field in fields if field.type == pa.string()]
        self.names = [name for name in schema.names if name not in self.labels]
        by_stage = limits.rules_by_stage(job).items()
        #: Each rule with the stage of its rejections.
        self.rules = [(stage, rule) for stage, rules in by_stage for rule in rules]
        opened = ExitStack()
        self.database = opened.enter_context(queries.tables(job.package.memory))
        weakref.finalize(self, opened.close)
        tables = (("outcomes", schema, outcomes), ("ledger", LEDGER, ledger))
        for name, columns, parts in tables:
            with queries.given(self.database, columns.empty_table()):
                self.database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            for part in parts:
                queries.add(self.database, name, part)
        self.seconds = self.values("seconds")
        self.packaged = self.flags("outcome = 'packaged'")
        self.heard = self.flags("heard")  # whether each row has a transcript
        #: Rows that no limit would keep, or that `package.weights` drops.
        self.blocked = self.flags(BEYOND_LIMITS)
        if job.package.weights:
            clips = self.database.sql("SELECT dataset, id FROM outcomes").to_arrow_table()
            draw, weight = split_input.weight_draws(job.package, clips)
            self.blocked |= self.heard & (draw >= weight)
        #: The number of rules that reject each row.
        self.refusals = np.zeros(len(self.seconds), np.uint8)
        for rule in self.rules:
            self.refusals += self.flags(_refuses(*rule))

    def flags(self, sql: str) -> Bools:
        """The value of an SQL predicate for each utterance; false for NULL. bool [rows]"""
        return np.asarray(self._column(f"coalesce({sql}, false)"), bool)

    def values(self, name: str) -> Float64s:
        """A measure of each utterance, NaN without a value; float64 [rows], 80 MB for ten
        million."""
        number = f"coalesce({queries.identifier(name)}::DOUBLE, 'nan')"
        return np.asarray(self._column(number), np.float64)

    def _column(self, sql: str) -> Any:
        return self.database.execute(f"SELECT {sql} AS value FROM outcomes").fetchnumpy()["value"]

    def only(self, stage: str, rule: Rule) -> Bools:
        """Which utterances would be kept without this one rule; bool [rows]."""
        flags: Bools = ~self.blocked & (self.refusals == self.flags(_refuses(stage, rule)))
        return flags

    def rows(self, numbers: Iterable[int]) -> list[LedgerRow]:
        """The rows of the ledger with these numbers, in their order."""
        wanted = pa.table({"number": pa.array(numbers, pa.int64())})
        sql = "SELECT ledger.* FROM ledger JOIN given ON ledger.rowid = number ORDER BY number"
        rows: list[LedgerRow] = queries.joined(self.database, wanted, sql).to_pylist()
        return rows

    def hours_by(self, column: str, table: str = "ledger") -> list[Hours]:
        """The spans of either table by the values of a column, those with the most hours first;
        without recordings that have left their sources."""
        name = queries.identifier(column)
        packaged = "FILTER (outcome = 'packaged')"
        rows = self.database.execute(
            f"SELECT {name}, count(*), fsum(seconds) / 3600 AS hours, count(*) {packaged}, "
            f"coalesce(fsum(seconds) {packaged}, 0) / 3600 FROM {table} "
            f"WHERE reason IS DISTINCT FROM '{REMOVED}' GROUP BY 1 "
            f"ORDER BY hours DESC, coalesce({name}, 'None')"
        ).fetchall()
        return [Hours(*row) for row in rows]

    @cached_property
    def groups(self) -> list[tuple[str, str | None, Int32s]]:
        """(`dataset` or `language`, name, the sorted rows of its utterances) of the GROUPS largest
        by hours; none of a kind with only one."""
        groups = []
        for kind in ("dataset", "language"):
            largest = [one for one in self.hours_by(kind, "outcomes") if one.hours > 0][:GROUPS]
            for name, *_ in largest if len(largest) > 1 else ():
                value = "NULL" if name is None else queries.literal(name)
                rows = np.flatnonzero(self.flags(f"{kind} IS NOT DISTINCT FROM {value}"))
                groups.append((kind, name, rows.astype(np.int32)))
        return groups


def folded(rows: Sequence[Hours], most: int) -> list[Hours]:
    """The first rows; beyond `most`, all others summed in the last one, without a value."""
    if len(rows) <= most:
        return [*rows]
    _, *numbers = zip(*rows[most - 1 :], strict=True)
    return [*rows[: most - 1], Hours(None, *map(sum, numbers))]


#: SQL predicate on outcome, stage and reason: rows whose outcome no limit can change, because they
#: failed, their text is not in their audio, or a corpus-wide rule rejects them (copies, outliers,
#: splits).
BEYOND_LIMITS = (
    "(outcome = 'failed' OR (outcome = 'dropped' AND stage = 'package' AND reason <> 'weight') "
    "OR coalesce(reason = 'not_in_audio', false))"
)


def _refuses(stage: str, rule: Rule) -> str:
    """SQL predicate: rows that a rule rejects; a rule on texts rejects only transcribed ones."""
    applies = "heard" if stage == "transcribe" else "true"
    return f"{applies} AND NOT {limits.passes([rule])}"
