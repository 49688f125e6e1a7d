"""A host whose network was away for minutes: its supervised worker comes back."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e import hosts
from tests.faults.command import ROOT, soon
from tests.helpers import by_hand

#: What a supervisor does, as the unit in infra/README.md.
SUPERVISED = (
    "while :; do {python} -m distributed.cli.dask_worker {scheduler} --host {host} --no-dashboard "
    "--dashboard-address 127.0.0.1:0 --nthreads 1 --preload-nanny uttermill.flows.cluster.leaving; "
    "sleep 2; done"
)
AWAY_S = 90.0


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_worker_comes_back_when_its_network_does(tmp_path: Path) -> None:
    import distributed

    with hosts.site(tmp_path, 1, [tmp_path]) as site:
        if not site.real:
            pytest.skip("network namespaces cannot be made here")
        (host,) = site.hosts
        configured = {"PYTHONPATH": str(ROOT), "DASK_CONFIG": str(ROOT / "infra/dask.yaml")}
        port = by_hand.free_port()
        scheduler = f"tcp://{site.address}:{port}"
        with subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", site.address,
             "--port", str(port), "--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
            env={**os.environ, **configured}, stderr=subprocess.DEVNULL,
        ) as served:  # fmt: skip
            words = {"python": sys.executable, "scheduler": scheduler, "host": host.address}
            host.start("sh", "-c", SUPERVISED.format(**words), **configured)
            client: type = distributed.Client
            try:
                with client(scheduler) as asking:

                    def there() -> set[str]:
                        return {*asking.scheduler_info()["workers"]}

                    assert soon(there, every=0.5)
                    before = there()
                    host.cable("down")
                    gone = time.monotonic()
                    assert soon(lambda: not there(), every=0.5)
                    time.sleep(max(0.0, gone + AWAY_S - time.monotonic()))
                    host.cable("up")
                    assert soon(there, every=0.5)
                    assert not there() & before
                    assert asking.submit(abs, -7).result(60) == 7
            finally:
                served.terminate()
