"""What calls cost, how they got to their workers, and which shards are called slow."""

import gc
import http.client
import json
import mmap
import socket
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed.scheduler import KilledWorker
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.command import Site
from tests.helpers import corpus
from uttermill.flows.cluster.calls import Dispatcher
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run import prometheus
from uttermill.flows.run.cluster_executor import ClusterExecutor
from uttermill.tasks.accounting import metrics
from uttermill.tasks.accounting.metrics import Place, Trace
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.base.schema import METRICS
from uttermill.tasks.runs import publish
from uttermill.tasks.settings.job import Cost, Done, Job
from uttermill.tasks.stages import call, shard
from uttermill.tasks.stages.call import Call, CostMeter


def cost(wall: float = 1.0, started: float = 100.0, worker: str = "w") -> Cost:
    return Cost(worker, "here", 7, started, wall, wall / 2, 10, 20)


def stage_row(name: str, number: int, audio: float, wall: float, load: float = 0.0) -> Any:
    place = Place(name, shard=f"shard-{number:06d}", kind="CPU")
    return metrics.row(place, Trace(99.0, 1), cost(wall), audio, computed=3, load=load)


def table(rows: list[Any]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=METRICS)


def test_a_meter_sees_cpu_of_children_and_memory_that_is_free_again() -> None:
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    gc.collect()  # what earlier tests left would be freed midway and hide the peak
    with CostMeter("w1") as one:
        with mmap.mmap(-1, 60_000_000) as fresh:  # an array could get memory of earlier tests
            fresh.write(bytes(60_000_000))
        subprocess.run([sys.executable, "-c", code], check=True)
    assert 0.3 <= one.cost.cpu < 3
    assert one.cost.wall >= 0.3
    assert one.cost.rss_peak >= one.cost.rss_before + 50_000_000
    assert (one.cost.worker, one.cost.gpu, one.cost.gpu_percent) == ("w1", None, None)
    with CostMeter() as other:
        time.sleep(0.01)
    assert other.cost.cpu < 0.3
    if sys.platform == "linux":  # the peak is this call's, not the process's
        assert other.cost.rss_peak < one.cost.rss_peak - 30_000_000


def test_without_a_writable_proc_the_peak_is_of_begin_and_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(call, "_CLEAR", tmp_path / "no" / "file")
    with CostMeter() as one:
        pass
    assert one.cost.rss_peak >= one.cost.rss_before > 0


class NVMLError(Exception):
    pass


def nvml(busy: list[int] | None, memory: list[int] | None) -> SimpleNamespace:
    """NVIDIA's binding with one GPU of that use over time; None: it does not tell."""

    def next_of(values: list[int] | None) -> int:
        if values is None:
            raise NVMLError("not supported")
        return values.pop(0) if len(values) > 1 else values[0]

    def handle(name: object) -> str:
        if name == 9:
            raise NVMLError("not found")
        return str(name)

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=handle,
        nvmlDeviceGetHandleByUUID=handle,
        nvmlDeviceGetUtilizationRates=lambda h: SimpleNamespace(gpu=next_of(busy)),
        nvmlDeviceGetMemoryInfo=lambda h: SimpleNamespace(used=next_of(memory)),
    )


