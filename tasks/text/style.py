"""Says how a clip sounds beside the others of the corpus: pitch, speed, noise, and a caption.

As dataspeech does for Parler-TTS (Lyth and King 2024, arXiv 2402.01912), measures become steps, and
a template makes a text of them. The steps end at the 10, 30, 70 and 90 % quantiles over all
transcribed utterances that have the measure: of the speed those in one language, as languages and
scripts differ. They are frozen when the first version is published, those of a language once it has
`min_group` utterances. It drops nothing; limits are set on the measures themselves.
"""

import string
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from ..base.arrays import Float64s
from ..base.json_types import JsonObject
from ..plugins.annotation_kinds import Label
from . import WORDS, Rejection, Rows, StageSettings, Threshold

STEPS = ("very_low", "low", "middle", "high", "very_high")
QUANTILES = (10, 30, 70, 90)  # %
AXES = ("pitch", "rate", "noise", "reverberation")
#: A high signal-to-noise ratio is little noise, and a high clarity little reverberation.
FALLING = ("noise", "reverberation")
BY_LANGUAGE = ("rate",)
ANNOTATIONS = {
    "style_pitch": Label("height of the voice, beside that of the corpus", STEPS),
    "style_rate": Label("speed of the speech, beside others in its language", STEPS),
    "style_noise": Label("noise under the speech, beside that of the corpus", STEPS),
    "style_reverberation": Label("reverberation, beside that of the corpus", STEPS),
    "style_caption": Label("how the clip sounds, by the template"),
}
#: What the caption calls the steps.
PHRASES = {
    "pitch": ("very low", "low", "medium", "high", "very high"),
    "rate": ("very slowly", "slowly", "at a normal speed", "fast", "very fast"),
    "noise": ("very clear", "clear", "slightly noisy", "noisy", "very noisy"),
    "reverberation": ("very close", "close", "slightly distant", "distant", "very distant"),
}


class Settings(StageSettings):
    """The measures that it goes by, and the caption."""

    pitch: str | None = Threshold("pitch_median", "Measure of the pitch; null: none.", mark=WORDS)
    rate: tuple[str, ...] = Threshold(
        ("char_rate_alphabetic", "char_rate_syllabic"),
        "Measures of the speed, of which a clip's first known one counts.",
        mark=WORDS,
    )
    noise: str | None = Threshold(
        "snr", "Measure that falls as noise grows, in dB say; null: none.", mark=WORDS
    )
    reverberation: str | None = Threshold(
        None, "Measure that falls as reverberation grows; null: none.", mark=WORDS
    )
    template: str = Threshold(
        "A {pitch} voice speaks {rate}; the recording is {noise}.",
        "The caption: {pitch}, {rate}, {noise}, {reverberation}; a clip that lacks one has none.",
        mark=WORDS,
    )
    phrases: dict[str, tuple[str, str, str, str, str]] = Threshold(
        {},
        "What the caption calls the five steps, lowest first: {pitch: [bass, low, medium, high, "
        "treble]}.",
        mark=WORDS,
    )
    min_group: int = Threshold(20, "Fewer utterances have no steps.", ge=2)

    @model_validator(mode="after")
    def _axes(self) -> Self:
        fields = {name for _, name, _, _ in string.Formatter().parse(self.template) if name}
        measured = {axis for axis, columns in _columns(self).items() if columns}
        if unknown := sorted({*self.phrases} - {*AXES}):
            raise ValueError(f"phrases names {unknown[0]!r}; it may name {', '.join(AXES)}")
        if missing := sorted(fields - measured):
            names = ", ".join(axis for axis in AXES if axis in measured)
            raise ValueError(f"the template asks for {missing[0]!r}; measured are {names}")
        return self


def _columns(settings: Settings) -> dict[str, tuple[str, ...]]:
    """The measures of each axis, in the order in which they count."""
    single = {axis: getattr(settings, axis) for axis in AXES if axis != "rate"}
    named = {axis: (column,) if column else () for axis, column in single.items()}
    return {axis: settings.rate if axis == "rate" else named[axis] for axis in AXES}


def asks(settings: Settings) -> tuple[str, ...]:
    every = (column for columns in _columns(settings).values() for column in columns)
    return tuple(dict.fromkeys(every))  # one measure may serve two axes


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], JsonObject]:
    """No rejections, and the steps' ascending edges by measure, and by language where that
    counts."""
    values: dict[tuple[str, str], list[Float64s]] = {}
    asked = asks(settings)
    compared = dict.fromkeys(
        (column, axis in BY_LANGUAGE)
        for axis, columns in _columns(settings).items()
        for column in columns
    )
    for table in rows.tables("language", *asked) if asked else ():
        for column, by_language in compared:
            for group, mask in _groups(table, by_language):
                measured = table[column].to_numpy()[mask]
                values.setdefault((column, group), []).append(measured[np.isfinite(measured)])
    edges: JsonObject = {column: dict(groups) for column, groups in frozen.items()}
    for (column, group), pieces in sorted(values.items()):
        every = np.concatenate(pieces)
        if group not in edges.get(column, {}) and len(every) >= settings.min_group:
            edges.setdefault(column, {})[group] = np.percentile(every, QUANTILES).tolist()
    return (), edges


def _groups(table: pa.Table, by_language: bool) -> list[tuple[str, np.ndarray]]:
    """Which rows are compared with each other, by a name: all, or those of a language."""
    if not by_language:
        return [("", np.ones(len(table), bool))]
    languages = np.array([language or "" for language in table["language"].to_pylist()])
    return [(str(name), languages == name) for name in np.unique(languages)]


def labelled(
    rows: pa.Table, settings: Settings, frozen: JsonObject
) -> Mapping[str, list[str | None]]:
    """Every one of ANNOTATIONS for all rows (`asks`, and language)."""
    axes = _columns(settings).items()
    steps = {axis: _steps(rows, axis, columns, frozen) for axis, columns in axes}
    phrases = {**PHRASES, **settings.phrases}
    fields = {name for _, name, _, _ in string.Formatter().parse(settings.template) if name}
    captions: list[str | None] = []
    for row in range(len(rows)):
        places = {axis: steps[axis][row] for axis in fields}
        words = {axis: phrases[axis][place] for axis, place in places.items() if place >= 0}
        captions.append(settings.template.format(**words) if len(words) == len(fields) else None)
    named = {
        f"style_{axis}": [None if place < 0 else STEPS[place] for place in places]
        for axis, places in steps.items()
    }
    return {**named, "style_caption": captions}


def _steps(rows: pa.Table, axis: str, columns: Iterable[str], frozen: JsonObject) -> list[int]:
    """The step of each row, from 0; -1 if the measure or its edges are unknown."""
    places = np.full(len(rows), -1)
    for column in columns:
        values = rows[column].to_numpy(zero_copy_only=False).astype(np.float64)
        for group, mask in _groups(rows, axis in BY_LANGUAGE):
            if (edges := frozen.get(column, {}).get(group)) is None:
                continue
            open_rows = mask & np.isfinite(values) & (places < 0)
            steps = np.searchsorted(edges, values[open_rows], side="right")
            places[open_rows] = steps if edges[0] < edges[-1] else 2  # where all clips are alike
    return [int(4 - p if axis in FALLING and p >= 0 else p) for p in places]
