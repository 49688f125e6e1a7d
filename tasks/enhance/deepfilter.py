"""DeepFilterNet 3 takes noise out of full-band speech (Schröter et al. 2023, arXiv 2305.08227)."""

from __future__ import annotations

from tasks.enhance import Enhancer, EnhancerSettings, _deepfilter
from tasks.models import model_files, registry
from tasks.settings import Transient

VERSION = 1
RATE = 48_000
ENGINES = {"onnxruntime": "InferenceSession"}
ASKED_BY = "enhance.use=deepfilter"


class Settings(EnhancerSettings):
    path: str | None = Transient(
        None, "Folder with DeepFilterNet3_onnx.tar.gz; default: the installed wheel."
    )


def identity(settings: Settings) -> str:
    """The hash of the model, which is checked before a worker starts."""
    return registry.DEEPFILTER.files[0].sha256


def known_models(settings: Settings) -> tuple[registry.Model, ...]:
    return (registry.DEEPFILTER,)


def check_weights(settings: Settings) -> None:
    """ConfigError if the model is missing or another one."""
    model_files.located(registry.DEEPFILTER, ASKED_BY, settings.path)


def start(settings: Settings) -> Enhancer:
    return _deepfilter.Stream(model_files.located(registry.DEEPFILTER, ASKED_BY, settings.path))