@pytest.mark.parametrize(
    ("known", "visible", "found"),
    [
        (nvml([0, 80], [5, 7, 6]), "0", ("0", 40, 7)),
        (nvml([50], [5]), None, ("0", 50, 5)),
        (nvml([50], [5]), "GPU-abc,1", ("GPU-abc", 50, 5)),
        (nvml(None, [5]), "MIG-1", ("MIG-1", None, 5)),  # a slice does not tell
        (nvml([50], [5]), "", (None, None, None)),  # a CPU worker
        (nvml([50], [5]), "9", (None, None, None)),  # no such GPU
        (None, "0", (None, None, None)),  # no binding
    ],
)
def test_gpu_use_is_what_nvml_says(
    monkeypatch: pytest.MonkeyPatch, known: Any, visible: str | None, found: tuple[Any, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", known)
    monkeypatch.setattr(call, "GPU_EVERY", 0.02)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with CostMeter() as one:
        time.sleep(0.03)
    name, busy, memory = one.cost.gpu, one.cost.gpu_percent, one.cost.gpu_memory
    assert (name, memory) == (found[0], found[2])
    if found == ("0", 40, 7):
        assert busy is not None
        assert 0 < busy < 80
    else:
        assert busy == found[1]


def test_a_straggler_is_above_three_medians_of_its_stage() -> None:
    rows = [stage_row("filter", n, 60, 6) for n in range(5)]
    rows += [stage_row("filter", 5, 60, 19), stage_row("filter", 6, 30, 30)]
    rows += [stage_row("transcribe", n, 60, 6 + 40 * (n == 2)) for n in range(3)]  # too few
    found = metrics.stragglers(table(rows))
    assert [(s["shard"], s["times_median"]) for s in found] == [
        ("shard-000006", 10.0),
        ("shard-000005", 3.17),
    ]
    assert found[0] == {
        "stage": "filter",
        "shard": "shard-000006",
        "seconds_per_audio_second": 1.0,
        "times_median": 10.0,
        "wall_seconds": 30.0,
        "worker": "w",
        "host": "here",
        "deaths": 0,
    }


def test_fixed_cost_makes_no_straggler() -> None:
    rows = [stage_row("transcribe", n, 60, 6) for n in range(4)]
    short = [stage_row("transcribe", 10, 9.9, 30)]  # too little audio
    quick = [stage_row("filter", n, 60, 0.1 + 4 * (n == 0)) for n in range(5)]  # nobody waited
    loads = [stage_row("transcribe", 11, 60, 46, load=40)]  # the first one loads the model
    assert metrics.stragglers(table(rows + short + quick + loads)) == []
    slow = [stage_row("transcribe", 12, 60, 46)]
    assert len(metrics.stragglers(table(rows + slow))) == 1


def test_what_never_came_back_has_a_row_and_no_rate() -> None:
    collected = metrics.Metrics()
    trace = Trace(1.0, 6, 6, 12.5, True)
    with pytest.raises(RunError), collected.failing(Place("filter", shard="s"), trace):
        raise RunError("x")
    (row,) = collected.table().to_pylist()
    assert (row["error"], row["attempts"], row["deaths"]) == ("RunError", 6, 6)
    assert (row["lost_seconds"], row["isolated"], row["wall_seconds"]) == (12.5, True, None)
    assert metrics.rates(collected.table()).num_rows == 0


def test_rows_of_a_run_are_written_however_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "BATCH", 4)

    def fails() -> None:
        with metrics.recorded(tmp_path) as collected:
            for n in range(10):
                place, began = Place("filter", shard=f"s{n}"), cost(started=100.0 + n)
                collected.add(metrics.row(place, Trace(98.0, 1), began, 30.0, 2, 1))
            raise RunError("the disk is full")

    with pytest.raises(RunError):
        fails()
    found = pq.read_table(tmp_path / metrics.NAME)
    assert found.schema.equals(METRICS, check_metadata=True)
    rows = found.to_pylist()
    assert [row["shard"] for row in rows] == [f"s{n}" for n in range(10)]
    assert [row["queue_seconds"] for row in rows] == [2.0 + n for n in range(10)]
    assert {row["audio_seconds"] for row in rows} == {30.0}


def test_a_row_survives_clocks_that_disagree() -> None:
    assert metrics.row(Place("filter"), Trace(wanted=101.0), cost())["queue_seconds"] == 0.0


class Dying:
    """A cluster whose worker dies under the first calls."""

    settings = ClusterSettings()

    def __init__(self, deaths: int, result: Any = None) -> None:
        self.deaths, self.result, self.kinds = deaths, result, ("CPU",)
        self.started = True

    def count(self, kind: str) -> int:
        return 1

    live = count

    def submit(self, function: Any, *args: Any, kind: str) -> Future[Any]:
        future: Future[Any] = Future()
        if self.deaths:
            self.deaths -= 1
            worker: Any = SimpleNamespace(address="tcp://h:1")
            future.set_exception(KilledWorker("call", worker, 1))
        else:
            future.set_result(self.result)
        return future

    def restart_worker_of(self, future: Any) -> bool:
        return True

    def left(self, address: str) -> bool:
        return False


def test_a_trace_knows_attempts_and_deaths() -> None:
    for deaths, isolated in ((0, False), (1, False), (3, True)):
        workers: Any = Dying(deaths)
        trace = Trace()
        before = time.time()
        dispatcher = Dispatcher(workers)
        dispatcher.run(print, "s", within=lambda isolated: 5.0, trace=trace)
        assert (trace.attempts, trace.deaths, trace.isolated) == (deaths + 1, deaths, isolated)
        assert trace.lost >= 0
        assert before <= trace.wanted <= time.time()


def test_every_call_of_the_pipeline_is_placed() -> None:
    workers: Any = Dying(0, (None, cost()))
    caller = ClusterExecutor(workers)
    caller.map(shard.PROBE, [(Job(Path("out")), Path("list"), 0, 50, 0.0)])
    caller.map(publish.WRITE, [(Job(Path("out")), Path("s"), 3)])
    workers.result = Done("filter", "shard-000001", 1, 0, 9.0, 1.0, cost=cost())
    caller.stage("filter", Job(Path("out")), "shard-000001", 9.0)
    workers.started = False
    # No worker was started: it runs here.
    assert caller.call(Call("package", "sort", sorted), [2, 1]) == [1, 2]
    rows = caller.metrics.table().to_pylist()
    assert [(r["stage"], r["step"], r["shard"], r["kind"]) for r in rows] == [
        ("shard", "probe", "0-50", "CPU"),
        ("package", "write", "3", "CPU"),
        ("filter", "run", "shard-000001", "CPU"),
        ("package", "sort", "", ""),
    ]
    assert rows[-1]["worker"] == ""
    assert [r["audio_seconds"] for r in rows] == [None, None, 9.0, None]


def test_a_call_that_raises_leaves_its_row() -> None:
    workers: Any = Dying(6)
    caller = ClusterExecutor(workers)
    with pytest.raises(RunError, match="ended 6 workers"):
        caller.stage("filter", Job(Path("out")), "shard-000001", 9.0)
    (row,) = caller.metrics.table().to_pylist()
    assert (row["deaths"], row["attempts"], row["error"]) == (6, 6, "RunError")


def test_at_most_three_stragglers_are_told() -> None:
    one = {
        "stage": "filter",
        "shard": "shard-000001",
        "seconds_per_audio_second": 0.5,
        "times_median": 4.25,
        "wall_seconds": 31.0,
        "worker": "cpu-1",
        "host": "node7",
        "deaths": 0,
    }
    assert metrics.lines([]) == []
    assert metrics.lines([one]) == [
        "Straggler: filter of shard-000001 took 4.2 × the median, 0.5 s per second of audio, 31 s "
        "on worker cpu-1 of node7."
    ]
    told = metrics.lines([one] * 5)
    assert len(told) == 4
    assert told[-1] == "2 more are in metrics.parquet."


def test_a_report_that_cannot_be_drawn_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uttermill.flows.cluster.settings.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"performance_report needs bokeh: pip install"):
        ClusterSettings(performance_report=True).check()
    ClusterSettings().check()


