"""`uttermill doctor`: proofs about the workers' environment, taken on real workers."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import proofs
from flows.cli.proofs import Finding
from flows.cluster import dask_config, facts
from flows.cluster.cluster import Cluster, ClusterSettings
from flows.settings import read
from tasks.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console


def checkup(settings: ClusterSettings, folders: Sequence[str] = ()) -> list[Finding]:
    """Start the cluster (or reach the one of the settings), gather facts from every worker, run
    every proof.

    `folders`: sources and OUT that are here, and that each worker must see at the same path.
    A cluster that does not start is a finding too, as is a worker that cannot answer;
    ConfigError for settings that cannot be met.
    """
    setattr(sys, facts.SENTINEL, True)
    scratch = Path(tempfile.mkdtemp(prefix="uttermill-doctor-"))
    try:
        with Cluster(settings, scratch, gpu=True) as cluster:
            answers: dict[str, Any] = cluster.client.run(facts.gather, on_error="return")
            seen = {f: cluster.client.run(os.path.exists, f, on_error="return") for f in folders}
            scheduler = _scheduler(cluster.client)
    except RunError as error:
        return [Finding("workers", False, str(error))]
    finally:
        delattr(sys, facts.SENTINEL)
        shutil.rmtree(scratch, ignore_errors=True)
    mute = [
        Finding(address, False, f"it cannot say what it has: {answer}; install uttermill there")
        for address, answer in answers.items() if isinstance(answer, Exception)
    ]  # fmt: skip
    workers: facts.Facts = {a: f for a, f in answers.items() if not isinstance(f, Exception)}
    pins = proofs.pinned(workers, settings.workers_per_gpu)
    proven = [proof(workers) for proof in proofs.PROOFS]
    each = proofs.each_worker(workers)
    both = [proofs.scheduler(scheduler), *([proofs.folders(seen)] if seen else [])]
    return [proofs.joined(workers), *mute, *each, *proven, pins, *both]


def _scheduler(client: Any) -> dict[str, Any]:
    """Its configuration, as far as a run depends on it; it may have no uttermill to ask."""
    import dask.config

    return {
        name: client.run_on_scheduler(dask.config.get, f"distributed.scheduler.{name}", None)
        for name in dask_config.DASK_CONFIG["distributed"]["scheduler"]
    }


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table("", "check", "finding", box=None)
    for finding in findings:
        mark = Text("ok", "green") if finding.ok else Text("no", "bold red")
        table.add_row(mark, Text(finding.name), Text(finding.detail))
    console.print(table)


def chosen(path: str | None, sets: Sequence[str]) -> tuple[ClusterSettings, list[str]]:
    """The cluster of a settings file, with `--set` applied, and the folders that it works on, as
    far as they are here; without a file, the default cluster and no folder."""
    if path is None:
        # Whatever stands for sources and OUT: only the cluster is looked at.
        return read(None, ["."], ".", sets).cluster, []
    settings = read(path, [], None, sets)
    folders = [settings.out, *(source.path for source in settings.sources)]
    return settings.cluster, [folder for folder in folders if os.path.exists(folder)]


def doctor(
    as_json: bool, settings: ClusterSettings | None = None, folders: Sequence[str] = ()
) -> int:
    """Exit code 0 when all is well, else 1; one JSON object on stdout, or a table."""
    findings = checkup(settings or ClusterSettings(), folders)
    ok = all(finding.ok for finding in findings)
    if as_json:
        print(json.dumps({"ok": ok, "findings": [asdict(f) for f in findings]}))
    else:
        from rich.console import Console

        show(findings, Console())
    return 0 if ok else 1
