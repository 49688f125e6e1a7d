"""The clips of requests, for recognisers and models that hear.

In: rows of PCM in blobs. Out: float32 clips at the recogniser's rate, some minutes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..asr import SharedWindow, SpeechClip
from ..base.arrays import Float32s
from ..base.schema import EnhancedRow
from ..shard_store import blobs
from ..shard_store.requests import Recognition, Request, TextQuestion, WindowAudio

R = TypeVar("R", bound=Request[Any])
CHUNK_SECONDS = 300.0  # audio in memory at once, unless the recogniser wants more


def window_of(request: Request[Any]) -> WindowAudio | None:
    """The window that a request's clip shares with others."""
    return request.asked.window if isinstance(request.asked, Recognition) else None


def language_of(request: Request[Any]) -> str | None:
    """The language that is told with a request's clip."""
    return None if isinstance(request.asked, TextQuestion) else request.asked.language or None


def chunks(requests: list[R], most: float = CHUNK_SECONDS) -> Iterator[list[R]]:
    """Requests of about CHUNK_SECONDS, or of `most` if they share windows. A window is not divided:
    it would be recognised twice."""
    chunk: list[R] = []
    total = 0.0
    for (audio, _), group in groupby(requests, key=_place):
        together = list(group)
        seconds = sum(request.seconds for request in together)
        if chunk and total + seconds > (most if audio else CHUNK_SECONDS):
            yield chunk
            chunk, total = [], 0.0
        chunk += together
        total += seconds
    if chunk:
        yield chunk


def _place(request: Request[Any]) -> tuple[tuple[str, ...], str]:
    """What requests of one window have in common; others have nothing in common."""
    window = window_of(request)
    return (window.audio, "") if window else ((), request.recipe)


def clips(requests: Sequence[Request[Any]], out: Path, rate: int | None) -> list[SpeechClip]:
    """The clip of each request; those in one window have the same `SharedWindow` object."""
    windows: dict[tuple[str, ...], SharedWindow] = {}
    speech_clips = []
    for request in requests:
        language, window = language_of(request), window_of(request)
        if rate is None:
            speech_clips.append(SpeechClip(np.zeros(0, np.float32), language))
        elif window is None:
            samples = _samples(request.shard, request.pcm, out, rate)
            speech_clips.append(SpeechClip(samples, language))
        else:
            if window.audio not in windows:
                windows[window.audio] = _window(window, request.shard, out, rate)
            shared = windows[window.audio]
            first, last = shared.bounds[window.place]
            samples = shared.samples[first:last]
            speech_clips.append(SpeechClip(samples, language, shared, window.place))
    return speech_clips


def _window(window: WindowAudio, shard: str, out: Path, rate: int) -> SharedWindow:
    pieces: list[Float32s] = []
    bounds: list[tuple[int, int]] = []
    start = 0
    for row, pause in zip(window.rows, (*window.pauses, 0.0), strict=True):
        samples = np.zeros(0, np.float32) if row is None else _samples(shard, row, out, rate)
        bounds.append((start, start + len(samples)))
        pieces += [samples, np.zeros(round(pause * rate), np.float32)]
        start += len(pieces[-2]) + len(pieces[-1])
    return SharedWindow(np.concatenate(pieces), tuple(bounds))


def _samples(shard: str, row: EnhancedRow, out: Path, rate: int) -> Float32s:
    """PCM of a row as float32 [n] at `rate` Hz."""
    samples = blobs.read(out, shard, row).astype(np.float32) / np.float32(32768.0)
    if row["rate"] != rate:
        import soxr  # imported and warmed by uttermill.tasks.preload before the first task

        samples = soxr.resample(samples, row["rate"], rate, quality="HQ")
    return samples
