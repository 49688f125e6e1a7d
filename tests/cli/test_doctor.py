"""The doctor's proofs, each with a control that must fail."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_show import said
from uttermill.flows.cli import doctor
from uttermill.flows.cluster import local, proofs
from uttermill.flows.cluster.proofs import Finding
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.tasks.audio import encoding
from uttermill.tasks.base import memory_limits
from uttermill.tasks.stages.spawn_check import started_afresh


def good() -> dict[str, dict[str, Any]]:
    """Facts of two sound workers."""
    fact: dict[str, Any] = {
        "command": "python -c from multiprocessing.spawn import spawn_main; spawn_main()",
        "modules": dict.fromkeys(proofs.ENGINES, True),
        "loaded_at": 1.0,
        "ready_at": 2.0,
        "prefect": False,
        "caps": dict.fromkeys(proofs.CAPS, "1"),
        "pools": {"openblas": 1},
        "versions": proofs.versions(),
        "local": "/w",
        "temp_fault": None,
        "providers": ["CPUExecutionProvider"],
        "cuda": 0,
        "cuda_fault": None,
        "host": "h",
        "address": "tcp://h:1",
        "threads": 1,
        "resources": {"CPU": 1},
        "visible": "",
        "visible_at_start": "",
        "codecs": dict.fromkeys(encoding.FORMATS),
        "free": 10**10,
    }
    return {name: {**fact, "name": name, "temp": f"/w/{name}"} for name in ("a", "b")}


def on_gpus(*devices: str, **wrong: Any) -> dict[str, dict[str, Any]]:
    """Facts of sound workers with a GPU each, and of one without; the first may be wrong."""
    pins = [{"resources": {"GPU": 1}, "visible": d, "visible_at_start": d} for d in devices]
    workers = {f"gpu-{n}": {**good()["a"], **pin, "name": f"gpu-{n}"} for n, pin in enumerate(pins)}
    workers["gpu-0"].update(wrong)
    return {**workers, "b": good()["b"]}


def test_sound_facts_pass_every_proof() -> None:
    assert [proof(good()).name for proof in proofs.PROOFS if not proof(good()).ok] == []


@pytest.mark.parametrize(
    ("proof", "wrong"),
    [
        (proofs.start_method, {"command": "python flow.py"}),
        (
            proofs.start_method,
            {"command": "python -c from multiprocessing.forkserver import main"},
        ),
        (proofs.modules_loaded, {"loaded_at": None}),
        (proofs.modules_loaded, {"ready_at": None}),
        (proofs.modules_loaded, {"loaded_at": 3.0}),
        (proofs.modules_loaded, {"modules": {"resampy": False}}),
        (proofs.thread_caps, {"caps": {"OMP_NUM_THREADS": "8"}}),
        (proofs.thread_caps, {"caps": {"OMP_NUM_THREADS": None}}),
        (proofs.thread_caps, {"pools": {"openblas": 2}}),
        (proofs.one_task, {"threads": 8}),
        (proofs.onnx_providers, {"providers": []}),
        (proofs.cuda_devices, {"cuda_fault": "no driver"}),
        (proofs.pinned, {"visible": "0", "visible_at_start": "0"}),
        (proofs.pinned, {"visible": None, "visible_at_start": None}),
        (proofs.codecs_readable, {"codecs": {"mp3": "LibsndfileError: no"}}),
        (proofs.temporary_directories, {"temp": "/w/b"}),
        (proofs.temporary_directories, {"temp": "/tmp"}),
        (proofs.temporary_directories, {"temp_fault": "read-only"}),
        (proofs.disk_free, {"free": 10**6}),
        (proofs.versions_equal, {"versions": {"numpy": "1.0"}}),
        (proofs.no_prefect, {"prefect": True}),
    ],
)
def test_each_proof_has_a_control(proof: Any, wrong: dict[str, Any]) -> None:
    workers = good()
    workers["a"].update(wrong)
    found: Finding = proof(workers)
    assert not found.ok
    assert "a" in found.detail


def test_the_memory_limit_is_shown_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    for size, fits in ((10**9, True), (10**8, False)):
        limit = memory_limits.Limit(size, "memory.max of the cgroup /slurm/7")
        monkeypatch.setattr(memory_limits, "of_run", lambda limit=limit: limit)
        found = proofs.memory()
        assert found.ok == fits
        assert f"{size / 1e9:.2f} GB for a run on this machine (memory.max of" in found.detail
    assert "GB for the main process" in proofs.memory().detail


def test_pins() -> None:
    assert proofs.pinned(good()).ok
    found = proofs.pinned(on_gpus("0", "1"))
    assert (found.ok, found.detail) == (True, "2 workers on 2 GPUs")
    assert "2 workers share GPU 1" in proofs.pinned(on_gpus("1", "1")).detail
    assert proofs.pinned(on_gpus("1", "1"), per_gpu=2).ok
    assert proofs.pinned(on_gpus("1", "1", host="another")).ok
    for seen in ("", None, "0,1"):
        found = proofs.pinned(on_gpus("0", visible=seen, visible_at_start=seen))
        assert (found.ok, found.detail.startswith("gpu-0 has CUDA_VISIBLE")) == (False, True)
    assert "when it loaded" in proofs.pinned(on_gpus("0", visible_at_start="0,1")).detail


def test_hosts_are_counted() -> None:
    two = {"a": {**good()["a"], "host": "one"}, "b": {**good()["b"], "host": "other"}}
    assert proofs.joined(two).detail == "2 joined, on 2 hosts: one (1), other (1)"
    assert proofs.joined(good()).detail == "2 joined, on 1 host: h (2)"
    assert not proofs.joined({}).ok
    fewer = proofs.joined(good(), wanted=3)
    assert (fewer.ok, fewer.detail) == (
        False, "2 joined (the settings ask for 3), on 1 host: h (2)",
    )  # fmt: skip
    same = {name: {**fact, "temp": "/w/same"} for name, fact in two.items()}
    assert proofs.temporary_directories(same).ok  # each on its own disk
    assert not proofs.temporary_directories({n: {**f, "host": "h"} for n, f in same.items()}).ok


def test_a_scheduler_without_the_configuration_is_told() -> None:
    ours = local.DASK_CONFIG["distributed"]["scheduler"]
    assert proofs.scheduler(ours, ours).ok
    found = proofs.scheduler({**ours, "allowed-failures": 3}, ours)
    assert not found.ok
    assert "allowed-failures 3 (ours 0)" in found.detail
    assert not proofs.scheduler({}, ours).ok


def test_a_folder_that_a_worker_does_not_see_is_told() -> None:
    assert proofs.folders({"/data": {"a": True, "b": True}}).ok
    found = proofs.folders({"/data": {"a": True, "b": False}})
    assert (found.ok, found.detail.startswith("b does not see /data")) == (False, True)


def test_a_worker_that_cannot_write_to_out_is_told(tmp_path: Path) -> None:
    out = tmp_path / "a/b/out"
    asked: list[Path] = []

    def ask(function: Any, folder: str, mode: int) -> dict[str, bool]:
        asked.append(Path(folder))
        return {"w1": function(folder, mode), "w2": seen}

    for seen in (True, False):
        found = doctor._out(out, ask)
        assert found.ok is seen
        assert asked[-1].parent == tmp_path, "the folder nearest to OUT that is there"
        assert not asked[-1].exists()
    assert found.detail.startswith("w2 cannot write there: ")
    assert [*tmp_path.iterdir()] == []


def test_whose_cluster_is_examined(tmp_path: Path) -> None:
    assert doctor.chosen(None, []) == (ClusterSettings(), doctor.Places())
    file = tmp_path / "settings.yaml"
    file.write_text(
        f"sources: [{{kind: folder, path: {tmp_path}, name: a}}]\nout: {tmp_path}/not-yet\n"
        "cluster: {workers: 2}\n"
    )
    chosen, places = doctor.chosen(str(file), ["cluster.workers=3"])
    assert chosen.workers == 3
    assert places == doctor.Places((str(tmp_path),), tmp_path / "not-yet")
    assert doctor.chosen(str(file), ["out=s3://bucket/out"])[1].out is None


def test_what_each_worker_sees_is_shown() -> None:
    shown = proofs.each_worker(on_gpus("GPU-8f1c"))
    assert [(finding.name, finding.ok) for finding in shown] == [("b", True), ("gpu-0", True)]
    assert shown[0].detail.startswith("tcp://h:1 on h; ")
    assert "CPU 1; CUDA_VISIBLE_DEVICES ''; CPUExecutionProvider" in shown[0].detail
    assert "GPU 1; CUDA_VISIBLE_DEVICES 'GPU-8f1c'" in shown[1].detail


@pytest.mark.parametrize(
    ("command", "fresh"),
    [
        ("/v/bin/python /v/bin/dask worker tcp://h:8786", True),
        ("/v/bin/python -m distributed.cli.dask_worker tcp://h:8786", True),
        ("/v/bin/python /v/bin/dask-worker", True),
        ("/v/bin/python /v/bin/uttermill run", False),
        ("python -c from multiprocessing.forkserver import main", False),
    ],
)
def test_command_lines(command: str, fresh: bool) -> None:
    assert started_afresh(command) is fresh


@pytest.mark.parametrize("kind", encoding.FORMATS)
def test_codecs_here(kind: str) -> None:
    assert encoding.fault(kind) is None


def test_a_codec_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(encoding.FFMPEG, "webm", ("webm", "nonesuch"))
    assert "nonesuch" in (encoding.fault("webm") or "")


@pytest.mark.cluster
def test_workers_that_do_not_start_are_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "version", lambda name: "9.9")
    assert doctor.doctor(Namespace(json=True), ClusterSettings(workers=1), doctor.Places()) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "9.9" in found["findings"][0]["detail"]


def test_the_table_shows_every_finding() -> None:
    text = said(doctor.show, [Finding("one", True, "fine"), Finding("two", False, "not [so] fine")])
    assert "not [so] fine" in text
    assert "no" in text
