"""DNSMOS P.835: predicted opinion scores of speech, background and overall quality, 1 to 5.

Model `sig_bak_ovr.onnx` (Reddy, Gopal and Cutler 2022, doi 10.1109/ICASSP43922.2022.9746108) on
the channel mean at 16 kHz, clipped to ±1. A clip shorter than 9.01 s is doubled until it is long
enough. Windows of 9.01 s start every second: floor(seconds) - 9 of them, at least one. A window's
raw scores r give

    OVRL  -0.06766283 r² + 1.11546468 r + 0.04602535
    SIG   -0.08397278 r² + 1.22083953 r + 0.0052439
    BAK   -0.13166888 r² + 1.60915514 r - 0.39604546

and a clip's scores are the means over its windows. The reference ends windows at
`int((i + 9.01) * 16000)`, which is one sample short for i from 7 to 23 and a few later ones, and
skips those: it scores a clip of 17 to 33 s by its first 15 s. Here every window counts, unless
`compat: emilia` asks for the reference's behaviour.

Null for a clip without samples at 16 kHz, or with samples that are not finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ..audio import Clip
from ..base.arrays import RATE, Float32s
from ..models import registry
from ..plugins.rules import Limit, Rule
from ..settings import StageSettings, Threshold, Transient
from . import _dnsmos
from ._derived import KEPT_SECONDS, blocks_16k, mono_16k

VERSION = 2  # 2: windows share more, so last digits differ
COSTLY = True
USED_MODELS = (registry.DNSMOS,)
ASKED_BY = _dnsmos.ASKED_BY
COLUMNS = {
    "dnsmos_sig": ("MOS", "predicted quality of the speech, DNSMOS P.835"),
    "dnsmos_bak": ("MOS", "predicted unobtrusiveness of the background, DNSMOS P.835"),
    "dnsmos_ovrl": ("MOS", "predicted overall quality, DNSMOS P.835"),
}
#: Coefficients of r², r and 1, in the order of the model's scores.
_FIT = np.array(
    [
        [-0.08397278, 1.22083953, 0.0052439],
        [-0.13166888, 1.60915514, -0.39604546],
        [-0.06766283, 1.11546468, 0.04602535],
    ]
)


class Settings(StageSettings):
    compat: Literal["emilia"] | None = Field(
        None, description="emilia: skip the windows that the reference implementation loses."
    )
    precision: _dnsmos.Precision = Field(
        "float32",
        description="int8: the heaviest layers in integers, for half the CPU time; OVRL is then "
        "0.01 off in the mean. On CPUs only.",
    )
    device: Literal["cpu", "cuda"] = Transient(
        "cpu", "cuda: on workers with a GPU, which need ONNX Runtime's GPU build."
    )
    min_sig: float | None = Threshold(None, "Smallest speech score kept, MOS.")
    max_sig: float | None = Threshold(None, "Largest speech score kept, MOS.")
    min_bak: float | None = Threshold(None, "Smallest background score kept, MOS.")
    max_bak: float | None = Threshold(None, "Largest background score kept, MOS.")
    min_ovrl: float | None = Threshold(None, "Smallest overall score kept, MOS; Emilia: 3.0.")
    max_ovrl: float | None = Threshold(None, "Largest overall score kept, MOS.")

    @model_validator(mode="after")
    def _integers_on_cpus(self) -> Settings:
        if self.precision == "int8" and self.device == "cuda":
            raise ValueError("precision int8 is for CPUs: with device cuda, set it to float32")
        return self


def wants_gpu(settings: Settings) -> bool:
    return settings.device == "cuda"


def gpu_fault(settings: Settings) -> str | None:
    """Why ONNX Runtime cannot use a GPU here, or None; see `tasks.plugins.gpu`."""
    from ..plugins import gpu

    return gpu.onnxruntime_fault()


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    keep = _kept_by_reference if settings.compat == "emilia" else None
    group = _dnsmos.GROUPS[settings.device]
    how = settings.device, settings.precision
    finite = all(np.isfinite(block).all() for block in blocks_16k(clip))
    windows = [*_dnsmos.windows(_signal(clip), keep, group, *how)] if finite else []
    if not windows:
        return dict.fromkeys(COLUMNS)
    raw = np.concatenate(windows).astype(np.float64)
    fitted = _FIT[:, 0] * raw**2 + _FIT[:, 1] * raw + _FIT[:, 2]
    return dict(zip(COLUMNS, fitted.mean(axis=0).tolist(), strict=True))


def _signal(clip: Clip) -> Iterator[Float32s]:
    """The model's input in blocks: 16 kHz mono in ±1, at least 9.01 s; none for an empty clip."""
    if clip.seconds > KEPT_SECONDS:
        yield from (np.clip(block, -1, 1) for block in blocks_16k(clip))
        return
    samples = np.clip(mono_16k(clip), -1, 1)
    while 0 < len(samples) < _dnsmos.WINDOW:
        samples = np.concatenate([samples, samples])
    yield samples


def _kept_by_reference(window: int) -> bool:
    return int((window + 9.01) * RATE) - window * RATE >= _dnsmos.WINDOW


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s = settings
    return (
        Limit("dnsmos_ovrl", s.min_ovrl, s.max_ovrl, "low_dnsmos_ovrl", "high_dnsmos_ovrl"),
        Limit("dnsmos_sig", s.min_sig, s.max_sig, "low_dnsmos_sig", "high_dnsmos_sig"),
        Limit("dnsmos_bak", s.min_bak, s.max_bak, "low_dnsmos_bak", "high_dnsmos_bak"),
    )
