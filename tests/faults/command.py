"""`uttermill` as a user starts it, in a process of its own, elsewhere, with a settings file; and in
the test's process, which has imported everything already.

Every process of a run inherits a token in its environment, so that a test finds each one of them,
whoever its parent is by now.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import yaml

from tests.helpers import corpus, one_process, signals
from tests.plugins import gate
from uttermill.flows import cli
from uttermill.flows.checks import check
from uttermill.flows.run import run_folder
from uttermill.flows.settings import parse
from uttermill.tasks import pipeline

ROOT = Path(__file__).parents[2]
TOKEN = "UTTERMILL_TEST_TOKEN"
#: Seconds; ten times and more what a quiet machine takes.
PATIENCE = 300.0
LONGEST = 600.0  # a command, to its end
GONE = 20.0  # what has ended, with all that it started


def soon(true: Callable[[], Any], seconds: float = PATIENCE, every: float = 0.02) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(every)
    return False


def alive(token: str, tracker: bool = True, variable: str = TOKEN) -> list[psutil.Process]:
    """Every living process with this token in its environment; `tracker`: multiprocessing's own,
    too, which lasts as long as the process that spawned."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            ours = process.environ().get(variable) == token
            if ours and (tracker or "resource_tracker" not in " ".join(process.cmdline())):
                found.append(process)
    return found


@dataclass
class Ended:
    """A run that is over."""

    code: int
    result: dict[str, Any]  # the object on stdout; empty when there was none
    stderr: str
    seconds: float

    @property
    def error(self) -> str:
        return str(self.result.get("error", ""))


def answer(stdout: str) -> dict[str, Any]:
    """The one object that a command with --json prints; empty when there was none."""
    lines = stdout.splitlines()
    assert len(lines) <= 1, f"more than one object on stdout: {lines}"
    return json.loads(lines[0]) if lines else {}


class Started:
    """A run that goes on; use it as a context manager: nothing of it is left after."""

    def __init__(
        self,
        arguments: list[str],
        home: Path,
        environment: dict[str, str],
        interruptible: bool = True,
    ) -> None:
        self.token = uuid4().hex
        self._began = time.monotonic()
        self._stdout, self._stderr = home / f"{self.token}.out", home / f"{self.token}.err"
        sigint = signals.interruptible() if interruptible else signals.uninterruptible()
        with sigint, self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uttermill.flows.cli", *arguments],
                cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**environment, TOKEN: self.token}, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    def stdout(self) -> str:
        return self._stdout.read_text(errors="replace")

    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    def alive(self) -> list[psutil.Process]:
        """Every living process with this run's token."""
        return alive(self.token)

    def workers(self) -> list[psutil.Process]:
        """Dask's workers: what the run spawned, without multiprocessing's tracker."""
        found = []
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children():
                with suppress(psutil.Error):
                    if "spawn_main" in " ".join(child.cmdline()):
                        found.append(child)
        return found

    def kill(self) -> None:
        """-9 to the run's own process, as it is; what belongs to it must find out by itself."""
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> None:
        """Ctrl-C: a terminal sends it to the whole group."""
        os.killpg(self.pid, signal.SIGINT)

    def end(self, timeout: float = LONGEST) -> Ended:
        code = self.process.wait(timeout)
        took = time.monotonic() - self._began
        return Ended(code, answer(self.stdout()), self.stderr(), took)

    def none_left(self, seconds: float = GONE) -> bool:
        return soon(lambda: not self.alive(), seconds, every=0.1)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.alive():
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()


