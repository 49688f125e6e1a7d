"""Which GPUs there are, who gets them, and what is refused before any worker starts."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.helpers import corpus
from uttermill.flows import checks
from uttermill.flows.cluster import gpus, worker_counts
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run.cluster_executor import ClusterExecutor
from uttermill.tasks.base import memory_limits
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.plugins import gpu
from uttermill.tasks.settings.job import Done, Job

SEEN = "tests.plugins.seen_asr"


class NVMLError(Exception):
    pass


def nvml(*slices: int | None) -> SimpleNamespace:
    """NVIDIA's binding on a machine of GPUs: None is one that cannot be divided, n has n slices."""

    def mig_mode(handle: int) -> list[int]:
        if slices[handle] is None:
            raise NVMLError("not supported")
        return [int(bool(slices[handle])), 0]

    def part(handle: int, index: int) -> str:
        if index >= (slices[handle] or 0):
            raise NVMLError("not found")
        return f"MIG-{handle}-{index}"

    return SimpleNamespace(
        NVMLError=NVMLError, nvmlInit=lambda: None, nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(slices), nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetMigMode=mig_mode, nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=part,
        nvmlDeviceGetUUID=lambda h: h if isinstance(h, str) else f"GPU-{h}",
    )  # fmt: skip


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Set up a machine: what NVML knows (None: there is none), the kernel's count, the variable."""

    def make(known: Any = None, kernel: int = 0, variable: str | None = None) -> None:
        monkeypatch.setitem(sys.modules, "pynvml", known)  # None: an import fails
        monkeypatch.setattr(gpu, "DRIVER", tmp_path / "gpus")
        for number in range(kernel):
            (tmp_path / "gpus" / f"0000:{number:02d}:00.0").mkdir(parents=True)
        if variable is None:
            monkeypatch.delenv(gpus.VARIABLE, raising=False)
        else:
            monkeypatch.setenv(gpus.VARIABLE, variable)

    make()
    return make


@pytest.mark.parametrize(
    ("known", "kernel", "variable", "found"),
    [
        (None, 0, None, ()),
        (None, 2, None, ("0", "1")),
        (nvml(None, None, None), 0, None, ("0", "1", "2")),
        (nvml(), 4, None, ()),
        (nvml(0, 0), 0, None, ("0", "1")),
        (nvml(2, None), 0, None, ("MIG-0-0", "MIG-0-1", "GPU-1")),
        (nvml(None, None, None), 0, "2,0", ("2", "0")),
        (None, 2, "", ()),
        (None, 2, "-1", ()),
        (None, 2, "NoDevFiles", ()),
        (None, 2, "1,-1,0", ("1",)),
        (None, 2, "0,0", ("0",)),
        (None, 0, " 3 ", ("3",)),
        (None, 0, "GPU-8f1c,MIG-GPU-8f1c/1/0", ("GPU-8f1c", "MIG-GPU-8f1c/1/0")),
    ],
)
def test_what_auto_finds(
    machine: Callable[..., None], known: Any, kernel: int, variable: str | None,
    found: tuple[str, ...],
) -> None:  # fmt: skip
    machine(known, kernel, variable)
    assert gpus.devices("auto") == found
    assert gpus.devices("none") == ()


def test_a_driver_that_is_not_loaded_is_no_error(machine: Callable[..., None]) -> None:
    def init() -> None:
        raise NVMLError("Driver Not Loaded")

    machine(SimpleNamespace(NVMLError=NVMLError, nvmlInit=init))
    assert gpus.devices("auto") == ()


