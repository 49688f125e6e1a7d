"""The language that an utterance is spoken in, by a model of its own: from the sound, not the text.

A model of spoken languages such as VoxLingua107's, exported to ONNX, in a local folder: one graph
(`.onnx`) that takes samples at 16 kHz, [1, n] or [n], and gives a score for each language, as
probabilities, logits or their logarithms; and `labels.txt` with a language a line in that order
(`en`, or `en: English`; SpeechBrain's `label_encoder.txt` will do). It hears the channel mean of at
most the first 30 s. Null for clips below 0.5 s, and with samples that are not finite.

`transcribe.language_by: sound` takes the vote on a recording's language from it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..audio import Clip
from ..base import language_codes
from ..base.arrays import RATE, Float32s, Float64s
from ..base.errors import ConfigError
from ..models import model_files, onnx_session, registry
from ..plugins.annotation_kinds import Label
from ..settings import StageSettings, Threshold, Transient
from ..settings.base import WORDS
from . import _derived as derived

if TYPE_CHECKING:
    import onnxruntime

VERSION = 1
ENGINES = {"onnxruntime": "InferenceSession"}
COSTLY = True
COLUMNS = {"audio_language_probability": ("1", "probability of `audio_language`")}
ANNOTATIONS = {"audio_language": Label("language that is spoken, by the sound alone")}
REASONS = {
    "audio_language_probability": ("audio_language_uncertain", "audio_language_certain"),
}
ASKED_BY = "the filter audio_language"
LISTS = ("labels.txt", "label_encoder.txt")
LEAST_S, MOST_S = 0.5, 30.0
_LINE = re.compile(r"^'?(?P<code>[^:'=\s]+)(?::[^'=]*)?'?(?:\s*=>\s*(?P<place>\d+))?\s*$")


class Settings(StageSettings):
    model: str = Transient("", "Folder with the graph and the list of its languages.")
    licence: str = Transient("unknown", "Licence of the weights, for the data card.", mark=WORDS)
    allowed: tuple[str, ...] | None = Threshold(
        None, "Languages that are kept, by code: [en, de]; null: all.", mark=WORDS
    )
    min_probability: float | None = Threshold(None, "Smallest probability kept.", ge=0, le=1)
    max_probability: float | None = Threshold(None, "Largest probability kept.", ge=0, le=1)


def known_models(settings: Settings) -> tuple[registry.Model, ...]:
    name, paths = Path(settings.model).resolve().name, _all_files(settings.model)
    about = "languages by the sound"
    return (model_files.of_user(name, about, settings.licence, ASKED_BY, paths),)


def check_weights(settings: Settings) -> None:
    _, languages = _loaded(settings.model)
    if unknown := sorted({*(settings.allowed or ())} - {*languages}):
        codes = ", ".join(sorted(languages))
        raise ConfigError(f"{ASKED_BY}: its model knows no {unknown[0]!r}; it knows {codes}")


def measure(clip: Clip, settings: Settings) -> dict[str, float | str | None]:
    samples = derived.first_16k(clip, MOST_S)
    if len(samples) < LEAST_S * RATE or not np.isfinite(samples).all():
        return dict.fromkeys((*COLUMNS, *ANNOTATIONS))
    session, languages = _loaded(settings.model)
    chances = _probabilities(session, samples, len(languages))
    best = int(chances.argmax())
    return {
        "audio_language": languages[best],
        "audio_language_probability": round(float(chances[best]), 6),
    }


def _probabilities(
    session: onnxruntime.InferenceSession, samples: Float32s, count: int
) -> Float64s:
    """The probability of each language; float64 [count]. ConfigError for another number."""
    [given] = session.get_inputs()
    fed = samples if len(given.shape) == 1 else samples[None]
    outputs = session.run(None, {given.name: fed})
    scores = [np.asarray(one, np.float64).ravel() for one in outputs if np.size(one) == count]
    if not scores or not np.isfinite(scores[0]).all():
        shapes = [np.shape(one) for one in outputs]
        raise ConfigError(f"{ASKED_BY}: its graph gives {shapes}, not {count} finite scores")
    values = scores[0]
    if values.min() >= 0 and abs(values.sum() - 1) < 1e-3:
        return values
    powers = np.exp(values - values.max())
    probabilities: Float64s = powers / powers.sum()
    return probabilities


def _files(model: str) -> tuple[Path, Path]:
    """The graph in the folder `model`, and the list of its languages; ConfigError without one."""
    needs = f"{ASKED_BY} needs a model of spoken languages"
    return model_files.graph_and_list(model, LISTS, needs, "languages")


def _all_files(model: str) -> list[Path]:
    graph, names = _files(model)
    return [*model_files.with_data(graph), names]


def _languages(path: Path) -> list[str]:
    """The codes in a list of languages, in the order of their scores."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{ASKED_BY}: {path} cannot be read: {error}") from error
    ends = (number for number, line in enumerate(lines) if line.startswith("===="))
    lines = lines[: next(ends, None)]  # what follows in SpeechBrain's are settings
    matches = [(line, _LINE.match(line.strip())) for line in lines if line.strip()]
    if not matches or not all(match for _, match in matches):
        wrong = next((line for line, match in matches if not match), "")
        raise ConfigError(f"{ASKED_BY}: {path} must have a language a line, not {wrong[:40]!r}")
    places = [int(match["place"] or number) for number, (_, match) in enumerate(matches) if match]
    if sorted(places) != [*range(len(places))]:
        raise ConfigError(f"{ASKED_BY}: {path} must number its languages from 0, each once")
    codes = [language_codes.read(match["code"]) or match["code"] for _, match in matches if match]
    return [code for _, code in sorted(zip(places, codes, strict=True))]


@lru_cache(maxsize=2)
def _loaded(model: str) -> tuple[onnxruntime.InferenceSession, list[str]]:
    """The model, tried on a second of noise. ConfigError if it does not run."""
    graph, names = _files(model)
    languages = _languages(names)
    try:
        session = onnx_session.session(str(graph))
        given = session.get_inputs()
        if len(given) != 1 or given[0].type != "tensor(float)" or len(given[0].shape) not in (1, 2):
            shapes = [(one.type, one.shape) for one in given]
            raise ConfigError(f"{ASKED_BY}: {graph.name} takes {shapes}, not samples at 16 kHz")
        noise = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)
        _probabilities(session, noise, len(languages))
    except onnx_session.errors() as error:
        raise ConfigError(f"{ASKED_BY}: {graph} does not run: {error}") from error
    return session, languages
