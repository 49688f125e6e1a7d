"""`cluster.tls`: who has no certificate of the authority is refused; faults are told at once."""

import asyncio
import gc
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import distributed.comm
import pytest
from pydantic import ValidationError

from tests.faults.command import PATIENCE, Site, soon
from tests.helpers import by_hand, certificates, corpus, tiers
from uttermill.flows import settings
from uttermill.flows.cluster import address, local
from uttermill.flows.cluster.address import fault
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings, TlsSettings
from uttermill.tasks.base.errors import ConfigError, RunError

comms: Any = distributed.comm

REFUSED = (OSError, TypeError, RuntimeError)


def connect(address: str, security: Any = None) -> None:
    """A scheduler's handshake, without a client: what is left of a refused one may be collected
    in the thread that the next one starts, where it waits for a lock that the starter holds."""

    async def try_it() -> None:
        how = security.get_connection_args("client") if security else {}
        comm = await comms.connect(address, timeout=4, **how)
        await comm.close()

    asyncio.run(try_it())


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificates.make(tmp_path_factory.mktemp("mine"))


@pytest.fixture(scope="module")
def cluster(mine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    chosen = ClusterSettings.model_validate({"workers": 1, "memory_limit": "2GB", "tls": mine})
    with Cluster(chosen, tmp_path_factory.mktemp("scratch"), engines={}) as made:
        yield made


@pytest.mark.quick
@pytest.mark.cluster
def test_all_traffic_is_encrypted(cluster: Cluster) -> None:
    client = cluster.client
    addresses = [client.scheduler.address, *client.nthreads()]
    addresses += [worker["nanny"] for worker in client.scheduler_info()["workers"].values()]
    assert len(addresses) == 3
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    assert cluster.submit(abs, -4).result() == 4


@pytest.mark.cluster
def test_a_client_by_address_needs_the_certificate(
    cluster: Cluster, mine: dict[str, str], tmp_path: Path
) -> None:
    address = cluster.client.scheduler.address
    chosen = ClusterSettings.model_validate({"kind": "address", "address": address, "tls": mine})
    with Cluster(chosen, tmp_path / "s") as second:
        assert second.submit(abs, -5).result() == 5


@pytest.mark.quick
@pytest.mark.cluster
@pytest.mark.filterwarnings(
    "ignore::RuntimeWarning", "ignore::ResourceWarning"
)  # what Dask leaves behind of a refused connection
def test_control_a_stranger_is_refused(
    cluster: Cluster, mine: dict[str, str], tmp_path: Path
) -> None:
    address: str = cluster.client.scheduler.address
    connect(address, TlsSettings.model_validate(mine).security())
    with pytest.raises(REFUSED):
        connect(address)
    with pytest.raises(REFUSED):
        connect(address.replace("tls://", "tcp://"))
    stranger = TlsSettings.model_validate(certificates.make(tmp_path / "stranger"))
    with pytest.raises(REFUSED):
        connect(address, stranger.security())
    chosen = ClusterSettings(kind="address", address=address, tls=stranger)
    with (
        Cluster(chosen, tmp_path / "s") as other,
        pytest.raises(RunError, match="its certificate is not of the authority"),
    ):
        _ = other.client
    gc.collect()  # what is left of its client, here and not in a thread that starts another
    assert cluster.submit(abs, -6).result() == 6


FAULTS = {
    "ca_file": ["cluster.tls.ca_file", "nowhere.pem", "cannot be read"],
    "cert": ["cluster.tls.cert", "nowhere.pem", "cannot be read"],
    "key": ["cluster.tls.key", "nowhere.pem", "cannot be read"],
}


@pytest.mark.parametrize("part", FAULTS)
def test_a_missing_file_is_told_before_any_worker(
    part: str, mine: dict[str, str], tmp_path: Path
) -> None:
    chosen = ClusterSettings.model_validate({"tls": {**mine, part: str(tmp_path / "nowhere.pem")}})
    with pytest.raises(ConfigError) as caught:
        Cluster(chosen, tmp_path / "s")
    assert all(word in str(caught.value) for word in FAULTS[part]), str(caught.value)
    assert not (tmp_path / "s").exists()


def test_files_that_are_no_certificates_are_told(mine: dict[str, str], tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    locked = certificates.make(tmp_path / "locked", passphrase=b"open sesame")
    other = certificates.make(tmp_path / "other")
    for change, words in (
        ({"ca_file": str(junk)}, "is not a certificate in PEM"),
        ({"cert": str(junk)}, "not a certificate and its key"),
        ({"key": other["key"]}, "not a certificate and its key"),
        (locked, "without a passphrase"),
    ):
        chosen = TlsSettings.model_validate({**mine, **change})
        with pytest.raises(ConfigError, match=words) as caught:
            chosen.check()
        assert "\n" not in str(caught.value)
    TlsSettings.model_validate(mine).check()


DAY = timedelta(days=1)
#: When a certificate begins and ends, from now; what its owner and the other side are told.
DATES = [
    (-3 * DAY, -DAY, "expired on", "has expired; start the scheduler with a new one"),
    (2 * DAY, 3 * DAY, "is not valid before", "is not valid yet; check the clocks"),
]


@pytest.mark.parametrize(("begins", "ends", "own", "other"), DATES)
def test_a_certificate_out_of_date_is_told_by_its_dates(
    begins: timedelta, ends: timedelta, own: str, other: str, tmp_path: Path
) -> None:
    stale = certificates.make(tmp_path / "stale", begins=begins, ends=ends)
    with pytest.raises(ConfigError, match=own) as refused:
        TlsSettings.model_validate(stale).check()
    assert f"cluster.tls.cert: {stale['cert']}" in str(refused.value)

    # A scheduler that has it, before a client whose own files are in order.
    fine = {**certificates.make(tmp_path / "fine"), "ca_file": stale["ca_file"]}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stale["cert"], stale["key"])

    async def ask() -> str:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        async with server:
            address = f"tls://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            security: Any = TlsSettings.model_validate(fine).security()
            how = security.get_connection_args("client")
            with pytest.raises(OSError, match=r".") as failed:
                await comms.connect(address, timeout=2, **how)
            return fault(address, local.root(failed.value))

    assert other in asyncio.run(ask())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "class", "class_name": "distributed.LocalCluster"}, "kind local or address"),
        ({"kind": "address", "address": "tcp://host:1"}, "starts with tls://"),
    ],
)
def test_what_does_not_go_together(
    values: dict[str, Any], words: str, mine: dict[str, str]
) -> None:
    with pytest.raises(ValidationError, match=words):
        ClusterSettings.model_validate({**values, "tls": mine})


