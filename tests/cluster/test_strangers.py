"""Who else is on this machine gets no word from a local cluster, whichever command started it."""

import os
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.helpers import certificates, listeners
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings

pytestmark = pytest.mark.cluster

#: A scheduler, and a nanny and a worker for each of two; the HTTP servers of Dask are not there.
LISTENERS = 5


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ssl.SSLContext | None]:
    """Without TLS, without a certificate, and with one that another cluster made."""
    other = certificates.make(tmp_path_factory.mktemp("other"))
    return {
        "plain": None,
        "no certificate": listeners.stranger(),
        "another's": listeners.stranger(other["cert"], other["key"]),
    }


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "workers"


@pytest.fixture(scope="module")
def others() -> set[listeners.Place]:
    """Where servers of other tests listen, which this process has started before."""
    return listeners.of(listeners.tree(os.getpid()))


@pytest.fixture(scope="module")
def cluster(scratch: Path, others: set[listeners.Place]) -> Iterator[Cluster]:
    before = os.umask(0)
    try:
        with Cluster(ClusterSettings(workers=2), scratch, engines={}) as made:
            assert made.client
            yield made
    finally:
        os.umask(before)


def told(
    places: set[listeners.Place], strangers: dict[str, ssl.SSLContext | None]
) -> dict[tuple[str, listeners.Place], bytes]:
    """What strangers hear, but for the alert that TLS sends to whom it refuses."""
    heard = {
        (name, place): listeners.heard(place, context)
        for name, context in strangers.items()
        for place in places
    }
    return {who: words for who, words in heard.items() if len(words) > listeners.ALERT}


def test_no_listener_of_a_cluster_tells_a_stranger_anything(
    cluster: Cluster,
    others: set[listeners.Place],
    tmp_path: Path,
    strangers: dict[str, ssl.SSLContext | None],
) -> None:
    places = listeners.of(listeners.tree(os.getpid())) - others
    addresses = [cluster.client.scheduler.address, *cluster.client.nthreads()]
    assert {f"tls://{host}:{port}" for host, port in places} >= set(addresses)
    assert len(places) >= LISTENERS
    assert told(places, strangers) == {}
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text(cluster.client.security.tls_client_cert)
    key.write_text(cluster.client.security.tls_client_key)
    own = listeners.stranger(str(cert), str(key))
    dask = {p for p in places if listeners.HANDSHAKE in listeners.heard(p, own, b"")}
    assert len(dask) == LISTENERS  # the control: who has the key is heard by each
    assert cluster.submit(abs, -1).result() == 1


def test_the_key_is_in_memory_alone(cluster: Cluster, scratch: Path) -> None:
    secret = cluster.client.security.tls_client_key.splitlines()[1]
    files = [path for path in scratch.rglob("*") if path.is_file()]
    assert not any(secret.encode() in path.read_bytes() for path in files)
    read = 0
    for pid in listeners.tree(os.getpid()):
        with suppress(psutil.NoSuchProcess):  # one that has just ended
            process = psutil.Process(pid)
            words = [*process.cmdline(), str(process.environ())]
            assert secret not in " ".join(words)
            read += 1
    assert read > 1  # this process, and the cluster's
