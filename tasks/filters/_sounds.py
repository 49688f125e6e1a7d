"""What the filters sounds and music hear with: the fetched detector, or an AudioSet model in a
folder, a graph and its list of classes, as probabilities of groups.

The detector is FireRedVAD's of speech, singing and music. It gives probabilities for frames of
10 ms, here averaged over windows of 0.96 s every 0.48 s.

The graph in a folder takes windows of a mono signal at 16 kHz: samples, or YAMNet's patches (Plakal
and Ellis 2020, github.com/tensorflow/models, research/audioset/yamnet): magnitudes of frames of 25
ms every 10 ms (Hann, FFT of 512), 64 triangles on the mel scale from 125 to 7500 Hz, ln(x + 0.001),
96 frames. It returns a score for each class: probabilities, or logits. Both ends may be integers,
with the scale and zero point of the graph's own first and last step.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np
import scipy.fft

from ..audio import Clip
from ..audio.types import regroup
from ..base.arrays import RATE, Float32s, Float64s
from ..base.errors import ConfigError
from ..models import model_files, onnx_graph, onnx_session, registry
from ..settings import StageSettings, Transient
from ..settings.base import WORDS
from ..speech import fbank
from ..speech.fbank import Fbank
from . import _derived as derived

ENGINES = {"onnxruntime": "InferenceSession", "scipy.fft": "rfft"}
ASKED_BY = "the filters sounds and music"
LISTS = ("yamnet_class_map.csv", "class_labels_indices.csv", "labels.txt")
#: First and last class of each stretch of AudioSet's list, which is in the order of its ontology.
GROUPS: dict[str, tuple[tuple[str, str], ...]] = {
    "speech": (("Speech", "Whispering"),),
    "music": (("Music", "Scary music"),),
    "singing": (("Singing", "Humming"),),
    "laughter": (("Laughter", "Chuckle, chortle"),),
    "applause": (("Clapping", "Clapping"), ("Cheering", "Applause")),
    "noise": (
        ("Noise", "Pink noise"),
        ("Wind", "Wind noise (microphone)"),
        ("Vehicle", "Accelerating, revving, vroom"),
        ("Mechanisms", "Drill"),
        ("Hum", "Hum"),
    ),
}
OTHER = "other"
#: In no group, as they are not sounds themselves.
PLACES = (("Silence", "Silence"), ("Inside, small room", "Echo"))

YAMNET = Fbank(bins=64, low_hz=125.0, high_hz=7500.0)
FRAME, HOP, BINS = YAMNET.frame, YAMNET.hop, YAMNET.bins
FRAMES = 96  # of a patch
OFFSET = 0.001
WINDOW, STEP = (FRAMES - 1) * HOP + FRAME, FRAMES // 2 * HOP  # samples
AT_ONCE = 8  # windows, or their patches' halves, that are held

FIRERED = Fbank(whole=False, scale=32768.0)
FIRERED_HOP = 48  # frames from a window to the next, half of a window
FIRERED_CLASSES = ("speech", "singing", "music")  # of the graph
SILENT = np.log(np.float32(fbank.FLOOR))  # energy of digital silence at any gain
PIECE = round(derived.KEPT_SECONDS * RATE)  # samples that are heard at once


class ModelFolder(StageSettings):
    model: str = Transient(
        "",
        "Folder with an AudioSet graph and the list of its classes; default: the model that "
        "`uttermill models fetch sounds` installs, of speech, music and singing.",
    )
    licence: str = Transient("unknown", "Licence of the weights, for the data card.", mark=WORDS)


def known_models(settings: ModelFolder) -> tuple[registry.Model, ...]:
    if not settings.model:
        return (registry.FIRERED,)
    name, paths = Path(settings.model).resolve().name, with_data(settings.model)
    about = "classes of AudioSet"
    return (model_files.of_user(name, about, settings.licence, ASKED_BY, paths),)


def check_weights(settings: ModelFolder) -> None:
    tagger(settings.model)


def spans(tagger: Tagger | Detector, count: int, seconds: float) -> list[tuple[float, float]]:
    """(start, end) in s of the middles of `count` windows, which partition the clip."""
    margin = (tagger.window - tagger.step) / 2
    edges = [0.0, *((n * tagger.step + margin) / RATE for n in range(1, count)), seconds]
    edges = [min(edge, seconds) for edge in edges]
    return list(pairwise(edges))


def heard(clip: Clip, model: str) -> Float64s:
    """The probability of each group's likeliest class, float64 [windows, groups]."""

    def hear() -> Float64s:
        classes = tagger(model).classes(clip)
        groups = tagger(model).groups.values()
        return np.stack([classes[:, places].max(axis=1) for places in groups], 1)

    return derived.cached(clip, f"sounds by {model}", hear)


