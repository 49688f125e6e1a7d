"""The contents of the next version, computed in one process over the whole corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tasks import corpus
from tasks.base.errors import RunError
from tasks.base.json_types import JsonObject
from tasks.base.schema import LEDGER
from tasks.corpus import outcome_table, rejections
from tasks.publish import speakers
from tasks.publish.choosing import selection, split_input
from tasks.publish.ledger import rows as ledger_rows
from tasks.publish.outcomes import shard_outcomes
from tasks.settings.job import Job
from tasks.storage import long_columns, versions


class Contents(NamedTuple):
    """The outcomes of all utterances, or of those of some shards."""

    rows: pa.Table  # to package, by id; `shard_outcomes.row_schema`
    ledger: pa.Table  # of all recordings, in the order of names
    utterances: pa.Table  # all, with their measures; `outcome_table.schema_of`


def of_shards(job: Job, shards: Sequence[str]) -> Contents:
    """The contents of a version of these shards. RunError if two utterances have one id."""
    parts = [shard_outcomes.of_shard(job, shard) for shard in shards]
    rejected = _corpus_wide(job, [part.heard for part in parts])
    passed = _stacked(shard_outcomes.row_schema(job), [part.rows for part in parts])
    passed = long_columns.take(passed, pc.sort_indices(passed["id"]).to_numpy())
    _check_ids(passed)
    newest = versions.newest(job.out)
    passed = speakers.in_rows(job, passed, [part.voices for part in parts], newest)
    rest = passed.filter(pc.invert(pc.is_in(passed["id"], rejected["id"])))
    rows, not_selected = _selected(job, rest, newest)
    outcomes = pa.concat_tables([rejected, not_selected])
    ledger = ledger_rows.with_outcomes(_stacked(LEDGER, [part.ledger for part in parts]), outcomes)
    utterances = _stacked(outcome_table.schema_of(job), [part.utterances for part in parts])
    return Contents(
        rows, ledger_rows.in_order(ledger), rejections.entered(utterances, "id", outcomes)
    )


def _selected(job: Job, rows: pa.Table, newest: Path | None) -> tuple[pa.Table, pa.Table]:
    """The rows to package, with their splits; outcomes (`rejections.OUTCOMES`) of the rest."""
    with split_input.Candidates(job.package) as clips:
        clips.add(rows, selection.PublishedIds(job, newest).holding(rows["id"]))
        clips.finish()
        selected = selection.select(job, clips, newest)
    chosen = long_columns.take(rows, selected.rows)
    split = pa.array(selected.names).take(pa.array(selected.split))
    index = rows.column_names.index("split")
    chosen = chosen.set_column(index, rows.schema.field("split"), split)
    return chosen, _outcomes(rows, selected.rejected)


def _outcomes(rows: pa.Table, rejected: pa.Table) -> pa.Table:
    """Rejections (`rejections.REJECTED`) by id: `rejections.OUTCOMES`."""
    ids = long_columns.take(rows.select(["id"]), rejected["at"].to_numpy())["id"]
    return rejections.outcomes_of(ids, rejected)


def rejected_ids(job: Job, shards: Sequence[str]) -> set[str]:
    """Ids of utterances that corpus-wide rules reject."""
    if not corpus.takes_part(job):
        return set()
    heard = [shard_outcomes.of_shard(job, shard).heard for shard in shards]
    return set(_corpus_wide(job, heard)["id"].to_pylist())


def _corpus_wide(job: Job, heard: Sequence[pa.Table]) -> pa.Table:
    """Outcomes of corpus-wide rejections: `rejections.OUTCOMES`."""
    if not corpus.takes_part(job):
        return rejections.OUTCOMES.empty_table()
    newest = versions.newest(job.out)
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    published = selection.PublishedIds(job, newest).holding

    def parts(names: Sequence[str]) -> Iterator[pa.Table]:
        return (table.select(names) for table in heard)

    rejected, _ = rejections.of_corpus(job, parts, published, frozen)
    return _outcomes(_stacked(corpus.ROW, heard), rejected)


def _stacked(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables])


def _check_ids(rows: pa.Table) -> None:
    """RunError if two rows, in the order of ids, have the same id."""
    ids = rows["id"]
    twice = pc.equal(ids[1:], ids[:-1]).to_pylist() if len(ids) > 1 else []
    if True in twice:
        row = rows.slice(twice.index(True), 1).to_pylist()[0]
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )
