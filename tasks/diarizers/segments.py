"""Who speaks when: pyannote segmentation 3.0 on windows of 10 s, whose voices (CAM++) are linked.

1. Each window gives up to three local speakers, frame by frame (`_windows.py`), and an embedding of
   each voice.
2. Voices are linked over the recording by average linkage (`clusters`); a voice with little speech,
   or like one with more speech, does not become a speaker.
3. In each window, local speakers are assigned to the speakers found; windows are overlap-added
   (`_windows.py`), two speakers at most at a time.
4. A turn whose voice is nearer to another speaker is moved there.

One pass; a window leaves 0.3 kB and an embedding of each of its voices, about 400 bytes a second.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import Field

from ..audio.channels import Heard
from ..base.arrays import RATE, Float32s, Float64s, UInt8s
from ..models import registry
from ..recording import Segment
from ..settings import Threshold, Transient
from ..speech import embedding
from ..speech.embedding import FBANK, unit
from ..speech.linkage import linked
from ..speech.silero import MonoStream
from . import CuttingSettings, Diarizer, Turn, _windows
from ._windows import FRAMES, Stretch, Window, Windows, frame_of_window, stretches

VERSION = 6
LISTENS = True
USED_MODELS = (registry.SEGMENTATION, registry.CAMPPLUS)
ENGINES = {"onnxruntime": "InferenceSession", "scipy.fft": "rfft"}
ASKED_BY = "speakers.use=segments"
LEAST_SPEAKER_S = 1.5  # of speech that makes a speaker, if there are others
# A voice this near to one with more speech is taken for an error; more speech earns tolerance.
ALIKE, ALIKE_PER_S = 0.3, 0.06  # cosine, and what each second of speech adds to it
BIN = 6  # frames, about 0.1 s
MOVE = 0.05  # cosine by which another speaker has to be nearer


class Settings(CuttingSettings):
    hop_seconds: float = Field(
        6.25,
        ge=2.5,
        le=8,
        description="Step from one window of 10 s to the next, s; a shorter step is slower, "
        "and more accurate.",
    )
    cut: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="Largest mean cosine distance of two groups of voices that become one speaker; "
        "more finds fewer speakers.",
    )
    edge_seconds: float = Threshold(
        0.15,
        "Audio left out at each edge of a stretch beside another speaker, s: turns are "
        "no more exact than that.",
        ge=0,
        le=1,
    )
    max_second_voice: float | None = Threshold(
        0.15,
        "Largest probability that a second voice speaks over the first, in each tenth of a second "
        "of a clip; more is left out as overlap. null: only where two voices are likelier.",
        ge=0,
        le=1,
    )
    across_recordings: bool = Threshold(
        True, "Find the same speaker in several recordings, when a version is packaged."
    )
    threshold: float = Threshold(
        0.5,
        "Least mean cosine of the voices of one speaker in several recordings; more "
        "finds more speakers.",
        gt=0,
        lt=1,
    )
    path: str | None = Transient(
        None,
        "Folder with the two models; default: where `uttermill models fetch speakers` put them.",
    )


class Segments:
    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings, self._rate = settings, rate
        self._ear = Heard(np.float32)
        self._audio = MonoStream(rate)
        self._hop = round(settings.hop_seconds * RATE / FBANK.hop) * FBANK.hop  # whole frames
        self._model = Windows(settings.path, self._hop)
        self._windows: list[Window] = []
        self._count = 0  # native samples pushed

    def push(self, block: Float32s) -> None:
        self._count += len(block)
        self._hear(self._ear.push(block))

    def _hear(self, mono: Float32s) -> None:
        finite = np.nan_to_num(mono, nan=0.0, posinf=0.0, neginf=0.0)
        self._windows += self._model.push(self._audio.push(finite))

    def finish(self) -> tuple[Turn, ...]:
        self._hear(self._ear.finish())
        self._windows += self._model.push(self._audio.finish())
        self._windows += self._model.finish()
        means = _speakers(self._windows, self._settings.cut)
        owners = {window.number: speaker_of_local(window, means) for window in self._windows}
        runs, doubts = stretches(self._windows, owners, len(means), self._hop)
        return self._turns(runs, doubts, owners, means)

    def _turns(
        self,
        runs: list[Stretch],
        doubts: UInt8s,
        owners: dict[int, dict[int, int]],
        means: Float64s,
    ) -> tuple[Turn, ...]:
        windows = {window.number: window for window in self._windows}
        numbers: dict[int, int] = {}
        turns = []
        for run in runs:
            vector = _voice(run, windows, owners, self._hop)
            near = None if vector is None else means @ vector
            speaker = run.speaker
            if near is not None and near.max() > near[speaker] + MOVE:
                speaker = int(near.argmax())
            turns.append(
                Turn(
                    self._native(run.start),
                    self._native(run.end),
                    numbers.setdefault(speaker, len(numbers)),
                    None,
                    None if near is None else round(float(near[speaker]), 4),
                    b"" if vector is None else vector.astype("<f2").tobytes(),
                    _highest(doubts[run.first : run.last]),
                )
            )
        return tuple(turn for turn in turns if turn.start < turn.end)

    def _native(self, seconds: float) -> int:
        return min(round(seconds * self._rate), self._count)


def _speakers(windows: Sequence[Window], cut: float) -> Float64s:
    """Mean vectors [k, 192] of the speakers, of length 1."""
    voices = [voice for window in windows for voice in window.voices]
    sure = [voice for voice in voices if voice.sure] or voices
    if not sure:
        return np.empty((0, embedding.SIZE))
    vectors = np.array([voice.vector for voice in sure], np.float64)
    sums, weights = clusters(vectors, np.array([voice.seconds for voice in sure]), 1 - cut)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    means: Float64s = sums / np.maximum(lengths, 1e-12)
    kept = weights >= min(LEAST_SPEAKER_S, weights.max())
    for number in np.flatnonzero(kept):
        longer = kept & (weights > weights[number])
        near = float((means[longer] @ means[number]).max(initial=-1))
        kept[number] = near < ALIKE + ALIKE_PER_S * weights[number]
    distinct: Float64s = means[kept]
    return distinct


def _voice(
    stretch: Stretch, windows: Mapping[int, Window], owners: Mapping[int, dict[int, int]], hop: int
) -> Float32s | None:
    """The embedding of a stretch, float32 [192] of length 1: the mean of the windows' voices in it,
    weighted by their length there; None if none of them is sure."""
    total = np.zeros(embedding.SIZE)
    step = hop / RATE / _windows.STEP_S  # frames, not a whole number
    before = max(int((stretch.first - FRAMES) / step), 0)
    for number in range(before, int(stretch.last / step) + 2):
        window = windows.get(number)
        if window is None:
            continue
        first = frame_of_window(number, hop)
        low, high = max(stretch.first - first, 0), min(stretch.last - first, FRAMES)
        if low >= high:
            continue
        for voice in window.voices:
            if voice.sure and owners[number].get(voice.local) == stretch.speaker:
                total += voice.vector * float(window.activity[low:high, voice.local].sum())
    return unit(total.astype(np.float32)) if total.any() else None


def _highest(both: UInt8s) -> bytes:
    """The highest of each BIN frames, in equal parts of the turn."""
    count = -(-len(both) // BIN)
    edges = np.linspace(0, len(both), count + 1).astype(int)[:-1]
    return np.maximum.reduceat(both, edges).tobytes()


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Diarizer:
    return Segments(settings, rate)


# Voices of windows to speakers of the recording: average linkage by cosine, in bounded memory.

PORTION = 400  # voices that are linked at once, with the clusters so far


def clusters(vectors: Float64s, weights: Float64s, least: float) -> tuple[Float64s, Float64s]:
    """Summed vectors [k, size] and weights [k] of the clusters of unit vectors [n, size] with
    weights [n], whose mean cosines are `least` or more.

    A cluster is kept as a sum and a weight, so those of one portion of the recording go on being
    linked with the voices of the next exactly as single voices would.
    """
    sums, totals = np.empty((0, vectors.shape[1])), np.empty(0)
    for low in range(0, len(vectors), PORTION):
        added = weights[low : low + PORTION]
        sums = np.concatenate([sums, vectors[low : low + PORTION] * added[:, None]])
        totals = np.concatenate([totals, added])
        heads = linked(sums / totals[:, None], totals, least)
        members = [heads == head for head in np.unique(heads)]
        sums = np.array([sums[member].sum(axis=0) for member in members])
        totals = np.array([totals[member].sum() for member in members])
    return sums, totals


def speaker_of_local(window: Window, means: Float64s) -> dict[int, int]:
    """Assigns each local speaker that has a voice to a speaker; `means`: speakers' vectors [k,
    192]. No two get the same one: the assignment has the largest summed cosine. If there are too
    few speakers, each gets the nearest."""
    from scipy.optimize import linear_sum_assignment

    if not window.voices:
        return {}
    cosines = np.stack([voice.vector for voice in window.voices]).astype(np.float64) @ means.T
    speakers = cosines.argmax(axis=1)
    voices, assigned = linear_sum_assignment(-cosines)
    speakers[voices] = assigned
    return {v.local: int(speaker) for v, speaker in zip(window.voices, speakers, strict=True)}
