"""Rules over columns, as the report asks them of DuckDB; and the outcomes of all utterances."""

from collections.abc import Sequence

import pyarrow as pa

from uttermill.tasks.plugins.rules import Rule
from uttermill.tasks.publish import foreseen
from uttermill.tasks.publish.corpus import limits
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.storage import queries


def table(job: Job) -> pa.Table:
    """The facts of all utterances, and what becomes of them (`limits.outcomes_schema`)."""
    schema = limits.outcomes_schema(job)
    with foreseen.version(job, manifest.shards(job.out)) as version:
        return pa.concat_tables([schema.empty_table(), *version.utterances(schema.names)])


def passing(table: pa.Table, rules: Sequence[Rule]) -> list[bool]:
    """Whether each row passes the rules."""
    table = table.append_column(limits.SPARED, pa.nulls(len(table), pa.bool_()))
    with queries.tables() as database:
        answer = queries.joined(database, table, f"SELECT {limits.passes(rules)} FROM given")
    passed: list[bool] = answer.column(0).to_pylist()
    return passed
