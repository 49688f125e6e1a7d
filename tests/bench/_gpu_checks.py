"""Checks on a machine with a GPU: pinning, equal texts, equal scores, halved batches.

Each check returns its measurements. It raises `Skipped` if it cannot run, AssertionError if a
measurement is wrong.
"""

import ctypes
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.bench.transcribe import Said
from uttermill.flows.cluster import gpus, proofs
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.tasks import scoring
from uttermill.tasks.asr import _pieces, faster_whisper
from uttermill.tasks.asr._whisper import loading
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.filters import dnsmos
from uttermill.tasks.plugins import gpu

POINTS = 0.5  # of WER, between CPU and CUDA
MOS = 0.02  # between CPU and CUDA; tensor cores round to 10 bits
FREE = 700e6  # bytes left free on the GPU, so that a batch does not fit
FITS = 2  # clips at a time that the engine accepts in the check without a GPU


class Skipped(Exception):
    """Why a part cannot run on this machine."""


def pins() -> JsonObject:
    """Each GPU has a worker that sees only it, and CPU workers see none. Without a GPU, the check
    uses two made-up names, because it does not touch CUDA."""
    there = gpus.devices("auto")
    chosen: Any = "auto" if there else ("0", "1")
    settings = ClusterSettings.model_validate({"workers": 1, "gpus": chosen})
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(settings, Path(folder) / "workers", gpu=True) as cluster,
    ):
        workers = cluster.client.run(proofs.gather)
    finding = proofs.pinned(workers)
    assert finding.ok, finding.detail
    seen = {str(fact["name"]): fact["visible"] for fact in workers.values()}
    expected = set(there) if there else set(chosen)
    assert {name for name in seen.values() if name} == expected, seen
    assert any(name == "" for name in seen.values()), "no worker without a GPU"
    if there:
        lacking = proofs.cuda_devices(workers)
        assert lacking.ok, lacking.detail
    return {"gpus": len(there), "workers": seen, "names_only": not there}


def words(said: Sequence[Said], engine: Any, options: JsonObject) -> tuple[float, list[str], float]:
    """(WER in per cent, texts, s) of our backend on clips."""
    backend = faster_whisper.Backend(faster_whisper.Settings.model_validate(options), engine)
    began = time.perf_counter()
    found = list(backend.transcribe([one.clip for one in said]))
    spent = time.perf_counter() - began
    errors = [one.error for one in found if one.error]
    assert not errors, errors[0]
    texts = [one.text or "" for one in found]
    counts = [scoring.score(s.text, t, "en") for s, t in zip(said, texts, strict=True)]
    return 100 * (scoring.total(counts).wer or 0.0), texts, spent


def texts(said: Sequence[Said], model: str, threads: int) -> JsonObject:
    """WER of CTranslate2 on CUDA, compared with the CPU in float32; in int8, the CPU's default,
    some words differ even between CPUs."""
    needs_cuda(gpu.ctranslate2_fault())
    options = {"model": model, "language": "en"}
    found: dict[str, float] = {}
    walls: dict[str, float] = {}
    for device, compute in (("cuda", "auto"), ("cpu", "float32")):
        settings = {**options, "device": device, "compute_type": compute, "threads": threads}
        loaded = loading.load(faster_whisper.Settings.model_validate(settings))
        loading.warm(loaded)
        found[device], _, walls[device] = words(said, loaded, settings)
    apart = abs(found["cuda"] - found["cpu"])
    assert apart <= POINTS, f"WER {found['cuda']:.2f} % on CUDA, {found['cpu']:.2f} % on the CPU"
    seconds = sum(len(one.clip.samples) for one in said) / faster_whisper.Backend.RATE
    return {
        "clips": len(said),
        **{f"wer_{device}": round(wer, 2) for device, wer in found.items()},
        **{f"x_real_time_{device}": round(seconds / wall, 1) for device, wall in walls.items()},
    }


