"""Sentences of the corpus with exact bounds of their speech, and the time of each word.

Bounds come from the level of the clean clip: a 10 ms frame is *active* if it is clearly above the
clip's noise floor and at most 30 dB below its loud frames. Word times come from the cross attention
of Whisper base, aligned with the reference text (Whisper's own hypothesis is not used). They are
cached in the user's cache folder, because they take minutes.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers.corpus_speech import RATE, Floats, read, transcribed

FRAME = RATE // 100  # samples of a 10 ms frame
MARGIN = 15  # frames kept of a clip around its speech
FOLDERS = ("en/librispeech", "en/ljspeech", "en/asterisk", "en/librivox", "en/cards", "es/asterisk",
           "zh/aishell", "zh/hsk_words", "de/kerstin", "en/fsdd")  # fmt: skip

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A clip from 150 ms before its speech to 150 ms after it, at 16 kHz, level as recorded.

    `active` has one flag a frame of 10 ms; `words` are ranges of frames, in order.
    """

    name: str
    language: str
    text: str
    samples: Floats
    active: Flags
    words: tuple[tuple[int, int], ...]

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE

    @property
    def spoken_seconds(self) -> float:
        where = np.flatnonzero(self.active)
        return float(where[-1] + 1 - where[0]) / 100

    @property
    def power(self) -> float:
        """Mean square of its active frames."""
        frames = self.samples[: len(self.active) * FRAME].reshape(-1, FRAME)
        return float(np.mean(frames[self.active].astype(np.float64) ** 2))


def levels(samples: Floats) -> NDArray[np.float64]:
    """Level of each whole frame, dBFS."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME).astype(np.float64)
    found: NDArray[np.float64] = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-12)
    return found


def active_frames(samples: Floats) -> Flags:
    """Frames in which speech is heard; runs shorter than 30 ms are clicks."""
    level = levels(samples)
    loud, floor = np.percentile(level, [95, 5])
    active: Flags = level > max(loud - 30, min(floor + 8, loud - 12))
    for start, end in _runs(active):
        if end - start < 3:
            active[start:end] = False
    # A short sound of its own behind or before everything else is a click or a breath.
    runs = _runs(active)
    for end, other in ((0, 1), (-1, -2)):
        if len(runs) > 1:
            first, second = sorted((tuple(runs[end]), tuple(runs[other])))
            if second[0] - first[1] >= 30 and runs[end][1] - runs[end][0] < 10:
                active[runs[end][0] : runs[end][1]] = False
    return active


def _runs(flags: Flags) -> NDArray[np.int64]:
    """Start and end of each run of true flags, [n, 2]."""
    return np.flatnonzero(np.diff(np.r_[0, flags, 0])).reshape(-1, 2)


def load(corpus: Path, shortest: float = 0.2, longest: float = 10.0) -> list[Sentence]:
    """Clean sentences of one speaker with this many seconds of speech, in the manifest's order."""
    times = _WordTimes()
    found = []
    for row in transcribed(corpus):
        if row["path"].startswith(FOLDERS):
            samples = read(corpus / row["path"])
            active = active_frames(samples)
            where = np.flatnonzero(active)
            if len(where) and shortest <= (where[-1] + 1 - where[0]) / 100 <= longest:
                aligned = times.of(row, samples)
                found.append(_trim(row, samples, active, aligned))
    times.save()
    return found


def _trim(row: dict[str, Any], samples: Floats, active: Flags, aligned: list[int]) -> Sentence:
    where = np.flatnonzero(active)
    first, end = int(where[0]), int(where[-1]) + 1
    low, high = max(first - MARGIN, 0), min(end + MARGIN, len(active))
    # A word reaches up to the next one: only its active frames count.
    bounds = [first, *(min(max(at, first), end) for at in aligned[1:]), end]
    words = tuple((a - low, b - low) for a, b in pairwise(bounds) if b > a)
    piece = samples[low * FRAME : high * FRAME].copy()
    fade = np.linspace(0, 1, 5 * FRAME, dtype=np.float32)
    piece[: len(fade)] *= fade
    piece[-len(fade) :] *= fade[::-1]
    return Sentence(row["path"], row["language"], row["text"], piece, active[low:high], words)


class _WordTimes:
    """First frame of each word, from a cache or by alignment with Whisper base."""

    def __init__(self) -> None:
        root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        self._path = root / "uttermill-bench" / "words.json"
        self._known: dict[str, list[int]] = (
            json.loads(self._path.read_text()) if self._path.is_file() else {}
        )
        self._model: Any = None
        self._changed = False

    def of(self, row: dict[str, Any], samples: Floats) -> list[int]:
        key = hashlib.sha256(f"{row['sha256']} {row['text']}".encode()).hexdigest()[:16]
        if len(row["text"].split()) == 1 and row["language"] != "zh":
            return [0]
        if key not in self._known:
            self._known[key] = list(self._align(row["text"], row["language"], samples))
            self._changed = True
        return self._known[key]

    def save(self) -> None:
        if self._changed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._known))

    def _align(self, text: str, language: str, samples: Floats) -> Iterator[int]:
        from faster_whisper.audio import pad_or_trim
        from faster_whisper.tokenizer import Tokenizer

        from uttermill.tasks.asr._whisper import loading
        from uttermill.tasks.asr.faster_whisper import Settings

        if self._model is None:
            self._model = loading.load(Settings(threads=1))
        model = self._model
        tokenizer = Tokenizer(model.hf_tokenizer, True, task="transcribe", language=language)
        features = model.feature_extractor(samples)
        encoded = model.encode(pad_or_trim(features))
        tokens = [t for t in tokenizer.encode(" " + text.lower()) if t < tokenizer.eot]
        found = model.find_alignment(tokenizer, [tokens], encoded, features.shape[-1])[0]
        for word in found:
            if any(c.isalnum() for c in word["word"]):
                yield round(100 * float(word["start"]))
