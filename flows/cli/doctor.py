"""`uttermill doctor`: proves the environment of real workers."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from dask.config import get
from rich.text import Text

from ...tasks import storage
from ...tasks.base.errors import RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.plugins import source_code
from ...tasks.runs import likeness
from ...tasks.settings.job import Job
from ..cluster import local, proofs, worker
from ..cluster.cluster import Cluster
from ..cluster.proofs import Finding
from ..cluster.settings import ClusterSettings
from ..run import run_folder
from ..settings import read
from .printing import Exit, print_answer
from .show.tables import Line, table

LONGEST_S = 600.0  # that a worker may take to load and try a job's plug-ins

#: What its workers load; None: all engines.
ENGINES: dict[str, str] | None = None


@dataclass(frozen=True)
class Places:
    """Sources on this machine, which each worker must see at the same path; OUT, to which each must
    be able to write (None: not to be checked); and the `job` that they are to compute."""

    sources: tuple[str, ...] = ()
    out: Path | None = None
    job: Job | None = field(default=None, compare=False)


def checkup(settings: ClusterSettings, places: Places) -> list[Finding]:
    """Start the cluster (or connect to that of the settings), gather facts from every worker, and
    run every proof. A cluster that does not start and a worker that cannot answer are findings too;
    ConfigError for settings that cannot be met."""
    try:
        with (
            run_folder.scratch() as scratch,
            Cluster(settings, scratch / "workers", gpu=True, engines=ENGINES) as cluster,
        ):
            wanted = cluster.await_all()
            ask = partial(cluster.client.run, on_error="return")
            answers: JsonObject = ask(proofs.gather)
            seen = {folder: ask(os.path.exists, folder) for folder in places.sources}
            out = [_out(places.out, ask)] if places.out else []
            # Read with Dask's own function: the scheduler may have no uttermill.
            scheduler = {
                name: cluster.client.run_on_scheduler(get, f"distributed.scheduler.{name}", None)
                for name in local.DASK_CONFIG["distributed"]["scheduler"]
            }
            reporting = [a for a, answer in answers.items() if not isinstance(answer, Exception)]
            of_job = [*_of_job(cluster.client, reporting, places.job, settings)]
    except RunError as error:
        return [Finding("workers", False, str(error))]
    silent = [
        Finding(
            address,
            False,
            f"the worker did not report its installation: {answer}; install uttermill there",
        )
        for address, answer in answers.items()
        if isinstance(answer, Exception)
    ]
    workers: proofs.Facts = {a: f for a, f in answers.items() if not isinstance(f, Exception)}
    pins = proofs.pinned(workers, settings.workers_per_gpu)
    proven = [proof(workers) for proof in proofs.PROOFS]
    of_workers = proofs.each_worker(workers)
    both = [
        proofs.memory(),
        proofs.scheduler(scheduler, local.DASK_CONFIG["distributed"]["scheduler"]),
        *([proofs.folders(seen)] if seen else []),
        *out,
        *of_job,
    ]
    return [proofs.joined(workers, wanted), *silent, *of_workers, *proven, pins, *both]


def _of_job(
    client: Any, workers: Sequence[str], job: Job | None, settings: ClusterSettings
) -> Iterator[Finding]:
    if job is None:
        return
    calls = {
        address: client.submit(
            worker.trusting(proofs.computing), job, workers=[address], pure=False
        )
        for address in workers
    }
    computing: dict[str, proofs.Computing] = {}
    for address, call in calls.items():
        try:
            computing[address] = call.result(timeout=LONGEST_S)
        except Exception as error:  # any error raised on the worker
            yield Finding(address, False, f"it could not report its code and libraries: {error}")
    yield proofs.models(computing)
    if settings.kind != "local":  # its workers are processes of this installation
        ours, files = likeness.of_this_process(job), source_code.by_file(job)
        yield proofs.alike(computing, ours, files, settings.mixed)


def _out(out: Path, ask: Callable[..., Any]) -> Finding:
    """Whether each worker can write to a new folder where OUT is, or will be."""
    home = next(place for place in (out, *out.parents) if place.is_dir())
    try:
        # Its name marks it as a file being written (`local.is_temporary`).
        with tempfile.TemporaryDirectory("x.tmp", ".", home) as folder:
            return proofs.out(out, ask(os.access, folder, os.W_OK))
    except OSError as error:
        return Finding("OUT", False, f"{out} cannot be written to from here: {error.strerror}")


def show(findings: list[Finding]) -> Iterator[Line]:
    marks = {True: Text("ok", "green"), False: Text("no", "bold red")}
    rows = ((marks[finding.ok], finding.name, finding.detail) for finding in findings)
    yield table("", ("", "check", "finding"), rows)


def chosen(path: str | None, sets: Sequence[str]) -> tuple[ClusterSettings, Places]:
    """The cluster of a settings file, with `--set` applied, and its places; default without a
    file."""
    if path is None:
        # Any source and OUT will do: only the cluster is used.
        return read(None, ["."], ".", sets).cluster, Places()
    settings = read(path, [], None, sets)
    job = settings.job()
    sources = tuple(s.path for s in settings.sources if os.path.exists(s.path))
    out = None if storage.store_of(job.out).remote else job.out
    return settings.cluster, Places(sources, out, job)


def doctor(args: argparse.Namespace, settings: ClusterSettings, places: Places) -> Exit:
    """Print the findings, as every command prints its answer; `Exit.FAILED` when one is bad."""
    findings = checkup(settings, places)
    ok = all(finding.ok for finding in findings)
    answer = {"ok": ok, "findings": [asdict(f) for f in findings]}
    print_answer(args, answer, lambda _: show(findings))
    return Exit.DONE if ok else Exit.FAILED
