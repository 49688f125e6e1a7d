"""How near a clip's voice is to that of an example: the cosine of their CAM++ embeddings.

Each is the channel mean at 16 kHz, of a clip its first 30 s, of an example its first 60 s; of
several examples the nearest counts. Measured on 330 clips of 23 people: of clips of 2 s or more,
5 % have a cosine below 0.5 with another clip of their own speaker, and 0.1 % one above it with a
clip of somebody else; of 1 to 2 s, 31 % and none. Null for clips below 0.25 s, with samples that
are not finite, and without an example.

`package.only.voice` and `package.without.voice` set this filter. It stores the embedding, too, with
which `package.exclude` compares the voices of test sets.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..audio import Clip, open_stream
from ..base.arrays import RATE, Float32s
from ..base.errors import ConfigError, ItemError
from ..models import model_files, registry
from ..plugins.annotation_kinds import Vector
from ..recording import Locator
from ..settings import StageSettings, Threshold, Transient
from ..speech import embedding
from ..speech.embedding import fbank
from . import _derived as derived

VERSION = 1
ENGINES = {"onnxruntime": "InferenceSession", "scipy.fft": "rfft"}
COSTLY = True
USED_MODELS = (registry.CAMPPLUS,)
EMBEDDING = "voice_embedding"
COLUMNS = {
    "voice_like": ("1", "cosine of its voice and the nearest example of `like`"),
    "voice_unlike": ("1", "cosine of its voice and the nearest example of `unlike`"),
}
ANNOTATIONS = {EMBEDDING: Vector("its voice, by CAM++", embedding.SIZE)}
REASONS = {
    "voice_like": ("other_voice", "same_voice"),
    "voice_unlike": ("other_than_unwanted", "unwanted_voice"),
}
LEAST_S, MOST_S, EXAMPLE_S = 0.25, 30.0, 60.0
HALF_S, ONE_VOICE = 4.0, 0.3  # pieces of one voice that are so long have a cosine above 0.6
SILENT = 1e-3  # full scale is 1
LOUDEST = 1e9  # full scale is 1; the energies of louder samples are beyond float32
ASKED_BY = "the filter voice"


class Settings(StageSettings):
    like: tuple[str, ...] = Transient((), "Recordings of the voices to keep, one person in each.")
    unlike: tuple[str, ...] = Transient((), "Recordings of voices to drop, one person in each.")
    path: str | None = Transient(
        None, "Folder with the model; default: where `uttermill models fetch speakers` put it."
    )
    min_like: float | None = Threshold(0.5, "Smallest cosine with `like` kept.", ge=-1, le=1)
    max_like: float | None = Threshold(None, "Largest cosine with `like` kept.", ge=-1, le=1)
    min_unlike: float | None = Threshold(None, "Smallest cosine with `unlike` kept.", ge=-1, le=1)
    max_unlike: float | None = Threshold(0.5, "Largest cosine with `unlike` kept.", ge=-1, le=1)


def identity(settings: Settings) -> str:
    """The hashes of the model and of the examples; those that are missing fail `check_weights`."""
    hashes = [registry.CAMPPLUS.files[0].sha256[:16]]
    for some in (settings.like, settings.unlike):
        files = (Path(name) for name in some)
        hashes.append("-".join(model_files.sha256(f)[:16] if f.is_file() else "" for f in files))
    return " ".join(hashes)


def check_weights(settings: Settings) -> None:
    model_files.located(registry.CAMPPLUS, ASKED_BY, settings.path)
    for name in (*settings.like, *settings.unlike):
        _of_file(name, settings.path)


def measure(clip: Clip, settings: Settings) -> dict[str, float | Float32s | None]:
    voice = None
    if clip.seconds >= LEAST_S:
        voice = _embedded(clip, MOST_S, settings.path)
    if voice is None:
        return dict.fromkeys((*COLUMNS, *ANNOTATIONS))
    return {
        EMBEDDING: voice,
        "voice_like": _nearest(voice, settings.like, settings.path),
        "voice_unlike": _nearest(voice, settings.unlike, settings.path),
    }


def _nearest(voice: Float32s, examples: Iterable[str], folder: str | None) -> float | None:
    cosines = (float(voice @ _of_file(name, folder)) for name in examples)
    nearest = max(cosines, default=None)
    return nearest if nearest is None else round(nearest, 6)


def _of_file(name: str, folder: str | None) -> Float32s:
    """The embedding of an example; ConfigError if it is not a recording of one voice that lasts a
    second or more."""
    try:
        return _embedding(name, model_files.sha256(Path(name)), folder)
    except (OSError, ItemError) as error:
        raise ConfigError(f"{ASKED_BY}: {name} cannot be read as a recording: {error}") from None


@lru_cache(maxsize=64)
def _embedding(name: str, content: str, folder: str | None) -> Float32s:
    with open_stream(Locator(name)) as stream:
        pieces, count = [], 0
        for block in stream.blocks():
            pieces.append(block)
            count += len(block)
            if count >= EXAMPLE_S * stream.rate:
                break
        seconds = count / stream.rate
        if seconds < 1.0:
            raise ConfigError(f"{ASKED_BY}: {name} has {seconds:.2f} s of sound; give 1 s or more")
        whole = Clip.of_pieces(pieces, stream.rate, stream.weights)
    voice = _embedded(whole, EXAMPLE_S, folder)
    if voice is None:
        raise ConfigError(f"{ASKED_BY}: {name} has samples that are NaN or infinite")
    samples = derived.first_16k(whole, EXAMPLE_S)
    if np.abs(samples).max() < SILENT:
        raise ConfigError(f"{ASKED_BY}: {name} is silent; give a recording of one person")
    if len(samples) >= 2 * HALF_S * RATE:
        first, last = (embedding.embed(fbank(h), folder) for h in np.array_split(samples, 2))
        if (cosine := float(first @ last)) < ONE_VOICE:
            raise ConfigError(
                f"{ASKED_BY}: the halves of {name} are of two voices (their cosine is {cosine:.2f},"
                f" of one voice above {ONE_VOICE}); give a recording of one person"
            )
    return voice


def _embedded(clip: Clip, seconds: float, folder: str | None) -> Float32s | None:
    """The embedding of a clip's first seconds; None if a sample is NaN or beyond LOUDEST."""
    samples = derived.first_16k(clip, seconds)
    sound = bool((np.abs(samples) <= LOUDEST).all())
    return embedding.embed(fbank(samples), folder) if sound else None
