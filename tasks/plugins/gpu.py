"""Plug-ins that want a GPU (`contracts.LoadedPlugin.wants_gpu`), and what this machine lacks to run
them on one. The setting `device: cuda` forbids running on a CPU."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .. import plugins
from ..base import environment
from ..settings import StageSettings
from ..settings.job import Job
from . import loading
from .contracts import LoadedPlugin

CUBLAS = "libcublas.so.12"  # PyPI's CTranslate2 opens it at its first matrix product
#: The stage of each kind whose plug-ins may want a GPU.
STAGES = {
    "segmenters": "filter",
    "filters": "filter",
    "resamplers": "resample",
    "levels": "resample",
    "asr": "transcribe",
}
DRIVER = Path("/proc/driver/nvidia/gpus")  # made by the loaded driver: one folder per GPU
INSTALL = "pip install 'uttermill[gpu]'"


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A plug-in that wants a GPU."""

    stage: str
    name: str
    plugin: LoadedPlugin
    settings: StageSettings

    @property
    def required(self) -> bool:
        """Whether it must run on a GPU."""
        return dict(self.settings).get("device") == "cuda"

    def fault(self) -> str | None:
        """What this process lacks to run it on a GPU; None when nothing is known to be wrong."""
        return self.plugin.gpu_fault(self.settings)


def requests(job: Job) -> list[GpuRequest]:
    """All plug-ins of a run's stages that want a GPU."""
    wanted = []
    for shelf, chosen in loading.chosen_plugins(job):
        if stage := STAGES.get(shelf):
            plugin, settings = plugins.resolve(shelf, chosen)
            if plugin.wants_gpu(settings):
                wanted.append(GpuRequest(stage, f"{shelf}.{chosen.use}", plugin, settings))
    return wanted


def stages(job: Job) -> frozenset[str]:
    """Stages whose work goes to workers with a GPU, if there are any."""
    return frozenset(request.stage for request in requests(job))


def ctranslate2_fault() -> str | None:
    """What CTranslate2 lacks to run on a GPU: a CUDA build, a driver, a device, cuBLAS."""
    import ctranslate2

    try:
        ctranslate2.get_supported_compute_types("cuda")
    except ValueError as error:
        return (
            f"CTranslate2 {ctranslate2.__version__} is a build without CUDA ({error}): PyPI has "
            "one with it for Linux on x86-64, others are built from source"
        )
    except RuntimeError as error:
        return (
            f"CTranslate2 finds no CUDA device ({error}): it needs NVIDIA's driver for CUDA 12 "
            "(`nvidia-smi` shows what there is)"
        )
    load_libraries()
    try:
        ctypes.CDLL(CUBLAS)
    except OSError as error:
        return f"CTranslate2 needs cuBLAS 12 ({error}): {INSTALL}"
    return None


def driver_count() -> int:
    """The number of GPUs that the driver knows, including those hidden from this process."""
    return len(list(DRIVER.iterdir())) if DRIVER.is_dir() else 0


def onnxruntime_fault() -> str | None:
    """What ONNX Runtime lacks to run on a GPU: its CUDA provider is in another package."""
    import onnxruntime

    providers = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" in providers:
        return None
    return (
        f"ONNX Runtime {onnxruntime.__version__} has only {', '.join(providers)}: "
        "pip uninstall onnxruntime, then pip install onnxruntime-gpu"
    )


def load_libraries() -> None:
    """Load cuBLAS from NVIDIA's wheel, if it is installed: engines open it by its bare name, which
    the loader finds only among loaded libraries."""
    if environment.visible_gpus() == "":
        return  # a worker that sees no GPU
    spec = find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for folder in (Path(place) / "cublas" / "lib" for place in places):
        for library in (folder / CUBLAS.replace("cublas", "cublasLt"), folder / CUBLAS):
            if library.is_file():
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
