"""Whether an utterance holds one voice: the cosine of the embeddings of its halves.

CAM++ on the channel mean at 16 kHz, on at most the outer HALF_S of each half. Two pieces of one
voice have a cosine above 0.60 (4 s each), of two voices below 0.45; shorter ones of one voice are
less alike, so a limit of 0.3 drops a few of them, too. Null for utterances below 1.6 s, and with
samples that are not finite.
"""

from collections.abc import Iterable

import numpy as np

from ..audio import Clip
from ..base.arrays import RATE, Float32s
from ..models import registry
from ..settings import StageSettings, Threshold, Transient
from ..speech import embedding
from ..speech.embedding import fbank
from . import _derived as derived

VERSION = 1
ENGINES = {"onnxruntime": "InferenceSession", "scipy.fft": "rfft"}
COSTLY = True
USED_MODELS = (registry.CAMPPLUS,)
ASKED_BY = "the filter speaker_purity"
COLUMNS = {"speaker_purity": ("1", "cosine of the voices of the utterance's halves")}
REASONS = {"speaker_purity": ("several_voices", "one_voice")}
LEAST_S, HALF_S = 1.6, 6.0


class Settings(StageSettings):
    path: str | None = Transient(
        None, "Folder with the model; default: where `uttermill models fetch speakers` put it."
    )
    min: float | None = Threshold(
        None, "Smallest cosine kept; 0.3 drops most clips of two voices.", ge=-1, le=1
    )
    max: float | None = Threshold(None, "Largest cosine kept.", ge=-1, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.seconds < LEAST_S:
        return {"speaker_purity": None}
    halves = _outer(derived.blocks_16k(clip), round(clip.seconds * RATE))
    if not all(np.isfinite(half).all() for half in halves):
        return {"speaker_purity": None}
    first, last = (embedding.embed(fbank(half), settings.path) for half in halves)
    return {"speaker_purity": round(float(first @ last), 6)}


def _outer(blocks: Iterable[Float32s], count: int) -> list[Float32s]:
    """The first and the last samples, each at most HALF_S and half of the clip."""
    size = min(int(HALF_S * RATE), count // 2)
    first = last = np.empty(0, np.float32)
    for block in blocks:
        first = np.concatenate([first, block[: size - len(first)]])
        last = np.concatenate([last, block])[-size:]
    return [first, last]
