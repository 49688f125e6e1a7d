"""Answers of the commands that only read: status, ledger, what-if, list, plugins, schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.run import items as naming
from flows.run import runs
from flows.settings import assign, parse
from tasks import plugins, schema, shard, shelves, storage
from tasks.accounting import summary
from tasks.checkpoints import manifest
from tasks.checkpoints.index import Index
from tasks.dataset import datacard, versions
from tasks.errors import CODES, ConfigError
from tasks.estimating.what_if import kept
from tasks.packaging import contents, weights
from tasks.settled import Settled
from tasks.stages import stage
from tasks.storage import tables


def status(out: Path) -> dict[str, Any]:
    """Per stage: items done, and items that a run with the newest settings would compute.

    A recording that is not segmented yet may hold any number of utterances: until then, the
    numbers of later stages are lower bounds.
    """
    job = runs.settings_of(out).job()
    found = shard.survey(job)
    shards = manifest.shards(out)
    stages: dict[str, Any] = {
        "shard": {"items_done": found.reused, "items_to_compute": len(found.probe)}
    }
    state = Settled(job, shards, Index(out))
    for name in stage.PER_SHARD:
        missing, done = 0, 0
        for each in shards:
            known = state.items(each)
            lacking, there = (0, known[name]) if known else stage.pending(name, job, each)
            missing, done = missing + lacking, done + there
        stages[name] = {"items_done": done, "items_to_compute": missing}
    # What one stage still has to compute is missing in the next one too.
    uncut = sum(not row["error_code"] for _, row in found.probe)
    stages["filter"]["items_to_compute"] += uncut
    stages["transcribe"]["items_to_compute"] += stages["resample"]["items_to_compute"]
    newest = versions.newest(out)
    described = versions.described(newest) if newest else None
    return {
        "out": str(out),
        "shards": len(shards),
        "stages": stages,
        "removed": len(found.removed),
        "ignored": found.ignored,
        "dataset": str(newest) if newest else None,
        "utterances": described["utterances"] if described else None,
        "seconds": described["seconds"] if described else None,
    }


def ledger(out: Path) -> dict[str, Any]:
    """The newest version's ledger; before the first version, the ledger of what is done so far."""
    table, newest = _ledger(out)
    return {
        "dataset": str(newest) if newest else None,
        **summary.of_ledger(table),
        "by_stage": summary.hours_by(table, "stage", "outcome", "reason"),
        "by_dataset": summary.hours_by(table, "dataset", "outcome", "reason"),
        "by_language": summary.hours_by(table, "language", "outcome", "reason"),
        "meanings": {c: text for c, text in CODES.items() if c in set(table["reason"].to_pylist())},
    }


def items(out: Path, reason: str | None, dataset: str | None) -> Iterator[dict[str, Any]]:
    """The same ledger row by row, and files that the newest run left aside."""
    return naming.of(_ledger(out)[0], naming.read_left_aside(out), reason, dataset)


def _ledger(out: Path) -> tuple[pa.Table, Path | None]:
    """(ledger, its version); the version is None for a ledger of what is done so far."""
    last = runs.newest(out)
    newest = versions.newest(out)
    if newest and storage.exists(last / "summary.json"):
        return tables.read(newest / "ledger.parquet"), newest
    return contents.decide(runs.settings_of(out).job(), manifest.shards(out)).ledger, None


def what_if(out: Path, sets: Sequence[str]) -> dict[str, Any]:
    """Items and hours kept now and under changed settings, from what is stored."""
    now = runs.settings_of(out, ended_well=True)  # the settings of a refused run were not published
    data = now.model_dump(mode="json")
    for assignment in sets:
        assign(data, assignment)
    then = parse(data)
    weights.check(then.job())
    before, after = kept(now.job(), then.job())
    if after["unmeasured"]:
        raise ConfigError(
            f"{after['unmeasured']} recordings have no stored measures for these settings, which "
            "change what is measured and not only a threshold; use `uttermill run` with them"
        )
    return {
        "now": before,
        "then": after,
        "difference": {
            "items": after["items"] - before["items"],
            "hours": round(after["hours"] - before["hours"], 6),
        },
    }


#: How the names of clip lists end, in any format.
LISTS = ("/data.list", "/wav.scp")


def data_list(dataset: Path, prefix: str | None, split: str | None) -> list[str]:
    """Lines of the clip list: of `wenet`, else of the first format that has one.

    Paths are absolute, or relative ones after `prefix`.
    """
    is_version = storage.exists(dataset / "dataset.json")
    names = datacard.formats_of(versions.described(dataset)) if is_version else {}
    head = (prefix if prefix is not None else str(dataset)).rstrip("/")
    for name in sorted(names, key=lambda name: name != "wenet"):
        module = plugins.load("formats", name)
        lines: list[str] = []
        if module.listing:
            store = storage.of(dataset)
            lists = [name for name in store.tree(dataset) if name.endswith(LISTS)]
            with store.reading(dataset, lists) as home:
                lines = module.listing(home, split or "*", head)
        if lines:
            return lines
    raise ConfigError(f"{dataset} has no list of clips; package it with the format wenet")


def on_shelves() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for shelf in shelves.SHELVES:
        found[shelf] = {}
        for name in shelves.names(shelf):
            text = (plugins.module(shelf, name).__doc__ or "").strip().splitlines()
            found[shelf][name] = {
                "about": text[0] if text else "",
                "settings": sorted(plugins.load(shelf, name).Settings.model_fields),
            }
    return found


def columns() -> dict[str, Any]:
    found = {
        name: [
            {
                "column": f.name,
                "type": str(f.type),
                "unit": (f.metadata or {}).get(b"unit", b"").decode(),
                "meaning": (f.metadata or {}).get(b"doc", b"").decode(),
            }
            for f in table
        ]
        for name, table in schema.TABLES.items()
    }
    found["measures"] = [
        {"column": column, "type": "double", "unit": unit, "meaning": text}
        for shelf in plugins.MEASURING
        for name in shelves.names(shelf)
        for column, (unit, text) in plugins.columns(shelf, name).items()
    ]
    return found
