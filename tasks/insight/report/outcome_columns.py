"""The table of outcomes, a column at a time: a million rows need tens of MB, not the whole table.

`decisions.parquet` has one row an utterance. Columns that every chart needs (seconds, outcome, the
rules that reject the utterance, dataset and language) stay in small arrays; measures are read as
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base import schema
from tasks.base.arrays import Bools, Float64s, Int32s, UInt8s
from tasks.corpus import outcome_table
from tasks.plugins import rules
from tasks.plugins.rules import Rule
from tasks.publish.choosing import weights
from tasks.settings.job import Job
from tasks.shard_store import enhanced
from tasks.shard_store.chosen_rules import rules_of
from tasks.shard_store.text_values import text_columns
from tasks.storage import tables

GROUPS = 8  # datasets, and languages, with a chart of their own


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
    """Decisions on all utterances, and the measures behind them."""

    def __init__(self, job: Job, path: Path) -> None:
        self.job, self.path = job, path
        self.names: list[str] = tables.schema(path).names
        self.asked = shelf_rules(job)
        self._refused: dict[ShelfRule, UInt8s] = {}  # eight rows a byte
        self._last: tuple[str, Float64s] | None = None

    def ids(self, rows: Sequence[int]) -> list[str]:
        wanted = np.asarray(rows, np.int64)
        names = np.empty(len(wanted), object)
        first_row = 0
        for part in self._parts("id"):
            inside = np.flatnonzero((wanted >= first_row) & (wanted < first_row + len(part)))
            names[inside] = part["id"].take(pa.array(wanted[inside] - first_row)).to_pylist()
            first_row += len(part)
        return list(names)

    def _parts(self, *names: str) -> Iterator[pa.Table]:
        """These columns, one part of the table at a time: the texts of all rows would take too much
        memory."""
        for part in tables.parts(self.path):
            yield tables.read(part, columns=sorted(set(names)))

    def _flags(self, of: Callable[[pa.Table], Bools], *names: str) -> Bools:
        """The result of `of` for each row, from these columns."""
        return np.concatenate([np.zeros(0, bool), *map(of, self._parts(*names))])

    def values(self, name: str) -> Float64s:
        """A measure of each utterance, NaN for none; float64 [rows], read-only. The last one is
        cached: histogram and curves of a measure follow each other."""
        if self._last is None or self._last[0] != name:
            self._last = None  # before the next one is read: each is 80 MB of ten million rows
            parts = [numbers_of(part[name]) for part in self._parts(name)]
            self._last = name, np.concatenate([np.zeros(0), *parts])
        return self._last[1]

    @cached_property
    def seconds(self) -> Float64s:
        return self.values("seconds")

    @cached_property
    def packaged(self) -> Bools:
        return self._flags(lambda t: flags_of(pc.equal(t["outcome"], "packaged")), "outcome")

    @cached_property
    def heard(self) -> Bools:
        return self._flags(lambda t: flags_of(t["heard"]), "heard")

    @cached_property
    def blocked(self) -> Bools:
        """Rows that no other limit would keep: `outcome_table.beyond_limits`, and those not drawn
        by their dataset's weight."""

        def drawn(t: pa.Table) -> Bools:
            draw, weight = weights.draws(self.job.package, t)
            return np.asarray(draw >= weight, bool)

        columns = ("outcome", "stage", "reason")
        flags = self._flags(lambda t: flags_of(outcome_table.beyond_limits(t)), *columns)
        if any(weight < 1 for weight in self.job.package.weights.values()):
            flags |= self._flags(drawn, "id", "dataset") & self.heard
        return flags

    def rejected(self, group: str) -> Bools:
        """Rows that were rejected for `stage.reason`."""
        stage, _, reason = group.partition(".")

        def rejected(t: pa.Table) -> Bools:
            named = pc.and_(pc.equal(t["stage"], stage), pc.equal(t["reason"], reason))
            return flags_of(pc.and_(named, pc.not_equal(t["outcome"], "packaged")))

        return self._flags(rejected, "stage", "reason", "outcome")

    def refused(self, asked: ShelfRule) -> Bools:
        """Rows that one rule rejects; a rule on text rejects only what was transcribed."""
        if asked not in self._refused:
            needed = (*rules.columns(asked.rule), outcome_table.SPARED)
            no = ~self._flags(lambda t: flags_of(outcome_table.passes(t, [asked.rule])), *needed)
            self._refused[asked] = np.packbits(no & self.heard if asked.shelf == "text" else no)
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

    @cached_property
    def groups(self) -> list[tuple[str, str | None, Int32s]]:
        """(`dataset` or `language`, name, its sorted rows) of the largest by hours, if there are
        several."""
        return [(kind, *group) for kind in ("dataset", "language") for group in self._largest(kind)]

    def _largest(self, kind: str) -> list[tuple[str | None, Int32s]]:
        table = tables.read(self.path, columns=[kind], read_dictionary=[kind])
        column = table.unify_dictionaries()[kind].combine_chunks()
        names: list[str | None] = [*column.dictionary.to_pylist(), None]
        codes = column.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False)
        hours = np.bincount(codes, self.seconds, len(names))
        largest = sorted(range(len(names)), key=lambda i: (-hours[i], str(names[i])))
        largest = [i for i in largest if hours[i] > 0][:GROUPS]
        if len(largest) < 2:
            return []
        return [(names[i], np.flatnonzero(codes == i).astype(np.int32)) for i in largest]


def flags_of(column: pa.ChunkedArray) -> Bools:
    """A column of booleans; False for null."""
    flags: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return flags


def numbers_of(column: pa.ChunkedArray) -> Float64s:
    """A column of numbers; NaN for null."""
    numbers: Float64s = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
