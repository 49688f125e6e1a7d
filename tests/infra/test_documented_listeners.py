"""Each command that a page tells listens where the page says, and nowhere else.

They run as they are written, in a network of their own, whose loopback has the pages' addresses.
"""

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.command import PATIENCE, Site, soon
from tests.helpers import corpus, prefect_database, tiers
from tests.helpers.listeners import LOOPBACK, Place
from tests.helpers.namespaces import Network, network
from tests.infra.test_infra import commands
from uttermill.flows.cli.command_line import parser as command_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("flows/**/*.md"),
        *ROOT.glob("infra/*.md"),
        *ROOT.glob("infra/[!p]*/*.md"),
    }
)
#: Addresses of the pages' machines.
FIRST, SECOND = "10.0.0.1", "10.0.0.2"
SCHEDULER, WORKER, SERVER = ("dask", "scheduler"), ("dask", "worker"), ("prefect", "server")
#: What listens, and what does not; `run`, `estimate` and `doctor`: see `test_strangers.py`.
STARTED = {SCHEDULER, WORKER, SERVER, ("uttermill", "serve"), ("uttermill", "explore")}
QUIET = {("prefect", words) for words in ("work-pool", "--no-prompt", "worker")}

Command = tuple[str, list[str]]  # where it stands, and its words


def written() -> Iterator[Command]:
    """Every command of dask, prefect and uttermill on the pages, without variables before it."""
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        lines += re.findall(r"`([^`\n]+)`", text)
        for line in lines:
            match = re.search(r"(?:^|\s)((?:dask|prefect|uttermill) [^#]*)", line)
            if match and not re.match(r"(docker|pip|ssh) ", line) and "[" not in line:
                words = shlex.split(match[1].replace("…", ""))
                yield str(page.relative_to(ROOT)), words


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / "infra" / name).read_text())


def started(kind: tuple[str, str], place: str = "") -> list[Command]:
    """Commands of a kind, at places that begin so."""
    return [
        (where, words)
        for where, words in (*written(), *commands())
        if tuple(words[:2]) == kind and where.startswith(place)
    ]


def test_every_command_is_known() -> None:
    """A new one that may listen is to be started here, too."""
    (verbs,) = (a.choices for a in command_parser()._actions if a.dest == "command")
    quiet = QUIET | {("uttermill", verb) for verb in (*(verbs or ()), "<command>")}
    found = {tuple(words[:2]) for _, words in (*written(), *commands())}
    assert found >= STARTED
    assert found - STARTED - quiet == set()
    assert {where.split()[0] for kind in (SCHEDULER, WORKER) for where, _ in started(kind)} == {
        "infra/README.md", "infra/cloud.md", "compose", "k8s",
    }  # fmt: skip


@pytest.fixture
def net() -> Iterator[Network]:
    with network(FIRST, SECOND) as made:
        yield made


def one(kind: tuple[str, str], place: str) -> str:
    """The command of a kind that a place has, for one worker."""
    ((_, words),) = started(kind, place)
    named = {"dask-scheduler": FIRST, "SCHEDULER": FIRST, "$(DASK_WORKER_NAME)": "w"}
    for old, new in named.items():
        words = [word.replace(old, new) for word in words]
    if "--nworkers" in words:
        words[words.index("--nworkers") + 1] = "1"
    return shlex.join(words)


def listening(net: Network, home: Path, command: str, said: str, **more: str) -> set[Place]:
    """What a command adds to the listeners until it says something."""
    before = net.listeners()
    config = {"DASK_CONFIG": str(ROOT / "infra/dask.yaml"), "PYTHONPATH": str(ROOT)}
    process = net.start(command, home, **config, **more)
    told = soon(lambda: said in log(net, home) or process.poll() is not None, every=0.2)
    assert told and process.poll() is None, log(net, home)  # noqa: PT018
    return net.listeners() - before


def log(net: Network, home: Path) -> str:
    """What the last command said."""
    return (home / f"{len(net.started) - 1}.log").read_text()


def beyond(places: set[Place]) -> set[int]:
    """Ports that others than the loopback reach."""
    return {port for host, port in places if host not in LOOPBACK}


