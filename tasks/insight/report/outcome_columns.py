"""Columns of the facts and outcomes of all utterances, for charts and the choice of clips."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...base.arrays import Bools, Float64s, Int32s
from ...plugins.rules import Rule
from ...publish.corpus import limits
from ...settings.job import Job
from ...storage import queries

VALUES = 30  # shown of a label
GROUPS = 8  # datasets, and languages, with a chart of their own


class LabelHours(NamedTuple):
    """Utterances and hours with one value of a label, in all and packaged."""

    value: str
    utterances: int
    hours: float
    packaged: int
    packaged_hours: float


class Columns:
    """The outcomes and measures of all utterances: `parts` of a table of outcomes with this
    schema (`limits.outcomes_schema`)."""

    def __init__(self, job: Job, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        self.job = job
        fields = [field for field in schema if field.name not in limits.TOLD]
        #: Columns with labels of plug-ins; all other columns are in `names`.
        self.labels = [field.name for field in fields if field.type == pa.string()]
        self.names = [name for name in schema.names if name not in self.labels]
        by_stage = limits.rules_by_stage(job).items()
        #: Each rule with the stage of its rejections.
        self.rules = [(stage, rule) for stage, rules in by_stage for rule in rules]
        opened = ExitStack()
        self.database = opened.enter_context(queries.tables(job.package.memory))
        weakref.finalize(self, opened.close)
        with queries.given(self.database, schema.empty_table()):
            self.database.execute("CREATE TABLE outcomes AS SELECT * FROM given")
        for part in parts:
            queries.add(self.database, "outcomes", part)
        self.seconds = self.values("seconds")
        self.packaged = self.flags("outcome = 'packaged'")
        self.heard = self.flags("heard")  # whether each row has a transcript
        #: Rows that no limit would keep, or that `package.weights` drops.
        self.blocked = self.flags(f"{BEYOND_LIMITS} OR ({_left_out_by_weight(job)} AND heard)")
        #: The number of rules that reject each row.
        self.refusals = np.zeros(len(self.seconds), np.uint8)
        for rule in self.rules:
            self.refusals += self.flags(_refuses(*rule))

    def flags(self, sql: str) -> Bools:
        """The value of an SQL predicate for each row; false for NULL. bool [rows]"""
        return np.asarray(self._column(f"coalesce({sql}, false)"), bool)

    def values(self, name: str) -> Float64s:
        """A measure of each utterance, NaN without a value; float64 [rows], 80 MB for ten
        million."""
        number = f"coalesce({queries.identifier(name)}::DOUBLE, 'nan')"
        return np.asarray(self._column(number), np.float64)

    def _column(self, sql: str) -> Any:
        return self.database.execute(f"SELECT {sql} AS value FROM outcomes").fetchnumpy()["value"]

    def only(self, stage: str, rule: Rule) -> Bools:
        """Which rows would be kept without this one rule; bool [rows]."""
        flags: Bools = ~self.blocked & (self.refusals == self.flags(_refuses(stage, rule)))
        return flags

    def label_hours(self, name: str) -> list[LabelHours]:
        """Utterances and hours by the values of a label, those with the most hours first."""
        column = queries.identifier(name)
        rows = self.database.execute(
            f"SELECT {column}, count(*), fsum(seconds) / 3600 AS hours, "
            "count(*) FILTER (outcome = 'packaged'), "
            "coalesce(fsum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 FROM outcomes "
            f"WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY hours DESC, 1 LIMIT {VALUES}"
        ).fetchall()
        return [LabelHours(*row) for row in rows]

    @cached_property
    def groups(self) -> list[tuple[str, str | None, Int32s]]:
        """(`dataset` or `language`, name, its sorted rows) of the GROUPS largest by hours; none of
        a kind with only one."""
        groups = []
        for kind in ("dataset", "language"):
            largest = self.database.execute(
                f"SELECT {kind}, fsum(seconds) AS length FROM outcomes GROUP BY {kind} "
                f"HAVING length > 0 ORDER BY length DESC, coalesce({kind}, 'None') LIMIT {GROUPS}"
            ).fetchall()
            for name, _ in largest if len(largest) > 1 else ():
                value = "NULL" if name is None else queries.literal(name)
                rows = np.flatnonzero(self.flags(f"{kind} IS NOT DISTINCT FROM {value}"))
                groups.append((kind, name, rows.astype(np.int32)))
        return groups


#: SQL predicate on outcome, stage and reason: rows whose outcome no limit can change, because they
#: failed, their text is not in their audio, or a corpus-wide rule rejects them (copies, outliers,
#: splits).
BEYOND_LIMITS = (
    "(outcome = 'failed' OR (outcome = 'dropped' AND stage = 'package' AND reason <> 'weight') "
    "OR coalesce(reason = 'not_in_audio', false))"
)


def _left_out_by_weight(job: Job) -> str:
    """SQL predicate on dataset and id: rows that `package.weights` drops, by the same draw as
    `split_input.weight_draws`: the first 64 bits of a seeded SHA-256, as a fraction of 2**64."""
    draw = f"('0x' || left(sha256('{job.package.seed}:weight:' || id), 16))::UBIGINT::DOUBLE"
    shares = (
        f"(dataset = {queries.literal(name)} AND {draw} / {float(2**64)!r} >= '{weight!r}'::DOUBLE)"
        for name, weight in job.package.weights.items()
        if weight < 1
    )
    return f"coalesce({' OR '.join(['false', *shares])}, false)"


def _refuses(stage: str, rule: Rule) -> str:
    """SQL predicate: rows that a rule rejects; a rule on texts rejects only transcribed ones."""
    applies = "heard" if stage == "transcribe" else "true"
    return f"{applies} AND NOT {limits.passes([rule])}"
