"""Workers on two other hosts, started from the command line: what a site with Dask does.

They share one folder with the run and nothing else: no /tmp, no network namespace, no working
directory, no `sys.path`. The recogniser is a server that the run's machine offers to them.
"""

import hashlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.asr.test_openai_api import Request, Stub
from tests.e2e import hosts
from tests.faults.command import PATIENCE, Ended, Site, differences, packaged, soon
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from tests.laws.test_names import OTHER_LOCALE
from uttermill.flows.cluster import workers
from uttermill.flows.cluster.cluster import Cluster as Handle
from uttermill.flows.cluster.settings import ClusterSettings

pytestmark = [
    pytest.mark.server, pytest.mark.cluster,
]  # fmt: skip

CONFIG = str(hosts.ROOT / "infra/dask.yaml")
COUNT = 10


def words(request: Request) -> str:
    """What the server hears: the same for the same samples."""
    return f"word{int(hashlib.sha256(request.wav).hexdigest()[:6], 16)} " * 3


def end(worker: subprocess.Popen[bytes]) -> None:
    """A nanny and its worker, at once."""
    with suppress(psutil.Error):
        for process in (found := psutil.Process(worker.pid)).children(recursive=True):
            process.kill()
        found.kill()
    worker.wait()


@dataclass
class Cluster:
    """A scheduler on this machine and a worker on each host, as two shells would start them."""

    site: hosts.Site
    home: Path
    address: str = ""
    scheduler: subprocess.Popen[bytes] | None = None
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    client: Any = None  # of Dask, untyped; kept, as most questions are asked again and again

    def start(self) -> None:
        file = self.home / "scheduler.json"
        with (self.home / "scheduler.log").open("wb") as log:
            self.scheduler = subprocess.Popen(
                [hosts.DASK, "scheduler", "--host", self.site.address, "--port", "0",
                 "--no-dashboard", "--dashboard-address", f"{self.site.address}:0",
                 "--scheduler-file", str(file)],
                cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.environ["PATH"], "DASK_CONFIG": CONFIG}, start_new_session=True,
            )  # fmt: skip
        assert soon(file.exists)
        self.address = json.loads(file.read_text())["address"]

    def worker(self, host: hosts.Host, name: str, **environment: str) -> subprocess.Popen[bytes]:
        own = [] if self.site.real else ["--host", host.address]
        started = host.start(
            hosts.DASK, "worker", self.address, "--nworkers", "1", "--nthreads", "1",
            "--no-dashboard", "--memory-limit", "3GB", "--name", name, *own, **environment,
        )  # fmt: skip
        self.workers[name] = started
        return started

    def there(self) -> dict[str, str]:
        """Addresses of the workers by their names, as the scheduler has them."""

        def known(dask_scheduler: Any) -> dict[str, str]:
            return {str(w.name): w.address for w in dask_scheduler.workers.values()}

        if self.client is None:
            from distributed import Client

            made: Any = Client  # untyped
            self.client = made(self.address, set_as_default=False)
        found: dict[str, str] = self.client.run_on_scheduler(known)
        return found

    def whole(self) -> None:
        """Both hosts are there with their good worker, and nobody else."""
        good = {host.name for host in self.site.hosts}
        for name in set(self.workers) - good:
            end(self.workers.pop(name))
        for host in self.site.hosts:
            host.cable("up")
            if host.name not in self.workers or self.workers[host.name].poll() is not None:
                self.worker(host, host.name, DASK_CONFIG=CONFIG)
        assert soon(lambda: set(self.there()) == good, every=0.3), self.said()

    def said(self) -> str:
        return "\n".join(p.read_text(errors="replace") for p in self.home.glob("*.log"))

    def stop(self) -> None:
        if self.client is not None:
            self.client.close()
        if self.scheduler is not None:
            self.scheduler.send_signal(signal.SIGKILL)
            self.scheduler.wait()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("hosts")
    (home / "shared").mkdir()
    with hosts.site(home, 2, [home / "shared"]) as site:
        cluster = Cluster(site, home)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def cluster(made: Cluster) -> Cluster:
    made.whole()
    return made


