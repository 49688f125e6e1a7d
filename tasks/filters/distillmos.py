"""DistillMOS: a predicted opinion score of the speech, 1 to 5; a second opinion beside `dnsmos`.

Stahl and Gamper 2025, arXiv 2502.05356: a small model distilled from one on XLS-R embeddings.
`uttermill models fetch distillmos` installs it. It takes windows of 7.68 s of the channel mean at
16 kHz, each scaled by its own peak; they are spread evenly over the clip from its start to its end,
`hop` apart at most, and the score is their mean. A shorter clip is repeated until it is long
enough: the package `distillmos` pads it with silence, which doubles the distance to the score of
the longer clip that it is a part of. `compat: package` pads it, too; scores are then within 1e-3 of
it.

Null for a clip without samples, or with samples that are not finite.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import scipy.fft
from pydantic import Field

from ..audio import Clip
from ..base.arrays import RATE, Float32s
from ..models import onnx_session, registry
from ..models.distillmos_graph import BINS, FRAMES
from ..settings import StageSettings, Threshold
from ._derived import blocks_16k

VERSION = 1
ENGINES = {"onnxruntime": "InferenceSession", "scipy.fft": "rfft"}
COSTLY = True
USED_MODELS = (registry.DISTILLMOS,)
COLUMNS = {"distillmos": ("MOS", "predicted quality of the speech, DistillMOS")}
REASONS = {"distillmos": ("low_distillmos", "high_distillmos")}

FRAME, HOP = 320, 160  # samples
WINDOW = FRAMES * HOP  # samples: 7.68 s
EDGE = (FRAME - HOP) // 2  # samples that a window is mirrored by at each end
POWER = 0.3  # of the magnitudes
PACKAGE_HOP = 1.0  # s
ASKED_BY = "the filter distillmos"


class Settings(StageSettings):
    hop: float = Field(
        4.0, ge=0.5, le=WINDOW / RATE, description="Longest way from a window to the next, s."
    )
    compat: Literal["package"] | None = Field(
        None,
        description="package: windows at most a second apart, and silence behind a short clip, as "
        "the package distillmos has them.",
    )
    min: float | None = Threshold(None, "Smallest score kept, MOS.")
    max: float | None = Threshold(None, "Largest score kept, MOS.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    scores = []
    exact = settings.compat == "package"
    hop = PACKAGE_HOP if exact else settings.hop
    for window in windows(blocks_16k(clip), clip.seconds, hop, repeated=not exact):
        if not np.isfinite(window).all():
            return {"distillmos": None}
        session = onnx_session.known(registry.DISTILLMOS, ASKED_BY)
        [score] = session.run(["y"], {"x": spectrum(window)[None]})
        scores.append(float(score[0]))
    return {"distillmos": float(np.mean(scores)) if scores else None}


def windows(
    blocks: Iterable[Float32s], seconds: float, hop: float, repeated: bool = True
) -> Iterator[Float32s]:
    """The windows, float32 [WINDOW], of a signal at 16 kHz of about `seconds`. `repeated`: a signal
    shorter than a window is repeated, not padded with silence."""
    over = max(round(seconds * RATE) - WINDOW, 0)
    count = math.ceil(over / (hop * RATE)) + 1
    starts = [int(share * over) for share in np.linspace(0, 1, count)]
    samples, first = np.empty(0, np.float32), 0  # sample of the signal at which these begin
    for block in blocks:
        samples = np.concatenate([samples, block])
        while starts and len(samples) >= starts[0] - first + WINDOW:
            samples, first = samples[starts[0] - first :], starts.pop(0)
            yield samples[:WINDOW]
    for start in starts:  # of a short clip; or a few samples are missing at the end
        if len(rest := samples[start - first :]):
            silence = np.zeros(WINDOW - len(rest), np.float32)
            yield np.resize(rest, WINDOW) if repeated else np.concatenate([rest, silence])


def spectrum(window: Float32s) -> Float32s:
    """Real and imaginary parts of a window's compressed spectrum, float32 [2, BINS, FRAMES]."""
    scaled = np.pad(window / (np.abs(window).max() + np.float32(1e-8)), EDGE, "reflect")
    frames = np.lib.stride_tricks.sliding_window_view(scaled, FRAME)[::HOP]
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)).astype(np.float32)
    spectra = scipy.fft.rfft(frames * hann, axis=1)
    spectra *= np.maximum(np.abs(spectra), 1e-12) ** (POWER - 1)
    parts = spectra.view(np.float32).reshape(FRAMES, BINS, 2)
    return np.ascontiguousarray(parts.transpose(2, 1, 0), np.float32)
