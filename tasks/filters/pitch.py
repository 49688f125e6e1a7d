"""Pitch of the voice: its median in Hz, its range in semitones, and how much of the utterance has
one.

Swift-F0 (Nieradzik 2025, arXiv 2508.18440) gives a fundamental frequency and its confidence for
every 16 ms of the channel mean at 16 kHz. A frame is voiced if its confidence is at least 0.5; of
frames without a sample above -60 dBFS that is never so, since digital silence confuses the model.

    pitch_median  median over the voiced frames, Hz
    pitch_range   from their 5th to their 95th percentile, 12 log2(high / low) semitones
    pitch_voiced  voiced frames over all frames

Median and range are null for less than 0.2 s of voice. A second voice, music or a hum counts as
the voice where it is the louder one.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from ..audio import Clip
from ..base.arrays import Bools, Float32s, Float64s
from ..models import onnx_session, registry
from ..settings import StageSettings, Threshold
from ._derived import blocks_16k

VERSION = 1
ENGINES = {"onnxruntime": "InferenceSession"}
COSTLY = True
USED_MODELS = (registry.SWIFT_F0,)
COLUMNS = {
    "pitch_median": ("Hz", "median of the voice's fundamental frequency"),
    "pitch_range": ("semitones", "from the 5th to the 95th percentile of the frequency"),
    "pitch_voiced": ("1", "share of the 16 ms frames that are voiced"),
}
REASONS = {
    "pitch_median": ("low_voice", "high_voice"),
    "pitch_range": ("monotonous", "wide_pitch"),
    "pitch_voiced": ("little_voice", "much_voice"),
}

HOP = 256  # samples at 16 kHz
BEFORE, AFTER = 11, 10  # frames of context on which a frame depends
FRAMES = 1875  # in one call: 30 s
LOWEST, HIGHEST = 50.0, 800.0  # Hz; children reach 600, and shouts 800
VOICED = 0.5
QUIETEST = 1e-3  # largest sample of a frame
LEAST_FRAMES = 13  # 0.2 s
ASKED_BY = "the filter pitch"


class Settings(StageSettings):
    min_median: float | None = Threshold(None, "Lowest median kept, Hz.", ge=0)
    max_median: float | None = Threshold(None, "Highest median kept, Hz.", ge=0)
    min_range: float | None = Threshold(
        None, "Narrowest range kept, semitones; read lists have about 5.", ge=0
    )
    max_range: float | None = Threshold(
        None, "Widest range kept, semitones; beyond 24 it is often two voices.", ge=0
    )
    min_voiced: float | None = Threshold(None, "Smallest voiced share kept.", ge=0, le=1)
    max_voiced: float | None = Threshold(None, "Largest voiced share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    none = dict.fromkeys(COLUMNS)
    voiced: list[Float64s] = []
    count = 0
    for samples, first, last in _windows(blocks_16k(clip)):
        if not np.isfinite(samples).all():
            return none
        pitch, is_voiced = _frames(samples)
        voiced.append(pitch[first:last][is_voiced[first:last]])
        count += last - first
    if not count:
        return none
    hertz = np.concatenate(voiced)
    share = len(hertz) / count
    if len(hertz) < LEAST_FRAMES:
        return {**none, "pitch_voiced": share}
    low, median, high = np.percentile(hertz, (5, 50, 95))
    semitones = 12 * float(np.log2(high / low))
    return {"pitch_median": float(median), "pitch_range": semitones, "pitch_voiced": share}


def _windows(blocks: Iterable[Float32s]) -> Iterator[tuple[Float32s, int, int]]:
    """(samples at 16 kHz [n], first and last frame there that count) of up to 30 s at a time.

    Windows start on a grid of their own, whatever the blocks, and overlap by the context of a
    frame, so that each frame is what it is in one pass over the clip."""
    samples, before = np.empty(0, np.float32), 0
    for block in blocks:
        samples = np.concatenate([samples, block])
        while len(samples) >= (before + FRAMES + AFTER) * HOP:
            yield samples[: (before + FRAMES + AFTER) * HOP], before, before + FRAMES
            samples = samples[(before + FRAMES - BEFORE) * HOP :]
            before = BEFORE
    if (frames := len(samples) // HOP) > before:
        yield samples, before, frames


def _frames(samples: Float32s) -> tuple[Float64s, Bools]:
    """(fundamental frequency in Hz [frames], whether each frame is voiced [frames])."""
    band = {"fmin": np.array(LOWEST, np.float32), "fmax": np.array(HIGHEST, np.float32)}
    inputs = {"audio": samples[None], **band}
    session = onnx_session.known(registry.SWIFT_F0, ASKED_BY)
    pitch, confidence = (values[0] for values in session.run(["pitch", "confidence"], inputs))
    count = len(samples) // HOP
    loud = np.abs(samples[: count * HOP]).reshape(count, HOP).max(axis=1) >= QUIETEST
    return pitch[:count], (confidence[:count] >= VOICED) & loud
