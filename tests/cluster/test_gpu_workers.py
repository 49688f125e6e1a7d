"""Workers pinned to GPUs, asked on the spot: which one they see, what runs where, and for how long.

No GPU is needed: CUDA is not touched, and the recogniser of these tests only says what it saw.
"""

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, on_worker
from tests.plugins import seen
from uttermill.flows import checks, settings
from uttermill.flows.cluster import proofs
from uttermill.flows.cluster.calls import Dispatcher
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.cluster.worker_counts import CPU, GPU
from uttermill.flows.run.cluster_executor import ClusterExecutor, map_chains
from uttermill.tasks import pipeline
from uttermill.tasks.publish.unchanged import UpToDate
from uttermill.tasks.runs import publish
from uttermill.tasks.runs.executor import Observer, Published
from uttermill.tasks.settings.job import Done
from uttermill.tasks.stages import known_good

pytestmark = pytest.mark.cluster

CLUSTER = {"workers": 1, "gpus": [0, "GPU-8f1c"], "memory_limit": "1.5GB"}
DEVICES = {"0", "GPU-8f1c"}
SEEN = {"", *DEVICES}


def by_name(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {worker["name"]: worker for worker in cluster.client.run(on_worker.look).values()}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the plug-ins `seen` and `seen_asr` write down; their workers inherit the variable."""
    path = tmp_path_factory.mktemp("seen") / "seen.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(seen.VARIABLE, str(path))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        yield path


@pytest.fixture(scope="module")
def cluster(notes: Path) -> Iterator[Cluster]:
    """Two workers with a GPU each, and one without. They need no engines, whose loading would take
    each of them, and each successor, a second of CPU. Others join by the address alone."""
    chosen, scratch = ClusterSettings.model_validate({**CLUSTER, "tls": "none"}), notes.parent / "s"
    with Cluster(chosen, scratch, gpu=True, engines={}) as made:
        yield made


def test_each_worker_sees_its_gpu_and_no_other(cluster: Cluster) -> None:
    assert not cluster.started
    assert (cluster.kinds, cluster.size, cluster.count(GPU)) == ((CPU, GPU), 3, 2)
    workers = cluster.client.run(proofs.gather)
    assert {w["name"]: (w["visible"], w["resources"]) for w in workers.values()} == {
        "gpu-0": ("0", {GPU: 1}), "gpu-1": ("GPU-8f1c", {GPU: 1}), "cpu-0": ("", {CPU: 1}),
    }  # fmt: skip
    # Only the proof of CUDA may mind that no GPU is here; and pins were there before all else. The
    # preload came in time, though it left the engines out.
    faults = [proof.__name__ for proof in proofs.PROOFS if not proof(workers).ok]
    assert set(faults) <= {"cuda_devices", "modules_loaded"}
    assert "no preload" not in proofs.modules_loaded(workers).detail
    assert proofs.pinned(workers).detail == "2 workers on 2 GPUs"
    assert {cluster.submit(on_worker.visible).result() for _ in range(4)} == {""}
    assert (cluster.live(GPU), cluster.live(CPU)) == (2, 1)


@pytest.mark.nightly
def test_the_successor_of_a_killed_worker_has_its_pin(cluster: Cluster) -> None:
    before = by_name(cluster)
    dying = [cluster.submit(on_worker.kill_me, 0.5, kind=kind) for kind in (GPU, GPU, CPU)]
    assert all(future.exception() is not None for future in dying)
    end = time.monotonic() + 120
    while cluster.live(GPU) + cluster.live(CPU) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    after = by_name(cluster)
    for name, old in before.items():
        assert after[name]["pid"] != old["pid"], "control: it is another process"
        for what in ("visible", "at_start", "resources"):
            assert after[name][what] == old[what]


def test_a_deadline_on_a_gpu_and_no_wait_for_it_elsewhere(cluster: Cluster) -> None:
    # One call hangs; the others have all the time that a busy machine may need.
    def soon(isolated: bool) -> float:
        return 120.0 if isolated else 3.0

    def late(isolated: bool) -> float:
        return 120.0

    dispatcher = Dispatcher(cluster)
    call = partial(dispatcher.run, on_worker.hang, within=soon, kind=GPU)
    for kind in cluster.kinds:  # the module is loaded
        shown = dispatcher.run(on_worker.visible, within=late, isolates=False, kind=kind)
        assert shown in SEEN
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert dispatcher.run(on_worker.visible, within=late, isolates=False) == ""
    assert not found, "control: both GPUs were taken"
    for thread in threads:
        thread.join()
    assert set(found) <= DEVICES
    assert len(found) == 2
    assert (dispatcher.losses.timeouts, dispatcher.losses.deaths) == (2, 0)


@pytest.mark.nightly
def test_workers_that_others_started_are_asked_what_they_have(
    cluster: Cluster, tmp_path: Path
) -> None:
    address = cluster.client.scheduler.address
    there = ClusterSettings(kind="address", address=address)
    with Cluster(there, tmp_path, gpu=True) as second:
        assert (second.kinds, second.count(GPU), second.count(CPU)) == ((CPU, GPU), 2, 1)
        assert second.submit(on_worker.visible, kind=GPU).result() in DEVICES
        assert {second.submit(on_worker.visible).result() for _ in range(4)} == {""}
    for none in (Cluster(there, tmp_path), Cluster(there.model_copy(update={"gpus": "none"}),
                                                   tmp_path, gpu=True)):  # fmt: skip
        with none:
            assert (none.kinds, none.size) == ((CPU,), 3)


def run(job: Any, cluster: Cluster, scratch: Path) -> tuple[Published, ClusterExecutor]:
    """The whole line on a cluster, without Prefect."""
    caller = ClusterExecutor(cluster)
    found = pipeline.run_shard_stage(job, caller, scratch)

    state = UpToDate(job, found.shards, found.index)

    def chain(shard: str) -> list[Done]:
        return pipeline.chain(job, shard, found.seconds[shard], caller, Observer())

    for dones in map_chains(found.shards, chain, 2 * cluster.size):
        state.record(dones)
    published = publish.publish(job, found.shards, caller, scratch, state)
    assert isinstance(published, Published)
    return published, caller


@pytest.mark.nightly
def test_stages_run_where_they_belong_and_overlap(
    cluster: Cluster, notes: Path, tmp_path: Path
) -> None:
    count, culprit = 6, corpus.seconds_of(1)
    corpus.make(tmp_path / "in", count)
    data = {
        "sources": [{"kind": "folder", "path": str(tmp_path / "in"), "expect_broken": True}],
        "out": str(tmp_path / "out"), "cluster": CLUSTER,
        "shard": {"settle_seconds": 0, "hours": 0.0001},
        "filter": {
            "segmenter": {"use": "whole"},
            "filters": [{"use": "duration"}, {"use": "tests.plugins.seen", "items": count}],
        },
        "transcribe": {"backend": {
            "use": "tests.plugins.seen_asr", "how": "segv", "seconds": culprit,
            "items": count,
        }},
    }  # fmt: skip
    published, caller = run(checks.check(settings.parse(data)), cluster, tmp_path / "listing")
    lines = seen.lines(notes)
    filtered = [line for line in lines if line["stage"] == "filter" and line["ended"]]
    transcribed = [line for line in lines if line["stage"] == "transcribe"]
    tried = [line for line in transcribed if line["seconds"] == known_good.SECONDS]
    begun = [line for line in transcribed if line not in tried]
    heard = [line for line in begun if line["ended"]]
    assert {line["visible"] for line in filtered} == {""}
    assert {line["visible"] for line in heard} == DEVICES
    assert len({(line["pid"], line["visible"]) for line in heard}) == len(
        {line["pid"] for line in heard}
    )
    assert any(
        one["began"] < other["ended"] and other["began"] < one["ended"]
        for one in filtered for other in heard
    ), "a filter call and a transcribe call at the same time"  # fmt: skip

    # The culprit crashes two workers, and then a disposable process of a third: all pinned.
    crashed = [line for line in begun if abs(line["seconds"] - culprit) < 0.01]
    assert (len(crashed), len(heard)) == (3, count - 1)
    # Each process first heard a clip that is known to be good, to tell a broken recogniser.
    assert {line["pid"] for line in begun} <= {line["pid"] for line in tried if line["ended"]}
    assert {line["visible"] for line in crashed} <= DEVICES
    assert crashed[-1]["parent"] in {
        worker["pid"] for worker in cluster.client.run(on_worker.look).values()
    }
    assert vars(caller.dispatcher.losses) == {"deaths": 2, "timeouts": 0, "isolated": 1}
    assert published.summary["utterances"]["packaged"] == count - 1
    assert published.summary["utterances"]["failed"] == 1