def opinions(said: Sequence[Said]) -> JsonObject:
    """DNSMOS on CUDA beside the CPU."""
    needs_cuda(gpu.onnxruntime_fault())
    clips = [Clip.from_samples(one.clip.samples, 16_000) for one in said]
    found: dict[str, list[dict[str, float | None]]] = {}
    walls: dict[str, float] = {}
    for device in ("cuda", "cpu"):
        settings = dnsmos.Settings.model_validate({"device": device})
        dnsmos.measure(clips[0], settings)  # builds kernels
        began = time.perf_counter()
        found[device] = [dnsmos.measure(clip, settings) for clip in clips]
        walls[device] = time.perf_counter() - began
    worst = max(
        abs((one[name] or 0.0) - (other[name] or 0.0))
        for one, other in zip(found["cuda"], found["cpu"], strict=True)
        for name in one
    )
    assert worst <= MOS, f"scores differ by {worst:.4f} MOS"
    seconds = sum(clip.seconds for clip in clips)
    return {
        "clips": len(clips),
        "most_apart_mos": round(worst, 5),
        **{f"x_real_time_{device}": round(seconds / wall, 1) for device, wall in walls.items()},
    }


def needs_cuda(fault: str | None) -> None:
    """Raises Skipped if there is no GPU, or if an engine cannot use it."""
    if not gpus.devices("auto"):
        raise Skipped("there is no GPU here that CUDA_VISIBLE_DEVICES allows")
    if fault is not None:
        raise Skipped(fault)


def halves(said: Sequence[Said], model: str, threads: int) -> JsonObject:
    """A batch that does not fit into memory is halved, and every clip still gets its text.

    On a GPU, its memory is filled first; without one, the engine refuses more than `FITS` clips
    with CUDA's error.
    """
    on_gpu = bool(gpus.devices("auto")) and gpu.ctranslate2_fault() is None
    options: JsonObject = {
        "model": model, "language": "en", "device": "cuda" if on_gpu else "cpu",
        "threads": threads, "batch_size": len(said),
    }  # fmt: skip
    loaded = loading.load(faster_whisper.Settings.model_validate(options))
    loading.warm(loaded)
    with _full_memory() if on_gpu else _refusing(loaded), _lowered() as limits:
        wer, heard, _ = words(said, loaded, options)
    assert limits, "the batch was not refused: nothing is proved"
    usual, whole, _ = words(said, loaded, options)
    assert all(heard) == all(whole), "a clip lost its text"
    if on_gpu:  # its sums depend on the size of a batch
        assert abs(wer - usual) <= POINTS, f"WER {wer:.2f} % in halves, {usual:.2f} % whole"
    else:
        assert heard == whole, "halves changed a text"
    return {"clips": len(said), "down_to": min(limits), "real_memory": on_gpu,
            "wer_in_halves": round(wer, 2), "wer_whole": round(usual, 2)}  # fmt: skip


@contextmanager
def _lowered() -> Iterator[list[int]]:
    """The limits to which batches were lowered meanwhile."""
    found: list[int] = []
    lower = _pieces.Limit.lower

    def noted(self: _pieces.Limit, most: int) -> None:
        found.append(most)
        lower(self, most)

    _pieces.Limit.lower = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        _pieces.Limit.lower = lower  # type: ignore[method-assign]


@contextmanager
def _refusing(model: Any) -> Iterator[None]:
    """An engine whose searches take at most `FITS` clips."""
    engine = model.model

    def generate(encoded: Any, prompts: Sequence[Any], **options: Any) -> Any:
        if len(prompts) > FITS:
            raise RuntimeError("CUDA failed with error out of memory")
        return engine.generate(encoded, prompts, **options)

    names = ("encode", "detect_language", "align", "device", "is_multilingual")
    model.model = SimpleNamespace(generate=generate, **{n: getattr(engine, n) for n in names})
    try:
        yield
    finally:
        model.model = engine


@contextmanager
def _full_memory() -> Iterator[None]:
    """Fill the first GPU's memory except `FREE` bytes, by plain allocations."""
    driver = ctypes.CDLL("libcuda.so.1")

    def ask(name: str, *args: Any) -> None:
        code = getattr(driver, name)(*args)
        if code:
            raise RuntimeError(f"{name} answered {code}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ask("cuInit", 0)
    ask("cuDeviceGet", ctypes.byref(device), 0)
    ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    ask("cuCtxSetCurrent", context)
    ask("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    held = ctypes.c_ulonglong()
    ask("cuMemAlloc_v2", ctypes.byref(held), ctypes.c_size_t(max(1, int(free.value - FREE))))
    try:
        yield
    finally:
        ask("cuMemFree_v2", held)
        ask("cuDevicePrimaryCtxRelease_v2", device)
