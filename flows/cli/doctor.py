"""`uttermill doctor`: proves the environment of real workers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from flows.cli import doctor_checks
from flows.cli.doctor_checks import Finding
from flows.cli.printing import Exit, print_answer
from flows.cli.show.tables import Line, table
from flows.cluster import dask_config, doctor_facts
from flows.cluster.cluster import Cluster
from flows.cluster.settings import ClusterSettings
from flows.run import run_folder
from flows.settings import read
from tasks.base.errors import RunError
from tasks.base.json_types import JsonObject


def checkup(settings: ClusterSettings, folders: Sequence[str]) -> list[Finding]:
    """Start the cluster (or connect to that of the settings), gather facts from every worker, and
    run every proof.

    `folders`: sources and OUT that exist here, and that each worker must see at the same path.
    A cluster that does not start and a worker that cannot answer are findings too; ConfigError
    for settings that cannot be met.
    """
    setattr(sys, doctor_facts.SENTINEL, True)  # removed below; a worker that has it was forked
    try:
        with (
            run_folder.scratch() as scratch,
            Cluster(settings, scratch / "workers", gpu=True) as cluster,
        ):
            answers: JsonObject = cluster.client.run(doctor_facts.gather, on_error="return")
            seen = {f: cluster.client.run(os.path.exists, f, on_error="return") for f in folders}
            scheduler = _scheduler(cluster.client)
    except RunError as error:
        return [Finding("workers", False, str(error))]
    finally:
        delattr(sys, doctor_facts.SENTINEL)
    silent = [
        Finding(
            address,
            False,
            f"the worker did not report its installation: {answer}; install uttermill there",
        )
        for address, answer in answers.items()
        if isinstance(answer, Exception)
    ]
    workers: doctor_facts.Facts = {a: f for a, f in answers.items() if not isinstance(f, Exception)}
    pins = doctor_checks.pinned(workers, settings.workers_per_gpu)
    proven = [proof(workers) for proof in doctor_checks.PROOFS]
    of_workers = doctor_checks.each_worker(workers)
    both = [
        doctor_checks.memory(),
        doctor_checks.scheduler(scheduler),
        *([doctor_checks.folders(seen)] if seen else []),
    ]
    return [doctor_checks.joined(workers), *silent, *of_workers, *proven, pins, *both]


def _scheduler(client: Any) -> JsonObject:
    """The scheduler's configuration, as far as a run depends on it.

    Asked by Dask's own function: the scheduler may have no uttermill.
    """
    import dask.config

    return {
        name: client.run_on_scheduler(dask.config.get, f"distributed.scheduler.{name}", None)
        for name in dask_config.DASK_CONFIG["distributed"]["scheduler"]
    }


def show(findings: list[Finding]) -> Iterator[Line]:
    """The findings as a table."""
    marks = {True: Text("ok", "green"), False: Text("no", "bold red")}
    rows = ((marks[finding.ok], finding.name, finding.detail) for finding in findings)
    yield table("", ("", "check", "finding"), rows)


def chosen(path: str | None, sets: Sequence[str]) -> tuple[ClusterSettings, list[str]]:
    """The cluster of a settings file, with `--set` applied, and those of its folders that exist
    here; without a file, the default cluster and no folder."""
    if path is None:
        # Any source and OUT will do: only the cluster is used.
        return read(None, ["."], ".", sets).cluster, []
    settings = read(path, [], None, sets)
    folders = [settings.out, *(source.path for source in settings.sources)]
    return settings.cluster, [folder for folder in folders if os.path.exists(folder)]


def doctor(args: argparse.Namespace, settings: ClusterSettings, folders: Sequence[str]) -> Exit:
    """Print the findings, as every command prints its answer; `Exit.FAILED` when one is bad."""
    findings = checkup(settings, folders)
    ok = all(finding.ok for finding in findings)
    answer = {"ok": ok, "findings": [asdict(f) for f in findings]}
    print_answer(args, answer, lambda _: show(findings))
    return Exit.DONE if ok else Exit.FAILED
