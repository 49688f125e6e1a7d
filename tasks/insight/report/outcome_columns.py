"""The table of outcomes, a column at a time: a million rows need tens of MB, not the whole table.

`decisions.parquet` has one row an utterance. Columns that every chart needs (seconds, outcome, the
rules that reject the utterance, dataset and language) stay in small arrays; measures are read as
needed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base import schema
from tasks.base.arrays import Bools, Float64s, Int32s, UInt8s
from tasks.corpus import outcome_table
from tasks.plugins.rules import Rule
from tasks.settings.job import Job
from tasks.shard_store import enhanced
from tasks.shard_store.chosen_rules import rules_of
from tasks.shard_store.text_values import text_columns
from tasks.storage import queries, tables

VALUES = 30  # of a label that are shown
HELD = 1 << 28  # bytes of columns
GROUPS = 8  # datasets, and languages, with a chart of their own


class LabelHours(NamedTuple):
    """One value of a label: utterances and hours, of all and of packaged ones."""

    value: str
    utterances: int
    hours: float
    packaged: int
    packaged_hours: float


class ShelfRule(NamedTuple):
    """One rule, and the shelf of the plug-in that it comes from."""

    shelf: str
    rule: Rule


def shelf_rules(job: Job) -> list[ShelfRule]:
    by_shelf = {
        "filters": rules_of("filters", job.filter.all_filters),
        "text": rules_of("text", job.transcribe.verdicts),
        "enhance": enhanced.rules(job),
    }
    return [ShelfRule(shelf, rule) for shelf, chosen in by_shelf.items() for rule in chosen]


def units(job: Job) -> dict[str, tuple[str, str]]:
    """(unit, meaning) of every measure."""
    about = {field.name: schema.about(field) for field in schema.TRANSCRIPTS}
    about["text_chars"] = ("characters", "length of the text")
    about["wer"] = ("", "word errors / words of the reference")
    about["cer"] = ("", "character errors / characters of the reference")
    about["seconds"] = ("s", "length of the utterance")
    return {**about, **enhanced.measures(job), **text_columns(job.transcribe.verdicts)}


class Columns:
    """Decisions on all utterances, and the measures behind them, asked of DuckDB."""

    def __init__(self, job: Job, path: Path) -> None:
        self.job, self.path = job, path
        fields = [*tables.schema(path)]
        fixed = outcome_table.FIXED.names
        #: Labels, by plug-ins; and all other columns.
        self.labels = [f.name for f in fields if f.name not in fixed and f.type == pa.string()]
        self.names = [field.name for field in fields if field.name not in self.labels]
        self.asked = shelf_rules(job)
        self._refused: dict[ShelfRule, UInt8s] = {}  # eight rows a byte
        self._read: dict[str, Float64s] = {}  # the last ones, the oldest first
        opened = ExitStack()
        outcomes = outcome_table.database(path, memory=job.package.memory)
        self._outcomes = opened.enter_context(outcomes)
        weakref.finalize(self, opened.close)

    def ids(self, rows: Sequence[int]) -> list[str]:
        wanted = pa.table({"row": pa.array(rows, pa.int64()), "place": range(len(rows))})
        numbered = "SELECT id, row_number() OVER () - 1 AS row FROM outcomes"
        sql = f"SELECT id FROM given JOIN ({numbered}) USING (row) ORDER BY place"
        names: list[str] = queries.joined(self._outcomes, wanted, sql)["id"].to_pylist()
        return names

    def _flags(self, sql: str) -> Bools:
        """Whether a condition holds, for each row; false where it is unknown."""
        answer = self._outcomes.execute(f"SELECT coalesce({sql}, false) AS flag FROM outcomes")
        flags: Bools = np.asarray(answer.fetchnumpy()["flag"], bool)
        return flags

    def values(self, name: str) -> Float64s:
        """A measure of each utterance, NaN for none; float64 [rows], read-only. The last ones are
        kept, up to HELD bytes and one more: each is 80 MB of ten million rows."""
        if (values := self._read.pop(name, None)) is None:
            while self._read and sum(one.nbytes for one in self._read.values()) >= HELD:
                del self._read[next(iter(self._read))]
            sql = f"SELECT {queries.identifier(name)}::DOUBLE AS value FROM outcomes"
            values = np.ma.filled(self._outcomes.execute(sql).fetchnumpy()["value"], np.nan)
        self._read[name] = values
        return values

    @cached_property
    def seconds(self) -> Float64s:
        return self.values("seconds")

    @cached_property
    def packaged(self) -> Bools:
        return self._flags("outcome = 'packaged'")

    @cached_property
    def heard(self) -> Bools:
        return self._flags("heard")

    @cached_property
    def blocked(self) -> Bools:
        """Rows that no other limit would keep: BEYOND_LIMITS, and those not drawn by their
        dataset's weight."""
        undrawn = outcome_table.left_out_by_weight(self.job)
        return self._flags(f"{outcome_table.BEYOND_LIMITS} OR ({undrawn} AND heard)")

    def rejected(self, group: str) -> Bools:
        """Rows that were rejected for `stage.reason`."""
        name = queries.literal(group)
        return self._flags(f"stage || '.' || reason = {name} AND outcome <> 'packaged'")

    def refused(self, asked: ShelfRule) -> Bools:
        """Rows that one rule rejects; a rule on text rejects only what was transcribed."""
        if asked not in self._refused:
            concerned = "heard" if asked.shelf == "text" else "true"
            no = self._flags(f"{concerned} AND NOT {outcome_table.passes([asked.rule])}")
            self._refused[asked] = np.packbits(no)
        return np.unpackbits(self._refused[asked], count=len(self.seconds)).view(bool)

    @cached_property
    def refusals(self) -> UInt8s:
        """How many rules reject each row."""
        count = np.zeros(len(self.seconds), np.uint8)
        for asked in self.asked:
            count += self.refused(asked)
        return count

    def only(self, asked: ShelfRule) -> Bools:
        """Rows that would be kept without this one rule."""
        flags: Bools = ~self.blocked & (self.refusals == self.refused(asked))
        return flags

    def inside(self, name: str, low: float | None, high: float | None) -> Bools:
        """Rows with a known value of this column within the limits."""
        values = self.values(name)  # NaN is within no limits
        flags: Bools = values >= (-np.inf if low is None else low)
        flags &= values <= (np.inf if high is None else high)
        return flags

    def label_hours(self, name: str) -> list[LabelHours]:
        """Utterances and hours by the values of a label, those with most hours first."""
        column = queries.identifier(name)
        rows = self._outcomes.execute(
            f"SELECT {column}, count(*), fsum(seconds) / 3600 AS hours, "
            "count(*) FILTER (outcome = 'packaged'), "
            "coalesce(fsum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 FROM outcomes "
            f"WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY hours DESC, 1 LIMIT {VALUES}"
        ).fetchall()
        return [LabelHours(*row) for row in rows]

    @cached_property
    def groups(self) -> list[tuple[str, str | None, Int32s]]:
        """(`dataset` or `language`, name, its sorted rows) of the largest by hours, if there are
        several."""
        return [(kind, *group) for kind in ("dataset", "language") for group in self._largest(kind)]

    def _largest(self, kind: str) -> list[tuple[str | None, Int32s]]:
        largest = self._outcomes.execute(
            f"SELECT {kind}, fsum(seconds) AS length FROM outcomes GROUP BY {kind} "
            f"HAVING length > 0 ORDER BY length DESC, coalesce({kind}, 'None') LIMIT {GROUPS}"
        ).fetchall()
        if len(largest) < 2:
            return []
        named = [f"{kind} IS NOT DISTINCT FROM {_literal(name)}" for name, _ in largest]
        rows = (np.flatnonzero(self._flags(sql)).astype(np.int32) for sql in named)
        return [(name, some) for (name, _), some in zip(largest, rows, strict=True)]


def _literal(name: str | None) -> str:
    return "NULL" if name is None else queries.literal(name)


def flags_of(column: pa.ChunkedArray) -> Bools:
    """A column of booleans; False for null."""
    flags: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return flags


def numbers_of(column: pa.ChunkedArray) -> Float64s:
    """A column of numbers; NaN for null."""
    numbers: Float64s = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