class Tagger:
    """The model in a folder. Raises ConfigError if there is none, or one that cannot be used."""

    def __init__(self, model: str) -> None:
        graph, names = files(model)
        #: The places of each group's classes.
        self.groups, self._classes = grouped(names)
        try:
            self._session = onnx_session.session(str(graph))  # by its path: weights may lie beside
        except onnx_session.errors() as error:
            raise ConfigError(f"{ASKED_BY}: {graph} cannot be loaded: {error}") from error
        given, *more = self._session.get_inputs()
        shape = [size if isinstance(size, int) else 1 for size in given.shape]
        self._patches = [size for size in shape if size != 1] == [FRAMES, BINS]
        if more or not (
            self._patches or (shape and len(shape) < 3 and math.prod(shape) == shape[-1])
        ):
            raise ConfigError(
                f"{ASKED_BY}: {graph.name} takes {[one.shape for one in (given, *more)]}, neither "
                f"samples at 16 kHz nor patches of {FRAMES} frames with {BINS} bands"
            )
        self.window = WINDOW if self._patches or shape[-1] == 1 else shape[-1]
        #: Samples from a window to the next.
        self.step = STEP if self.window == WINDOW else max(self.window // 2, 1)
        self._shape = shape if self._patches else [*shape[:-1], self.window]
        outputs = self._session.get_outputs()
        fitting = [one for one in outputs if one.shape and one.shape[-1] == self._classes]
        if not fitting:
            raise ConfigError(
                f"{ASKED_BY}: {graph.name} gives {[one.shape for one in outputs]}, which do not "
                f"fit the {self._classes} classes of {names.name}"
            )
        self._input, self._output = given.name, fitting[0].name
        self._steps: tuple[onnx_graph.Steps, onnx_graph.Steps] | None = None
        if {"tensor(float)"} != {given.type, fitting[0].type}:
            content = graph.read_bytes()
            before, after = (onnx_graph.steps(content, end.name) for end in (given, fitting[0]))
            if before is None or after is None:
                raise ConfigError(
                    f"{ASKED_BY}: {graph.name} takes {given.type} and gives {fitting[0].type}, and "
                    "does not say what these stand for: export it with float32 at both ends"
                )
            self._steps = before, after
        self._sigmoid = False
        # Noise and silence: a graph whose scores for these leave 0 to 1 returns logits.
        noise = np.random.default_rng(0).normal(0, 0.1, self.window).astype(np.float32)
        try:
            probed = [self.classes(Clip.from_samples(probe, RATE)) for probe in (noise, 0 * noise)]
        except onnx_session.errors() as error:
            raise ConfigError(f"{ASKED_BY}: {graph} does not run: {error}") from error
        self._sigmoid = any(values.min() < 0 or values.max() > 1 for values in probed)

    def classes(self, clip: Clip, gain: float = 1.0) -> Float64s:
        """The probability of each class in each window of a clip, float64 [windows, classes]. The
        clip is multiplied by `gain` and, unless that is 1, clipped at full scale. The last window
        is padded with silence."""
        windows = self._patches_of(clip, gain) if self._patches else self._samples_of(clip, gain)
        rows = [self._probabilities(window) for window in windows]
        return np.reshape(rows, (-1, self._classes))

    def _samples_of(self, clip: Clip, gain: float) -> Iterator[Float32s]:
        blocks = self._filled(louder(derived.blocks_16k(clip), gain))
        for windows in derived.frames(blocks, self.window, self.step, repeat(AT_ONCE)):
            yield from windows

    def _patches_of(self, clip: Clip, gain: float) -> Iterator[Float32s]:
        """Computes a short clip's bands once: they scale with its samples, unless clipped."""

        def once() -> Float32s:
            blocks = bands(self._filled(derived.blocks_16k(clip)))
            return np.concatenate([np.empty(0, np.float32), *blocks])

        if clip.seconds > derived.KEPT_SECONDS:
            blocks, factor = bands(self._filled(louder(derived.blocks_16k(clip), gain))), 1.0
        elif gain == 1 or np.abs(samples := derived.mono_16k(clip)).max(initial=0) * gain <= 1:
            blocks, factor = iter([derived.cached(clip, "bands of sounds", once)]), gain
        else:
            blocks, factor = bands(self._filled(louder([samples], gain))), 1.0
        size, hop = FRAMES * BINS, FRAMES // 2 * BINS
        for patches in derived.frames(blocks, size, hop, repeat(AT_ONCE)):
            with np.errstate(invalid="ignore"):  # what is not finite stays so
                yield from np.log(patches * np.float32(factor) + np.float32(OFFSET))

    def _filled(self, blocks: Iterable[Float32s]) -> Iterator[Float32s]:
        count = 0
        for block in blocks:
            count += len(block)
            yield block
        if count:
            beyond = max(self.window - count, (self.window - count) % self.step)
            yield np.zeros(beyond, np.float32)

    def _probabilities(self, window: Float32s) -> Float64s:
        """Probability of each class in a window's samples or patch; NaN unless these are finite."""
        if not np.isfinite(window).all():
            return np.full(self._classes, np.nan)
        given = window.reshape(self._shape)
        if self._steps is None:
            [output] = self._session.run([self._output], {self._input: given})
        else:
            before, after = self._steps
            [whole] = self._session.run([self._output], {self._input: before.integers(given)})
            output = after.scale * (whole.astype(np.float64) - after.zero)
        values: Float64s = np.asarray(output, np.float64).reshape(-1, self._classes).mean(axis=0)
        return (1 + np.tanh(values / 2)) / 2 if self._sigmoid else values


def files(model: str) -> tuple[Path, Path]:
    """The graph in the folder `model`, and its list of classes. ConfigError if one is missing."""
    needs = f"{ASKED_BY} need an AudioSet model"
    return model_files.graph_and_list(model, LISTS, needs, "classes")


def with_data(model: str) -> list[Path]:
    """All files of the model: what `files` names, and weights beside the graph."""
    graph, names = files(model)
    beside = graph.with_suffix(".data")  # as Qualcomm's hub exports it
    return [*model_files.with_data(graph), *([beside] if beside.is_file() else []), names]


def grouped(path: Path) -> tuple[dict[str, list[int]], int]:
    """The places of each group's classes, and their number. ConfigError if not AudioSet's."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{ASKED_BY}: {path} cannot be read: {error}") from error
    if path.suffix == ".csv":
        lines = [row[-1] for row in csv.reader(lines[1:]) if row]
    names = [line.strip() for line in lines if line.strip()]
    groups = {group: _places(names, stretches) for group, stretches in GROUPS.items()}
    if empty := [group for group, places in groups.items() if not places]:
        raise ConfigError(
            f"{ASKED_BY}: {path} is not AudioSet's list of classes in its order: nothing in it is "
            f"{empty[0]}, from {GROUPS[empty[0]][0][0]!r} to {GROUPS[empty[0]][0][1]!r}"
        )
    taken = {*_places(names, PLACES), *(place for places in groups.values() for place in places)}
    others = [place for place in range(len(names)) if place not in taken]
    return {**groups, **({OTHER: others} if others else {})}, len(names)


def _places(names: list[str], stretches: Iterable[tuple[str, str]]) -> list[int]:
    return [
        place
        for first, last in stretches
        if first in names and last in names
        for place in range(names.index(first), names.index(last) + 1)
    ]


def louder(blocks: Iterable[Float32s], gain: float) -> Iterator[Float32s]:
    """A signal times `gain`, clipped at full scale; unchanged if `gain` is 1."""
    for block in blocks:
        yield block if gain == 1 else (block * gain).clip(-1, 1).astype(np.float32)


def bands(blocks: Iterable[Float32s]) -> Iterator[Float32s]:
    """Magnitudes of the bands of each whole frame of a signal at 16 kHz, frame after frame, float32
    [frames x 64]; YAMNet's patches are their logarithms."""
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)).astype(np.float32)
    for frames in derived.frames(blocks, FRAME, HOP, repeat(AT_ONCE * FRAMES // 2)):
        spectra = scipy.fft.rfft(frames * hann, YAMNET.fft, axis=1)
        parts = spectra.view(np.float32).reshape(len(frames), -1, 2)
        with np.errstate(invalid="ignore", over="ignore"):
            magnitudes = np.sqrt(np.einsum("nfp,nfp->nf", parts, parts))  # faster than abs
            yield (magnitudes @ fbank.triangles(YAMNET)).ravel()


class Detector:
    """The fetched model, with what `Tagger` has."""

    window, step = 2 * FIRERED_HOP * FIRERED.hop, FIRERED_HOP * FIRERED.hop

    def __init__(self) -> None:
        ordered = ("speech", "music", "singing")  # as in `GROUPS`
        self.groups = {group: [FIRERED_CLASSES.index(group)] for group in ordered}
        path = model_files.located(registry.FIRERED, "the filter sounds or music")
        self._session = onnx_session.session(str(path))

    def classes(self, clip: Clip, gain: float = 1.0) -> Float64s:
        parts = [self._probabilities(energies, gain) for energies in _energies(clip)]
        frames = np.concatenate([np.zeros((0, len(FIRERED_CLASSES))), *parts])
        starts = range(0, max(len(frames) - FIRERED_HOP, min(len(frames), 1)), FIRERED_HOP)
        means = [frames[start : start + 2 * FIRERED_HOP].mean(axis=0) for start in starts]
        return np.reshape(means, (-1, len(FIRERED_CLASSES)))

    def _probabilities(self, energies: Float32s, gain: float) -> Float64s:
        """[frames, classes]; NaN unless all energies are finite."""
        if not (len(energies) and np.isfinite(energies).all()):
            return np.full((len(energies), len(FIRERED_CLASSES)), np.nan)
        louder = energies + np.float32(2 * math.log(gain))
        given = np.where(energies > SILENT, louder, energies)
        [[probabilities]] = self._session.run(None, {"x": given[None]})
        return np.asarray(probabilities, np.float64)


def _energies(clip: Clip) -> Iterable[Float32s]:
    """A clip's log mel energies [frames, 80], piece by piece; computed once for a short clip."""

    def compute() -> Iterator[Float32s]:
        for piece in regroup(derived.blocks_16k(clip), PIECE):
            with np.errstate(invalid="ignore", over="ignore"):
                yield FIRERED.log_energies(piece)

    if clip.seconds > derived.KEPT_SECONDS:
        return compute()
    return derived.cached(clip, "energies of sounds", lambda: [*compute()])


@lru_cache(maxsize=2)
def tagger(model: str) -> Tagger | Detector:
    """The model in a folder; empty: the fetched one."""
    return Tagger(model) if model else Detector()
