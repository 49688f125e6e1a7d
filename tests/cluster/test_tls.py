"""`cluster.tls`: who has no certificate of the authority is refused; faults are told at once."""

import asyncio
import gc
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import distributed.comm
import pytest
from pydantic import ValidationError

from tests.helpers import certificates
from uttermill.flows import settings
from uttermill.flows.cluster import local
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