def test_rates_of_a_whole_corpus_are_columns() -> None:
    """A call took 1,200 bytes as objects: 360 MB for 100,000 hours."""
    calls = table([stage_row("filter", n, 900, 6 + n % 7) for n in range(1000)])
    many = pa.concat_tables([calls] * 100)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        assert metrics.stragglers(many) == []
        most = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()
    assert most < 300 * many.num_rows


# OUT/runs/uttermill.prom, as Prometheus's own parser reads it; what a failed run keeps; the
# endpoint.


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path, "", history="none")
    corpus.make(site.source, 4)
    (site.source / "broken.wav").write_bytes(b"no audio")
    return site


def samples(text: str) -> Samples:
    families = [*text_string_to_metric_families(text)]
    assert {family.name for family in families} <= prometheus.METRICS.keys()
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in families for each in family.samples
    }  # fmt: skip


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"uttermill_{name}", frozenset(labels.items())]


@pytest.mark.full
def test_what_a_run_leaves(site: Site, shared_cluster: dict[str, Any]) -> None:
    filters = [{"use": "duration", "min": 0.7}]
    settings = site.settings("out", filter={"filters": filters}, cluster=shared_cluster)
    result = site.command("run", settings).result
    path = site.home / "out/runs" / prometheus.NAME
    found = samples(path.read_text())
    assert value(found, "run_success") == 1
    assert value(found, "version_number") == 1
    assert value(found, "run_new_recordings") == 5
    assert value(found, "version_recordings", state="failed") == 1
    assert value(found, "version_utterances", outcome="packaged") == 2
    for outcome, seconds in result["seconds"].items():
        assert value(found, "version_audio_seconds", outcome=outcome) == pytest.approx(seconds)
    assert value(found, "version_reason_items", reason="shard.unreadable") == 1
    assert value(found, "version_reason_items", reason="filter.too_short") == 2
    assert value(found, "run_items", stage="filter", how="computed") > 0
    assert value(found, "run_real_time_factor", stage="filter") > 0
    assert value(found, "run_queue_seconds", stage="filter") >= 0
    named = {name for name, _ in found}
    assert named == prometheus.METRICS.keys(), "each documented name has a value"
    for name, labels in found:
        assert {label for label, _ in labels} == {*prometheus.METRICS[name][0]}

    # A run that publishes nothing keeps the time of the newest version; so does one that fails.
    published = value(found, "version_published_timestamp_seconds")
    site.command("run", settings)
    again = samples(path.read_text())
    assert value(again, "version_published_timestamp_seconds") == published
    assert value(again, "run_end_timestamp_seconds") > value(found, "run_end_timestamp_seconds")
    for wav in site.source.glob("*.wav"):
        wav.unlink()
    assert site.command("run", settings).code == 1
    failed = samples(path.read_text())
    assert value(failed, "run_success") == 0
    assert value(failed, "version_published_timestamp_seconds") == published
    assert value(failed, "version_audio_seconds", outcome="packaged") > 0
    assert ("uttermill_run_wall_seconds", frozenset()) not in failed


