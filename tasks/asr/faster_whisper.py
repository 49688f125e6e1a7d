"""Whisper through CTranslate2: batches across files on CPU and GPU.

Clips of up to 30 s are transcribed several at once (`_whisper_windows.py`), and speech that their
texts leave out once more (`_whisper_whole.py`). Longer clips go through the engine's long form one
at a time (`_whisper_long.py`). Clips of a batch have similar lengths and windows of one length; a
forced language may have its own batch size.

Nothing is ever downloaded: `model` is `base`, from two PyPI wheels, or a model on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from tasks.asr import SpeechClip, Transcript, _batching, _chinese, _whisper_model
from tasks.asr._whisper_long import Long
from tasks.asr._whisper_model import weights
from tasks.asr._whisper_settings import Settings, code
from tasks.asr._whisper_whole import Hearing, begun
from tasks.asr._whisper_windows import RATE, SECONDS, Asked, Window, Windows

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

__all__ = ["VERSION", "Backend", "Settings", "gpu_fault", "wants_gpu", "weights"]

VERSION = 5


def wants_gpu(settings: Settings) -> bool:
    return settings.device != "cpu"


def gpu_fault(settings: Settings) -> str | None:
    """What CTranslate2 lacks on this machine to use a GPU, or None."""
    from tasks.plugins import gpu

    return gpu.ctranslate2_fault()


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings, model: WhisperModel | None = None) -> None:
        """`model`: one that is loaded already."""
        self._settings = settings
        self._model = model or _whisper_model.load(settings)
        self._windows = Windows(self._model, settings)
        self._long = Long(self._model, settings)
        self._limit = _batching.Limit()
        self._codes = set(self._model.supported_languages)
        _whisper_model.check_languages(settings, self._codes)

    def warm(self) -> None:
        """Prepare for the first clip. ConfigError when the GPU cannot be used after all."""
        _whisper_model.warm(self._model)

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        """One transcript per clip, in order; each batch is computed on demand.

        Clips whose text leaves out speech wait until there are enough for a batch.
        """
        done: dict[int, Transcript] = {}
        asked: dict[int, Asked] = {}
        for index, clip in enumerate(clips):
            found = self._asked(clip)
            if isinstance(found, Transcript):
                done[index] = found
            else:
                asked[index] = found
        plan = iter(self._plan(asked))
        waiting: dict[int, Hearing] = {}
        for index in range(len(clips)):
            while index not in done:
                batch = next(plan, None)
                if batch is not None:
                    for i, one in zip(batch, self._batch([asked[i] for i in batch]), strict=True):
                        self._finish_or_wait(i, one, waiting, done)
                most = self._settings.size_of(None, self._device)
                if batch is None or len(waiting) >= most:
                    self._hear_missed(waiting, done, most)
            yield done.pop(index)

    def _finish_or_wait(
        self,
        index: int,
        found: Hearing | Transcript,
        waiting: dict[int, Hearing],
        done: dict[int, Transcript],
    ) -> None:
        """Put a clip into `done` when its text covers its speech, else into `waiting`."""
        if isinstance(found, Hearing):
            if found.missed():
                waiting[index] = found
                return
            found = found.transcript(self._settings.word_timestamps)
        done[index] = _chinese.written(found, self._settings.chinese)

    def _hear_missed(
        self, waiting: dict[int, Hearing], done: dict[int, Transcript], most: int = 1
    ) -> None:
        """Transcribe one missed span of each of the first `most` waiting clips, in one batch."""
        order = sorted(waiting)[:most]
        spans = [waiting[i].missed()[0] for i in order]
        asked: list[Asked] = [
            (waiting[i].cut(span), waiting[i].language.code)
            for i, span in zip(order, spans, strict=True)
        ]
        heard = _batching.shared(asked, self._hear_spans, _failed, self._limit)
        for i, span, window in zip(order, spans, heard, strict=True):
            hearing = waiting.pop(i)
            if isinstance(window, Window):
                hearing.rounds += 1
                hearing.add(span, window)
                self._finish_or_wait(i, hearing, waiting, done)
            else:
                done[i] = window

    def _asked(self, clip: SpeechClip) -> Asked | Transcript:
        """The clip and the code of its language; or its transcript where it needs no model."""
        stated = clip.language or self._settings.language
        language = code(stated) if stated else None
        if not self._model.model.is_multilingual:
            language = "en"
        elif language is not None and language not in self._codes:
            return Transcript("", error=_whisper_model.unknown(str(stated)))
        if not len(clip.samples):
            words = () if self._settings.word_timestamps else None
            return Transcript("", language, no_speech_probability=1.0, words=words)
        if not np.isfinite(clip.samples).all():
            return Transcript("", error="samples are NaN or infinite")
        return clip, language

    def _plan(self, asked: dict[int, Asked]) -> list[list[int]]:
        """Batches of indices, longest clips first; a clip of more than 30 s is batched alone."""
        groups: dict[tuple[int, int], list[int]] = {}
        for index, (clip, language) in asked.items():
            most = 1 if _is_long(clip) else self._settings.size_of(language, self._device)
            groups.setdefault((most, self._windows.length(clip)), []).append(index)
        found = []
        for (most, _), members in groups.items():
            seconds = [len(asked[i][0].samples) / RATE for i in members]
            # Windows of a group are padded to one length: the budget is a number of clips.
            plan = _batching.batches(seconds, budget=inf, most=most)
            found += [[members[i] for i in batch] for batch in plan]
        return sorted(found, key=lambda batch: (-len(asked[batch[0]][0].samples), batch[0]))

    @property
    def _device(self) -> str:
        return "cuda" if self._model.model.device == "cuda" else "cpu"

    def _hear_spans(self, asked: list[Asked]) -> list[Window | Transcript]:
        return list(self._windows.hear(asked, detect=False))

    def _batch(self, asked: list[Asked]) -> list[Hearing | Transcript]:
        return _batching.shared(asked, self._hear, _failed, self._limit)

    def _hear(self, asked: list[Asked]) -> list[Hearing | Transcript]:
        clip, language = asked[0]
        if _is_long(clip):
            return [self._long.hear(clip, self._windows.language(clip, language))]
        heard = self._windows.hear(asked)
        return [begun(one, window) for (one, _), window in zip(asked, heard, strict=True)]


def _is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > SECONDS * RATE


def _failed(error: Exception) -> Transcript:
    return Transcript("", error=f"{type(error).__name__}: {error}"[:500])