@pytest.mark.parametrize(
    ("chosen", "known", "variable", "words"),
    [
        ((0, 2), None, "0,1", r"names 2, but CUDA_VISIBLE_DEVICES here allows 0, 1"),
        ((0,), None, "", "allows no GPU"),
        ((0,), None, "GPU-8f1c", "name GPUs as it does"),
        ((0, 7), nvml(None, None), None, "names 7, but GPUs here are numbered below 2"),
    ],
)
def test_gpus_that_cannot_be_had_are_refused_before_any_start(
    machine: Callable[..., None], chosen: Any, known: Any, variable: str | None, words: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    machine(known, variable=variable)
    with pytest.raises(ConfigError, match=words):
        Cluster(ClusterSettings(gpus=chosen), tmp_path, gpu=True)


@pytest.mark.parametrize(
    "values",
    [{"gpus": "all"}, {"gpus": []}, {"gpus": [0, "0"]}, {"gpus": [-1]}, {"gpus": ["tpu"]},
     {"gpus": [0], "kind": "address", "address": "tcp://h:1"}, {"workers_per_gpu": 0}],
)  # fmt: skip
def test_bad_settings(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ClusterSettings.model_validate(values)


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.system

    monkeypatch.setattr(dask.system, "CPU_COUNT", 8)
    limit = memory_limits.Limit(20_000_000_000, "a cgroup")
    monkeypatch.setattr(memory_limits, "of_run", lambda: limit)
    two = ClusterSettings(gpus=(0, 1), workers_per_gpu=2)
    workers = worker_counts.local_workers(two, gpu=True)
    assert workers == worker_counts.Fleet(4, ("0", "0", "1", "1"))
    assert worker_counts.memory(two, workers) == int(0.9 * (20e9 - worker_counts.Needs().main)) // 8
    assert worker_counts.asr_threads(two, workers, on_gpu=True) == 1
    assert worker_counts.asr_threads(two, workers, on_gpu=False) == 2
    assert worker_counts.local_workers(two, gpu=False) == worker_counts.Fleet(8)
    many = ClusterSettings(gpus=tuple(range(16)))
    assert worker_counts.local_workers(many, gpu=True).cpus == 1
    assert worker_counts.local_workers(
        ClusterSettings(gpus=(0,), workers=3), gpu=True
    ) == worker_counts.Fleet(3, ("0",))
    assert (
        worker_counts.local_workers(
            ClusterSettings(kind="address", address="tcp://h:1"), gpu=True
        ).pins
        == ()
    )


@pytest.mark.parametrize(
    ("backend", "threads"),
    [({"use": "faster_whisper"}, 4), ({"use": "faster_whisper", "threads": 3}, 3),
     ({"use": "fake"}, None)],
)  # fmt: skip
def test_a_recogniser_has_its_share_of_the_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: dict[str, Any], threads: int | None
) -> None:
    monkeypatch.setattr("dask.system.CPU_COUNT", 8)
    job = corpus.job(tmp_path, transcribe={"backend": backend})
    found = worker_counts.with_threads(job, ClusterSettings(workers=2)).transcribe.backend
    assert found.options.get("threads") == threads


def prepared(tmp_path: Path, backend: dict[str, Any], **cluster: Any) -> Any:
    corpus.make(tmp_path / "in", 1)
    return checks.check(corpus.wishes(tmp_path, transcribe={"backend": backend}, cluster=cluster))


def test_who_wants_a_gpu_and_why_it_could_not_have_one(tmp_path: Path) -> None:
    job = prepared(tmp_path, {"use": SEEN}, gpus=[0])
    assert gpu.stages(job) == {"transcribe"}
    assert gpu.stages(prepared(tmp_path, {"use": SEEN, "device": "cpu"})) == frozenset()
    assert gpu.stages(prepared(tmp_path, {"use": "fake"}, gpus=[0])) == frozenset()
    lacking = {"use": SEEN, "fault": "the driver is too old: get a newer one"}
    with pytest.raises(ConfigError, match=r"would run on GPU 3, but the driver is too old"):
        prepared(tmp_path, lacking, gpus=[3])
    prepared(tmp_path, lacking)  # no GPU, no fault
    prepared(tmp_path, lacking, gpus="none")
    with pytest.raises(ConfigError, match=r"device: cuda.*no GPU: cluster\.gpus is none"):
        prepared(tmp_path, {"use": SEEN, "device": "cuda"}, gpus="none")


class Recorder:
    """A cluster that writes down which kind of worker each call was for."""

    settings = ClusterSettings()

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds
        self.asked: list[tuple[str, str]] = []

    def count(self, kind: str) -> int:
        return 1

    live = count

    def submit(
        self, function: Any, stage: str, job: Job, shard: str, seconds: float, *, kind: str
    ) -> Future[Done]:
        self.asked.append((stage, kind))
        future: Future[Done] = Future()
        future.set_result(Done(stage, shard, 1, 0))
        return future


def test_each_stage_goes_to_its_kind_of_worker(tmp_path: Path) -> None:
    job = prepared(tmp_path, {"use": SEEN}, gpus=[0])
    for kinds, last in (
        ((worker_counts.CPU, worker_counts.GPU), worker_counts.GPU),
        ((worker_counts.CPU,), worker_counts.CPU),
    ):
        workers: Any = Recorder(*kinds)
        caller = ClusterExecutor(workers)
        for stage in ("filter", "resample", "transcribe"):
            caller.stage(stage, job, "shard-000000", 1.0)
        asked = [
            ("filter", worker_counts.CPU),
            ("resample", worker_counts.CPU),
            ("transcribe", last),
        ]
        assert workers.asked == asked


def test_engines_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctranslate2
    import onnxruntime

    def types(error: Exception | None) -> Callable[[str], set[str]]:
        def supported(device: str) -> set[str]:
            if error:
                raise error
            return {"float16"}

        return supported

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert "pip install onnxruntime-gpu" in (gpu.onnxruntime_fault() or "")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    assert gpu.onnxruntime_fault() is None
    for error, words in (
        (ValueError("not compiled with CUDA support"), "a build without CUDA"),
        (RuntimeError("driver version is insufficient"), "NVIDIA's driver"),
    ):
        monkeypatch.setattr(ctranslate2, "get_supported_compute_types", types(error))
        assert words in (gpu.ctranslate2_fault() or "")
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", types(None))
    monkeypatch.setattr(gpu, "CUBLAS", "libnonesuch.so.12")
    assert "needs cuBLAS 12" in (gpu.ctranslate2_fault() or "")
    monkeypatch.setattr(gpu, "CUBLAS", "libc.so.6")
    assert gpu.ctranslate2_fault() is None