def test_names_in_labels_are_escaped() -> None:
    text = prometheus._text([("uttermill_version_reason_items", {"reason": 'a"\\b\nc'}, 2)], [])
    assert samples(text) == {
        ("uttermill_version_reason_items", frozenset({("reason", 'a"\\b\nc')})): 2
    }


def test_the_endpoint_answers_this_machine_alone(tmp_path: Path) -> None:
    def ask(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    with prometheus.serving(tmp_path, 0) as address:
        assert address is not None
        port = int(address.partition("127.0.0.1:")[2].partition("/")[0])
        assert ask(port, "/metrics") == (200, b"")
        (tmp_path / prometheus.NAME).write_text("uttermill_run_success 1\n")
        assert ask(port, "/metrics") == (200, b"uttermill_run_success 1\n")
        assert ask(port, "/metrics", f"localhost:{port}")[0] == 200
        assert ask(port, "/metrics", "evil.example")[0] == 403
        assert ask(port, "/../settings.json")[0] == 404
        with pytest.raises(ConfigError, match=f"--metrics {port}: .*choose another port"):
            prometheus.serving(tmp_path, port).__enter__()
    with prometheus.serving(tmp_path, None) as address:
        assert address is None


def test_connections_without_a_request_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "PATIENCE_S", 0.05)
    with prometheus.serving(tmp_path, 0) as address, ExitStack() as opened:
        assert address is not None
        place = "127.0.0.1", int(address.partition("127.0.0.1:")[2].partition("/")[0])
        clients = [opened.enter_context(socket.create_connection(place)) for _ in range(4)]
        with socket.create_connection(place) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(100).split()[1] == b"403"
        assert [client.recv(1) for client in clients] == [b""] * 4


def test_names_are_documented() -> None:
    page = (Path(__file__).parents[2] / "infra/nightly.md").read_text()
    for name, (labels, meaning) in prometheus.METRICS.items():
        assert f"`{name}`" in page, name
        assert meaning.replace("|", "\\|") in page, name
        assert all(f"`{label}`" in page for label in labels)
    assert json.dumps(prometheus.NAME)[1:-1] in page
