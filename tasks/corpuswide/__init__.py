"""Corpus-wide verdicts, such as duplicates and outliers, taken by `package` from stored measures.

Every plug-in of the shelves `filters` and `text` that has `decide` takes part, in the order of the
settings, each on the rows that those before it kept:

    def decide(rows: pa.Table, settings, frozen: dict) -> tuple[dict[str, Rejection], dict]

`rows` (ROW, in the order of ids) are all transcribed utterances, kept so far or not. `decide`
returns rejections of kept rows, by id, and what it freezes: it gets that back as `frozen` for the
next version (`{}` for the first, or on `package.refit`), so that bounds do not move under what is
already published.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.texts import final_text
from tasks.checkpoints.utterance import Outcome, Utterance
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.plugins.contracts import Measuring
from tasks.reviews import applied
from tasks.settings import Plugin

ROW = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("dataset", pa.string()),
        pa.field("recording", pa.string()),
        pa.field("language", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("native_rate", pa.int64()),
        pa.field("format", pa.string()),  # container/codec of the recording
        pa.field("print", pa.large_binary()),  # fingerprint by the filter `duplicate`, if used
        pa.field("work_shard", pa.string()),
        pa.field("kept", pa.bool_()),  # no verdict has rejected it so far
        pa.field("published", pa.bool_()),  # in the newest version
    ]
)

Verdicts = dict[str, Outcome]  # by id


def rows(job: Job, shard: str, utterances: Iterable[Utterance]) -> list[Row]:
    """One row for each transcribed utterance."""
    return [
        {
            "id": u.id,
            "dataset": u.recording["dataset"],
            "recording": u.recording["recording"],
            "language": u.heard["language"],
            "seconds": u.seconds,
            "text": final_text(job, u)[0],
            "native_rate": u.rate,
            "format": u.recording["format"],
            "print": u.fingerprints.get("duplicate"),
            "work_shard": shard,
            "kept": u.outcome.outcome == "packaged",
            "published": False,
        }
        for u in utterances
        if u.heard is not None and not u.heard["error_code"]
    ]


def chosen(job: Job) -> list[tuple[Measuring, Plugin]]:
    """(shelf, plug-in) of all that have `decide`, in the order of the settings."""
    asked: list[tuple[Measuring, Plugin]] = [("filters", p) for p in job.filter.filters]
    asked += [("text", p) for p in job.transcribe.verdicts]
    return [(shelf, plugin) for shelf, plugin in asked if plugins.load(shelf, plugin.use).decide]


def takes_part(job: Job) -> bool:
    return bool(chosen(job))


def with_published(table: pa.Table, published: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows (ROW) of which these are in the newest version."""
    return table.set_column(ROW.names.index("published"), "published", published)


def verdicts(job: Job, table: pa.Table, frozen: JsonObject) -> tuple[Verdicts, JsonObject]:
    """Rejections as ledger outcomes, by id, and what each plug-in freezes, by `shelf.name`."""
    table = table.take(pc.sort_indices(table["id"]))
    spared = {key for key, decision in applied.of(job).items() if decision.keeps}
    found: Verdicts = {}
    # Also of plug-ins that are not used now.
    kept_frozen = {} if job.package.refit else dict(frozen)
    for shelf, plugin in chosen(job):
        name = f"{shelf}.{plugin.use}"
        module, settings = plugins.resolve(shelf, plugin)
        before = kept_frozen.get(name, {})
        assert module.decide is not None  # `chosen` asked
        rejected, kept_frozen[name] = module.decide(table, settings, before)
        rejected = {key: no for key, no in rejected.items() if key not in spared}
        for key, no in rejected.items():
            found[key] = Outcome("dropped", "package", no.reason, no.value, no.threshold, no.detail)
        gone = pc.is_in(table["id"], pa.array(list(rejected), pa.string()))
        still = pc.and_(table["kept"], pc.invert(gone))
        table = table.set_column(ROW.names.index("kept"), "kept", still)
    return found, kept_frozen
