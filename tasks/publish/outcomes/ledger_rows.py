"""Rows of a ledger: sorts them, enters corpus-wide rejections, and marks removed recordings."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import ledger
from ...accounting.summary import REMOVED
from ...base.schema import LEDGER, LedgerRow
from ...corpus import limits, rejections
from ...shard_store import clip_choice
from ...storage import long_columns, tables

#: Columns that the row of a removed recording keeps.
NAMES = ("recording", "source_path", "dataset", "channel", "track", "sample_rate")
#: Stages whose outcome an utterance has before a recogniser hears it.
UNHEARD = ("filter", "resample", "enhance")
_ORDER = [(name, "ascending") for name in ("recording", "start", "end", "utterance")]


def unchosen(outcomes: pa.Table) -> pa.ChunkedArray:
    """Which of these outcomes (columns stage, reason) are of clips that `package.only` and
    `without` leave out before they are converted; bool [rows]."""
    by_choice = pc.equal(outcomes["reason"], clip_choice.REASON)
    return pc.and_(by_choice, pc.equal(outcomes["stage"], "package")).fill_null(False)


def unheard(outcomes: pa.Table) -> pa.ChunkedArray:
    """Which of these outcomes a clip has before a recogniser hears it; bool [rows]."""
    early = pc.is_in(outcomes["stage"], pa.array(UNHEARD))
    return pc.or_(early, unchosen(outcomes))


def with_outcomes(table: pa.Table, outcomes: pa.Table | None) -> pa.Table:
    """The ledger with these outcomes entered. In a recording with overlapping spans, samples that
    two spans share are assigned again."""
    if outcomes is None:
        return table
    overlapping = rejections.overlapping(table)
    rejected = pc.is_in(table["utterance"], outcomes["id"])
    moved = pc.unique(
        table["recording"].filter(pc.and_(rejected, pc.is_in(table["recording"], overlapping)))
    )
    return _assigned_again(rejections.entered(table, "utterance", outcomes), moved)


def _assigned_again(table: pa.Table, moved: pa.Array) -> pa.Table:
    """The ledger with the samples of these recordings assigned again."""
    if not len(moved):
        return table
    inside = pc.is_in(table["recording"], moved)
    by_recording: dict[str, list[LedgerRow]] = {}
    for row in table.filter(inside).to_pylist():
        by_recording.setdefault(row["recording"], []).append(row)
    rows = [row for some in by_recording.values() for row in ledger.assigned_again(some)]
    again = pa.Table.from_pylist(rows, schema=table.schema)
    return pa.concat_tables([table.filter(pc.invert(inside)), again])


def decided(spans: pa.Table, outcomes: pa.Table, number: str, stated: str) -> pa.Table:
    """The ledger with these outcomes for the rows of utterances, whose numbers are in the column
    `number`; `stated`: the column with the languages that sources state, which count for utterances
    that no recogniser had to hear. In a recording with overlapping spans, samples that two spans
    share are assigned again."""
    outcomes = outcomes.combine_chunks()
    changed = pc.and_(
        pc.is_valid(spans[number]),
        pc.not_equal(outcomes["outcome"].take(spans[number]), spans["outcome"]),
    )
    overlapping = rejections.overlapping(spans)
    for name in limits.OUTCOME_COLUMNS:
        new = outcomes[name].take(spans[number])
        spans = tables.replaced(
            spans, name, pc.if_else(pc.is_valid(spans[number]), new, spans[name])
        )
    early = pc.and_(pc.is_valid(spans[number]), unheard(spans))
    spoken = pc.if_else(early, spans[stated], spans["language"])
    spans = tables.replaced(spans, "language", spoken)
    details = spans["detail"]
    details = pc.if_else(pc.equal(details, ""), pa.scalar(None, details.type), details)
    spans = tables.replaced(spans, "detail", details)
    spans = spans.drop_columns([number, stated])
    moved = pc.and_(changed.fill_null(False), pc.is_in(spans["recording"], overlapping))
    return _assigned_again(spans, pc.unique(spans["recording"].filter(moved)))


def in_order(table: pa.Table) -> pa.Table:
    """A ledger sorted by recording, start, end and utterance."""
    table = table.combine_chunks()  # sorting chunks takes six times as long
    return long_columns.take(table, pc.sort_indices(table, sort_keys=_ORDER).to_numpy())


def recordings(ledger: pa.Table) -> pa.Table:
    """The first row (NAMES) of each recording of a ledger, and `live`: whether it was in its source
    then. `ledger`: NAMES and `reason`."""
    firsts = [(name, "first") for name in (*NAMES[1:], "reason")]
    rows = ledger.group_by("recording", use_threads=False).aggregate(firsts)
    rows = rows.rename_columns([name.removesuffix("_first") for name in rows.column_names])
    live = pc.fill_null(pc.not_equal(rows["reason"], REMOVED), True)
    return rows.select(NAMES).append_column("live", live)


def removed(recordings: pa.Table) -> pa.Table:
    """For each recording (NAMES), a row of 0 s that says that it has left its source."""
    nothing = {"start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0}
    outcome = {"outcome": "dropped", "stage": "shard", "reason": REMOVED}
    columns = {name: recordings[name] for name in NAMES}
    columns |= {
        name: pa.array([value] * len(recordings)) for name, value in (nothing | outcome).items()
    }
    return tables.conformed(pa.table(columns), LEDGER)