def test_relative_paths_are_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read = settings.read(None, [str(tmp_path)], "o", ["cluster.tls={ca_file: a, cert: b, key: c}"])
    assert read.cluster.tls == TlsSettings(
        ca_file=str(tmp_path / "a"), cert=str(tmp_path / "b"), key=str(tmp_path / "c")
    )


@pytest.mark.parametrize("given", [{}, {"tls": "auto"}])
def test_a_local_cluster_has_certificates_unless_told(given: dict[str, Any]) -> None:
    """Null is what settings of earlier runs have."""
    assert ClusterSettings.model_validate(given).tls == "auto"
    assert ClusterSettings.model_validate({"tls": "none"}).tls == "none"


def test_what_tls_may_be_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        settings.read(None, ["in"], "out", ["cluster.tls=sometimes"])
    assert "cluster.tls" in str(caught.value)
    assert "auto" in str(caught.value)


@pytest.mark.parametrize("tls", ["auto", "none"])
def test_an_encrypted_address_needs_certificates(tls: str, tmp_path: Path) -> None:
    chosen = ClusterSettings.model_validate(
        {"kind": "address", "address": "tls://10.0.0.1:8786", "tls": tls}
    )
    with pytest.raises(ConfigError, match=r"cluster\.tls has to give the certificates"):
        Cluster(chosen, tmp_path)


# Schedulers that others started: a wrong address is one sentence, and so is their loss.


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
