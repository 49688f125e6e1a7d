"""`uttermill doctor`: proofs about the workers' environment, taken on real workers."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from flows import facts, proofs
from flows.cluster import Cluster, ClusterSettings
from flows.proofs import Finding
from tasks.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console


def checkup(settings: ClusterSettings) -> list[Finding]:
    """Start the cluster, gather facts from every worker, run every proof.

    A cluster that does not start is a finding too; ConfigError for settings that cannot be met.
    """
    setattr(sys, facts.SENTINEL, True)
    scratch = Path(tempfile.mkdtemp(prefix="uttermill-doctor-"))
    try:
        with Cluster(settings, scratch, gpu=True) as cluster:
            workers: facts.Facts = cluster.client.run(facts.gather)
    except RunError as error:
        return [Finding("workers", False, str(error))]
    finally:
        delattr(sys, facts.SENTINEL)
        shutil.rmtree(scratch, ignore_errors=True)
    joined = Finding("workers", bool(workers), f"{len(workers)} joined")
    pins = proofs.pinned(workers, settings.workers_per_gpu)
    proven = [proof(workers) for proof in proofs.PROOFS]
    return [joined, *proofs.each_worker(workers), *proven, pins]


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("", "check", "finding", box=None)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[bold red]no[/]"
        table.add_row(mark, finding.name, escape(finding.detail))
    console.print(table)


def doctor(as_json: bool, settings: ClusterSettings | None = None) -> int:
    """Exit code 0 when all is well, else 1; one JSON object on stdout, or a table."""
    findings = checkup(settings or ClusterSettings())
    ok = all(finding.ok for finding in findings)
    if as_json:
        print(json.dumps({"ok": ok, "findings": [asdict(f) for f in findings]}))
    else:
        from rich.console import Console

        show(findings, Console())
    return 0 if ok else 1
