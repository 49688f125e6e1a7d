"""Reopen everything that a dataset version holds, and name every fault (`uttermill verify`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks import plugins, storage
from tasks.accounting import summary
from tasks.dataset import datacard
from tasks.errors import ConfigError, RunError
from tasks.formats import Hashes, Output, OutputShard
from tasks.packaging import format_rows, layout, splits
from tasks.storage import tables


def verify(version: Path) -> list[str]:
    """Faults in words, empty when the version is whole. ConfigError when it is no version."""
    try:
        text = storage.read(version / "dataset.json")
    except FileNotFoundError:
        raise ConfigError(
            f"{version} holds no dataset.json; give a folder like OUT/datasets/latest"
        ) from None
    try:
        described: dict[str, Any] = json.loads(text)
        files: dict[str, dict[str, Any]] = described["files"]
        faults = [] if datacard.intact(text, described[datacard.SEAL]) else ["it was changed"]
        faults = [f"dataset.json is not what was published: {fault}" for fault in faults]
        faults += _files(version, files)
    except RunError:  # a store that is away is no fault of the version
        raise
    except Exception as error:  # any way in which a damaged file can fail is a fault of it
        return [f"dataset.json is damaged: {error!r}"]
    try:
        rows = tables.read(version / "utterances.parquet")
        ledger = tables.read(version / "ledger.parquet")
        faults += _counts(described, rows, ledger)
        if splits.FILE in files:
            faults += splits.faults(rows, tables.read(version / splits.FILE))
        faults += _contents(version, described, rows)
    except RunError:
        raise
    except Exception as error:
        faults.append(f"a table cannot be read, or lacks something: {error!r}")
    return faults


def _files(version: Path, files: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Every file is there with its hash, and there is no other."""
    there = {*storage.of(version).tree(version)} - {"dataset.json"}
    for name in sorted(there - set(files)):
        yield f"{name} is there, but dataset.json does not name it"
    for name, entry in sorted(files.items()):
        if name not in there:
            yield f"{name} is missing"
        elif storage.hashed(version / name) != (entry["sha256"], entry["bytes"]):
            yield f"{name} is not the file that was published (hash or size differs)"


def _counts(described: dict[str, Any], rows: pa.Table, ledger: pa.Table) -> list[str]:
    """Ledger, utterances and dataset.json tell the same story."""
    faults = []
    counts = summary.of_ledger(ledger)
    for name, value in counts.items():
        if described[name] != value:
            faults.append(f"dataset.json's {name} are not those of the ledger")
    outcomes = ("packaged", "dropped", "failed", "non_speech", "unsegmented")
    if abs(sum(counts["seconds"][name] for name in outcomes) - counts["seconds"]["in"]) > 1e-3:
        faults.append("the ledger's outcomes do not add up to what came in")
    packaged = {
        row["utterance"]
        for row in ledger.select(["utterance", "outcome"]).to_pylist()
        if row["outcome"] == "packaged"
    }
    ids = rows["id"].to_pylist()
    if len(set(ids)) != len(ids):
        faults.append("an id stands twice in utterances.parquet")
    if packaged != set(ids):
        faults.append("utterances.parquet and the ledger differ in what was packaged")
    return faults


def _known(described: dict[str, Any], shard: OutputShard) -> Hashes:
    """What its files were when they were published; `_files` has compared them."""
    files = {path: described["files"][path] for path in shard.files if path in described["files"]}
    return {path: (entry["sha256"], entry["bytes"]) for path, entry in files.items()}


def _contents(version: Path, described: dict[str, Any], table: pa.Table) -> list[str]:
    """Every format reads back: order, texts, decoded samples."""
    faults = []
    groups = layout.groups_of(table)
    for plugin in datacard.formats_of(described).values():
        module, settings = plugins.resolve("formats", plugin)
        whole, _ = format_rows.with_derived(module, settings, table)
        for index, (split, number, first, count) in enumerate(groups):
            rows = whole.slice(first, count)
            files = module.files(split, number, format_rows.visible(module, rows), settings)
            shard = OutputShard(plugin.use, split, number, index, count, tuple(files))
            try:
                with storage.of(version).reading(version, shard.files) as home:
                    out = Output(home, _known(described, shard))
                    given = format_rows.rows_for(module, rows)
                    faults += module.check(shard, given, out, settings)
            except RunError:
                raise
            except Exception as error:  # any way in which a damaged file can fail is a fault of it
                faults.append(f"{shard.path} cannot be read: {error}")
    return faults