@dataclass
class Site:
    """One folder of recordings and as many OUTs over it as a test wants."""

    home: Path
    api: str
    environment: dict[str, str] = field(default_factory=dict)
    interruptible: bool = True  # whether SIGINT ends its commands
    history: str = ""  # its runs' setting of that name; none: without Prefect, for half of the CPU

    def __post_init__(self) -> None:
        for folder in (self.source, self.gate, self.temp):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def source(self) -> Path:
        return self.home / "in"

    @property
    def gate(self) -> Path:
        """Files in here kill or hold runs; see `tests.plugins.gate`."""
        return self.home / "gate"

    @property
    def temp(self) -> Path:
        """TMPDIR of the runs."""
        return self.home / "tmp"

    def begin_with(self, code: str) -> None:
        """Every interpreter of the runs executes this first; "" for nothing."""
        start = self.home / "start"
        start.mkdir(exist_ok=True)
        (start / "sitecustomize.py").write_text(code)
        self.environment["PYTHONPATH"] = os.pathsep.join([str(start), str(ROOT)])

    def settings(self, out: str | Path, **changes: Any) -> Path:
        """A settings file; a stage's keys replace the ones of here."""
        data: dict[str, Any] = {
            "sources": [
                {"kind": "folder", "path": str(self.source), "name": "c", "expect_broken": True}
            ],
            "out": str(self.home / out),
            "shard": {"settle_seconds": 0, "hours": 0.001},
            "filter": {
                "segmenter": {"use": "whole"},
                "filters": [{"use": "duration"}, {"use": "silence"}, {"use": "clipping"}],
            },
            "transcribe": {"backend": {"use": "fake"}},
            "cluster": {"workers": 1},
            **({"history": self.history} if self.history else {}),
        }
        for name, value in changes.items():
            mapping = isinstance(value, dict) and isinstance(data.get(name), dict)
            data[name] = {**data[name], **value} if mapping else value
        path = self.home / f"{uuid4().hex}.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    @property
    def _environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.temp), gate.VARIABLE: str(self.gate), **self.environment}
        # Without it a run starts a server of its own.
        return {**own, "PREFECT_API_URL": self.api} if self.api else own

    def start(self, *arguments: str | Path) -> Started:
        """Any command in a process of its own, which can be killed."""
        words = [str(a) for a in arguments]
        return Started(words, self.home, self.surroundings(), self.interruptible)

    def surroundings(self) -> dict[str, str]:
        """The whole environment of its processes."""
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
        return {**os.environ, "PYTHONPATH": path, **self._environment}

    def apart(self, *arguments: str | Path, seconds: float = LONGEST) -> Ended:
        """Any command in a process of its own, to its end; nothing of it may be left then."""
        with self.start(*arguments, "--json") as started:
            ended = started.end(seconds)
            assert started.none_left(), started.alive()
        return ended

    def command(self, *arguments: str | Path) -> Ended:
        """The same in this process, where it can."""
        if self._needs_a_process:
            return self.apart(*arguments)
        began, token = time.monotonic(), uuid4().hex
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, ExitStack() as scope:
            one_process.holds(patch)
            for name, value in {**self._environment, TOKEN: token}.items():
                patch.setenv(name, value)
            patch.setattr(tempfile, "tempdir", self._environment["TMPDIR"])
            if self.api:
                from uttermill.flows.server.server import (
                    using,  # it imports Prefect, which takes a second
                )

                scope.enter_context(using(self.api))
            scope.enter_context(redirect_stdout(out))
            scope.enter_context(redirect_stderr(err))
            code = cli.main([*map(str, arguments), "--json"])
        assert soon(lambda: not alive(token, tracker=False), GONE, every=0.1), alive(token)
        return Ended(code, answer(out.getvalue()), err.getvalue(), time.monotonic() - began)

    def undisturbed(self, settings: Path) -> Path:
        """OUT of what these settings give without Prefect, workers and deaths, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value)
            job = check(parse(yaml.safe_load(settings.read_text())))
            pipeline.run_here(job)
        return job.out

    @property
    def _needs_a_process(self) -> bool:
        """Whether Python starts otherwise than in the tests, or Prefect has other settings, which
        it reads when it is imported. All others have 1.5 s of CPU less in the test's process, which
        has imported everything, and 3 s with Prefect."""
        own_start = {"PYTHONPATH", "PREFECT_HOME"} & self.environment.keys()
        return bool(own_start) or not (self.api or self.history == "none")

    def run(self, settings: Path) -> Ended:
        return self.command("run", settings)

    def done(self, settings: Path) -> Ended:
        """A run that has to end well."""
        ended = self.run(settings)
        assert ended.code == 0, ended.stderr
        return ended


# What a run leaves


def ledger(out: Path) -> list[dict[str, Any]]:
    return corpus.ledger(out / "datasets/latest")


def quarantined(out: Path) -> dict[str, tuple[str, str]]:
    """Recording: (stage, reason) of each one that failed."""
    return {
        row["recording"]: (row["stage"], row["reason"])
        for row in ledger(out) if row["outcome"] == "failed"
    }  # fmt: skip


def packaged(out: Path) -> set[str]:
    return {row["recording"] for row in ledger(out) if row["outcome"] == "packaged"}


def computed(ended: Ended) -> dict[str, int]:
    return {name: entry["items_computed"] for name, entry in ended.result["stages"].items()}


def differences(one: Path, other: Path) -> list[str]:
    """Files under `datasets/` of two OUTs that are not the same, byte for byte."""
    left, right = (corpus.content(out / "datasets/v0001") for out in (one, other))
    names = sorted({*left, *right})
    faults = [name for name in names if left.get(name) != right.get(name)]
    versions = [sorted(p.name for p in (out / "datasets").iterdir()) for out in (one, other)]
    if versions[0] != versions[1]:
        faults.append(f"{versions[0]} against {versions[1]}")
    if not left:
        faults.append("nothing was published")
    return faults


# What Prefect knows


def _post(api: str, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    from prefect.client.orchestration import get_client  # it takes a second

    from uttermill.flows.server.server import using

    with using(api), get_client(sync_client=True) as client:
        where: Any = path
        found: list[dict[str, Any]] = client.request("POST", where, json=body).json()
    return found


def _pages(api: str, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at = 0
    while page := _post(api, path, {**body, "limit": 200, "offset": at, "sort": "ID_DESC"}):
        yield from page
        at += len(page)


def flow_runs(api: str, out: Path) -> list[dict[str, Any]]:
    """Flow runs of an OUT."""
    which = {"flow_runs": {"id": {"any_": [*run_folder.last_flow_runs(out)]}}}
    return list(_pages(api, "/flow_runs/filter", which))


def task_runs(api: str, out: Path) -> list[dict[str, Any]]:
    """Task runs of all runs of an OUT."""
    which = {"flow_runs": {"id": {"any_": [run["id"] for run in flow_runs(api, out)]}}}
    return list(_pages(api, "/task_runs/filter", which))


def still_open(api: str, out: Path) -> list[str]:
    """Flow and task runs of an OUT that Prefect believes to be going on."""
    final = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
    return [
        f"{run['name']}: {run['state_type']}"
        for run in (*flow_runs(api, out), *task_runs(api, out)) if run["state_type"] not in final
    ]  # fmt: skip