@pytest.mark.cluster
@pytest.mark.nightly
def test_machines_by_hand(net: Network, tmp_path: Path) -> None:
    page = (ROOT / "infra/README.md").read_text()
    (openssl,) = re.findall(r"^openssl .*?[^\\]$", page, re.M | re.S)
    subprocess.run(["sh", "-ec", openssl], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    scheduler = listening(net, tmp_path, one(SCHEDULER, "infra/README"), "Scheduler at")
    assert {host for host, _ in scheduler} == {FIRST, "127.0.0.1"}
    assert beyond(scheduler) == {8786}
    worker = listening(net, tmp_path, one(WORKER, "infra/README"), "Registered to")
    assert {host for host, _ in worker} == {SECOND, "127.0.0.1"}
    assert len(beyond(worker)) == 2  # nanny and worker
    of_an_array = listening(net, tmp_path, one(WORKER, "infra/cloud"), "Registered to")
    assert len(beyond(of_an_array)) == 2  # the same, on all addresses of its container
    # The settings of the page reach them, and nobody without a certificate does.
    (cluster,) = re.findall(r"^```\n(cluster:\n.*?)^```", page, re.M | re.S)
    (tmp_path / "settings.yaml").write_text(
        f"sources: [{{kind: folder, path: {tmp_path}}}]\nout: {tmp_path}/out\n{cluster}"
    )
    code = (
        "import sys; from pathlib import Path; from uttermill.flows import settings; "
        "from uttermill.flows.cluster.cluster import Cluster\n"
        "chosen = settings.read('settings.yaml', [], None, sys.argv[1:]).cluster\n"
        "with Cluster(chosen, Path('s')) as cluster: print(cluster.submit(abs, -7).result())"
    )
    for more, ended in (([], 0), (["cluster.tls=none"], 1)):
        command = shlex.join(["python", "-c", code, *more])
        process = net.start(command, tmp_path, PYTHONPATH=str(ROOT))
        assert process.wait(PATIENCE) == ended, log(net, tmp_path)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("place", "ports"), [("compose", {8786}), tiers.nightly("k8s", {8786, 8787})]
)  # fmt: skip
def test_containers(place: str, ports: set[int], net: Network, tmp_path: Path) -> None:
    """On all addresses of a container only what other containers ask for."""
    scheduler = listening(net, tmp_path, one(SCHEDULER, place), "Scheduler at")
    assert beyond(scheduler) == ports
    there = {"DASK_SCHEDULER_ADDRESS": f"tcp://{FIRST}:8786"}
    worker = listening(net, tmp_path, one(WORKER, place), "Registered to", **there)
    assert len(beyond(worker)) == 2  # nanny and worker
    if place == "k8s":
        (container,) = load("k8s/dask-cluster.yaml")["spec"]["scheduler"]["spec"]["containers"]
        assert {port["containerPort"] for port in container["ports"]} == ports


@pytest.mark.server
@pytest.mark.parametrize(
    ("command", "host"),
    [
        pytest.param(command, "0.0.0.0") if place.startswith("compose")
        else tiers.nightly(command, "127.0.0.1")
        for command, place in {shlex.join(words): at for at, words in started(SERVER)}.items()
    ],
)  # fmt: skip
def test_a_prefect_server(
    command: str, host: str, net: Network, tmp_path: Path, empty_database: Path
) -> None:
    prefect_database.give(empty_database, tmp_path)
    more = {"PREFECT_HOME": str(tmp_path), "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_UI_STATIC_DIRECTORY": str(tmp_path / "ui")}  # fmt: skip
    net.start(command, tmp_path, **more)
    assert soon(net.listeners, every=0.2)
    assert net.listeners() == {(host, 4200)}


@pytest.mark.server
@pytest.mark.parametrize("verb", ["serve", "explore"])
@pytest.mark.nightly
def test_what_stays_up_listens_on_the_loopback(
    verb: str, net: Network, tmp_path: Path, empty_database: Path
) -> None:
    prefect_database.give(empty_database, tmp_path)
    site = Site(tmp_path, "", history="none")
    corpus.make(site.source, 1)
    settings = site.settings("out")
    site.done(settings)
    own = str(settings if verb == "serve" else site.home / "out")
    told = {
        shlex.join([own if re.search(r"\.yaml$|OUT$|/pilot$", word) else word for word in words])
        for _, words in started(("uttermill", verb))
        if len(words) > 2  # else it is the command's name alone
    }
    assert told
    for command in told:
        process = net.start(command, tmp_path, PYTHONPATH=str(ROOT), PREFECT_HOME=str(tmp_path),
                            BROWSER="true")  # fmt: skip
        assert soon(net.listeners, every=0.2), log(net, tmp_path)
        time.sleep(2)  # others may follow
        hosts = {host for host, _ in net.listeners()}
        assert hosts
        assert hosts <= LOOPBACK
        net.end(process)


def test_ports_are_published_on_the_loopback_of_the_host() -> None:
    ports = [p for s in load("compose.yaml")["services"].values() for p in s.get("ports", ())]
    assert ports
    assert [port for port in ports if not str(port).startswith("127.0.0.1:")] == []
    page = (ROOT / "infra/docker.md").read_text()
    assert re.findall(r"(?:-p|--publish) (?!127\.0\.0\.1:)\S+", page) == []