@pytest.fixture(scope="module")
def asr(made: Cluster) -> Iterator[Stub]:
    stub = Stub(made.site.address)
    stub.answer = lambda request: (200, {"text": words(request)})
    yield stub
    stub.close()


@pytest.fixture(scope="module")
def site(made: Cluster, asr: Stub, prefect_server: Server) -> Site:
    """Its runs have a TMPDIR that no host sees; they do without Prefect, of which no host hears,
    unless a test asks for it."""
    here = made.home / "here"
    here.mkdir()
    run = Site(made.home / "shared", prefect_server.url, {"TMPDIR": str(here)}, history="none")
    corpus.make(run.source, COUNT)
    return run


def settings(site: Site, out: str, asr: Stub, history: str = "none", **cluster: Any) -> Path:
    backend = {"use": "openai_api", "url": asr.url, "model": "m", "parallel": 1}
    texts = {"backend": backend, "verdicts": [{"use": "empty_text"}]}
    return site.settings(out, transcribe=texts, cluster=cluster, history=history)


@pytest.fixture(scope="module")
def quiet(site: Site, asr: Stub) -> Path:
    """OUT of what nobody disturbs, made here."""
    out = site.undisturbed(settings(site, "quiet", asr))
    assert len(packaged(out)) == COUNT
    return out


def findings(examined: Ended) -> dict[str, str]:
    """The doctor's words by the name of the finding, of those that are wrong where any is."""
    found = examined.result["findings"]
    wrong = [finding for finding in found if not finding["ok"]]
    return {finding["name"]: finding["detail"] for finding in wrong or found}


def left(made: Cluster) -> list[str]:
    """What hosts keep on their own disks besides Dask's folders of living workers."""
    return [
        str(path)
        for host in made.site.hosts
        for path in host.disk.rglob("*")
        if path.is_file() and ("uttermill" in str(path) or path.suffix in (".pcm", ".parquet"))
    ]


def test_the_whole_line_runs_there(cluster: Cluster, site: Site, asr: Stub, quiet: Path) -> None:
    chosen = settings(site, "there", asr, "server", kind="address", address=cluster.address)
    examined = site.command("doctor", chosen)
    assert examined.code == 0, examined.result
    said = findings(examined)
    names = ["1 host"] if not cluster.site.real else ["2 hosts", "host-a (1)", "host-b (1)"]
    assert all(name in said["workers"] for name in names), said["workers"]
    for host in cluster.site.hosts:
        assert host.address in said[host.name]
        assert host.name in said[host.name] or not cluster.site.real
    assert "seen by each worker" in said["folders"]
    ended = site.done(chosen)
    assert differences(site.home / "there", quiet) == []
    assert ended.result["deaths"] == {"deaths": 0, "timeouts": 0, "isolated": 0}
    assert corpus.temps(site.home / "there") == []
    assert left(cluster) == []
    assert list((cluster.home / "here").glob("uttermill-*")) == []
    again = site.done(chosen)  # nothing is left to do, and nobody is asked
    assert all(stage["items_computed"] == 0 for stage in again.result["stages"].values())


