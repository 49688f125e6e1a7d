"""Schedulers that others started: a wrong address is one sentence, and so is their loss."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from tests.faults.command import PATIENCE, Site, soon
from tests.helpers import by_hand, certificates, corpus, tiers
from uttermill.flows.cluster import address
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings, TlsSettings
from uttermill.tasks.base.errors import RunError


@pytest.mark.parametrize(
    "given",
    ["tcp://10.0.0.1:8786", "tls://host-1.example:8786", "localhost:8786", "tcp://[::1]:8786",
     "ws://h:80"],
)  # fmt: skip
def test_addresses(given: str) -> None:
    assert ClusterSettings(kind="address", address=given).address == given
    assert ClusterSettings(kind="address", address=f"{given}/").address == given


@pytest.mark.parametrize(
    "given",
    ["tcp://10.0.0.1", "http://h:8786", "tcp://h:abc", "tcp://", "tcp://h:99999", "tcp://h:0", "h",
     "tcp://h:8786/status", "tcp://h:8786?x", "tcp:/h:8786", "tcp://h :8786", "::1:8786"],
)  # fmt: skip
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(ValidationError, match="give the host and the port of a scheduler"):
        ClusterSettings(kind="address", address=given)


def test_a_host_that_is_not_known() -> None:
    unknown = socket.gaierror(-2, "Name or service not known")
    told = address.fault("tcp://h:8786", unknown)
    assert told.endswith("(cluster.address): the host is not known (Name or service not known)")
    busy = ValueError("IOStream is not idle; cannot convert to SSL")
    assert address.fault("tls://h:8786", busy).endswith("does not speak TLS; give tcp://")


class Sites(NamedTuple):
    plain: str
    encrypted: str
    worker: str
    ours: TlsSettings
    others: TlsSettings


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    homes = [tmp_path_factory.mktemp(name) for name in ("plain", "encrypted", "others")]
    made = (certificates.make(home) for home in homes[1:])
    ours, others = map(TlsSettings.model_validate, made)
    pair = ("--tls-ca-file", ours.ca_file, "--tls-cert", ours.cert, "--tls-key", ours.key)
    port = by_hand.free_port()
    with ExitStack() as open_:
        plain = open_.enter_context(by_hand.scheduler(homes[0]))
        encrypted = open_.enter_context(by_hand.scheduler(homes[1], *pair))
        open_.enter_context(by_hand.worker(homes[0], plain, "--worker-port", str(port)))
        assert soon(lambda: by_hand.listens(port))
        yield Sites(plain, encrypted, f"tcp://127.0.0.1:{port}", ours, others)


def port_of(address: str) -> str:
    return address.rpartition(":")[2]


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("plain to TLS", "it hangs up; if it uses TLS, give tls:// and its certificates"),
        ("TLS to plain", "give tcp://"),
        ("another authority", "its certificate is not of the authority in cluster.tls.ca_file"),
        ("a worker", "another program listens there, a worker for example"),
        ("nothing", "nothing listens there; start the scheduler, or correct the address"),
    ],
)
def test_what_is_no_scheduler_of_ours(
    case: str, words: str, sites: Sites, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, dict[str, Any]] = {
        "plain to TLS": {"address": f"tcp://127.0.0.1:{port_of(sites.encrypted)}"},
        "TLS to plain": {"address": f"tls://127.0.0.1:{port_of(sites.plain)}", "tls": sites.ours},
        "another authority": {"address": sites.encrypted, "tls": sites.others},
        "a worker": {"address": sites.worker},
        "nothing": {"address": f"tcp://127.0.0.1:{by_hand.free_port()}"},
    }
    settings = ClusterSettings(kind="address", **given[case])
    monkeypatch.setattr(address, "CONNECT_S", 2.0)  # for which Dask tries again
    with Cluster(settings, tmp_path / "s") as cluster, pytest.raises(RunError) as raised:
        _ = cluster.client
    assert str(raised.value).startswith(f"no Dask scheduler at {settings.address} (cluster.address")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("error", [TimeoutError(), asyncio.CancelledError()])
def test_a_try_that_was_cut_short_is_made_again(error: BaseException) -> None:
    """Dask begins its last try a moment before its patience ends."""
    refused = address.fault(f"tcp://127.0.0.1:{by_hand.free_port()}", error)
    assert refused.endswith("nothing listens there; start the scheduler, or correct the address")
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = address.fault(f"127.0.0.1:{server.getsockname()[1]}", error)
    assert silent.endswith("it does not answer; check that its port is open to this machine")


@pytest.mark.cluster
@pytest.mark.parametrize("when", tiers.few(["in a call", "waiting for a worker"], "in a call"))
@pytest.mark.nightly
def test_a_scheduler_that_is_lost_is_one_sentence_and_loses_nothing(
    when: str, tmp_path: Path
) -> None:
    site = Site(tmp_path, "", history="none")
    corpus.make(site.source, 3)
    hold = site.gate / "filter-0.6.hold"
    hold.touch()
    port = by_hand.free_port()
    file = site.settings(
        "out", cluster={"kind": "address", "address": f"tcp://127.0.0.1:{port}", "workers": 1},
        filter={"filters": [{"use": "tests.plugins.gated_filter"}]},
    )  # fmt: skip
    with ExitStack() as run_open:
        with by_hand.scheduler(tmp_path, port=port) as there:
            if when == "in a call":
                start = by_hand.worker(tmp_path, there, UTTERMILL_GATE=str(site.gate))
                worker = run_open.enter_context(start)
            run = run_open.enter_context(site.start("run", file, "--json"))
            if when == "in a call":
                assert soon((site.gate / "filter-0.6.held").exists), run.stderr()
            else:
                assert soon(lambda: "no worker has joined" in run.stderr()), run.stderr()
        began = time.monotonic()
        ended = run.end()
        assert time.monotonic() - began < 60
        assert ended.code == 1
        assert "the connection to the Dask scheduler was lost; finished work is" in ended.error
        assert "Traceback" not in ended.stderr
        if when == "in a call":
            hold.unlink()
            assert worker.wait(PATIENCE) == 0, "it ends, and its supervisor starts it again"
            with (
                by_hand.scheduler(tmp_path, port=port) as there,
                by_hand.worker(tmp_path, there, UTTERMILL_GATE=str(site.gate)),
            ):
                again = site.done(file)
            assert again.result["recordings"] == {"in": 3, "failed": 0}