@pytest.mark.nightly
def test_workers_that_are_not_fit_are_refused(
    cluster: Cluster, site: Site, asr: Stub, quiet: Path
) -> None:
    one, other = cluster.site.hosts
    other_version = site.home / "other/uttermill-9.9.dist-info"
    other_version.mkdir(parents=True)
    (other_version / "METADATA").write_text("Name: uttermill\nVersion: 9.9\n")
    cluster.worker(one, "bare")
    cluster.worker(other, "old", DASK_CONFIG=CONFIG, PYTHONPATH=str(other_version.parent))
    # What the client of a local cluster sets: such a worker compares by itself, and ends.
    alone = cluster.worker(one, "alone", DASK_CONFIG=CONFIG, UTTERMILL_VERSION="9.9")
    ascii_only = cluster.worker(other, "ascii", DASK_CONFIG=CONFIG, **OTHER_LOCALE)
    assert soon(lambda: {"bare", "old"} <= set(cluster.there()), every=0.3)
    there = cluster.there()
    bare = f"worker {there['bare']} gets no work: it was started without the preload; start it with"
    old = f"worker {there['old']} gets no work: it has uttermill 9.9, and this is "
    chosen = settings(site, "chosen", asr, kind="address", address=cluster.address)

    ended = site.done(chosen)  # on the two that are fit
    assert bare in ended.stderr
    assert old in ended.stderr
    assert ended.stderr.count("gets no work") == 2
    assert differences(site.home / "chosen", quiet) == []
    reached = ClusterSettings(kind="address", address=cluster.address)
    with Handle(reached, site.home / "scratch") as handle:
        bad = {
            process.pid
            for name in ("bare", "old")
            for process in psutil.Process(cluster.workers[name].pid).children(recursive=True)
        }
        calls = [handle.submit(os.getpid) for _ in range(12)]
        assert not {call.result() for call in calls} & bad

    examined = site.command("doctor", chosen)
    said = findings(examined)
    assert examined.code == 1
    assert f"{there['bare']} (no preload before it joined)" in said["preload"]
    assert there["bare"] in said["thread caps"]
    assert f"{there['old']} uttermill 9.9 (here" in said["versions"]

    assert alone.wait(PATIENCE) != 0
    assert "this worker has uttermill" in cluster.said()
    assert "and the client 9.9; install 9.9 here" in cluster.said()
    assert ascii_only.wait(PATIENCE) != 0
    assert "this worker reads names of files as ascii; start it with PYTHONUTF8=1" in cluster.said()
    assert not {"alone", "ascii"} & {*cluster.there()}

    for host in cluster.site.hosts:
        end(cluster.workers.pop(host.name))
    assert soon(lambda: set(cluster.there()) == {"bare", "old"}, every=0.3)
    refused = site.run(settings(site, "none", asr, kind="address", address=cluster.address))
    assert refused.code == 1
    assert refused.error.startswith("no worker of the Dask cluster can work for this run: ")
    assert f"{there['bare']}: it was started without the preload" in refused.error
    assert f"{there['old']}: it has uttermill 9.9" in refused.error


@pytest.mark.nightly
def test_a_host_that_does_not_see_out_is_refused(
    cluster: Cluster, site: Site, asr: Stub, tmp_path: Path
) -> None:
    if not cluster.site.real:  # the same disk for all; the answer is tested with a made-up one
        assert "cannot write to OUT" in (workers.fault(version("uttermill"), 1.0, False) or "")
        return
    hidden = Site(tmp_path, site.api, history="none")
    corpus.make(hidden.source, 2)
    chosen = settings(hidden, "out", asr, kind="address", address=cluster.address)
    refused = hidden.run(chosen)
    assert refused.code == 1
    assert refused.error.count("it cannot write to OUT; OUT has to be a folder that") == 2
    assert list((tmp_path / "out/datasets").glob("*")) == []
    assert "does not see" in findings(hidden.command("doctor", chosen))["folders"]


@pytest.mark.nightly
def test_a_host_that_is_lost_in_the_middle_loses_nothing(
    cluster: Cluster, site: Site, asr: Stub, quiet: Path
) -> None:
    """A call of each host is at the recogniser when one of them falls silent for ever."""
    on = threading.Event()
    plain = asr.answer

    def held(request: Request) -> Any:
        on.wait(120)
        return plain(request)

    asr.answer = held
    try:
        chosen = settings(site, "lost", asr, kind="address", address=cluster.address)
        with site.start("run", chosen, "--json") as run:
            assert soon(lambda: asr.busy == 2 or run.process.poll() is not None), run.stderr()
            assert asr.busy == 2, run.stderr()
            cluster.site.hosts[1].lose()
            on.set()
            ended = run.end()
            assert run.none_left(), run.alive()
    finally:
        on.set()
        asr.answer = plain
    assert ended.code == 0, ended.stderr
    assert ended.result["deaths"] == {"deaths": 1, "timeouts": 0, "isolated": 0}
    assert differences(site.home / "lost", quiet) == []
    assert site.command("verify", site.home / "lost").code == 0
