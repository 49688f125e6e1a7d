"""Clips for engines with a limited input length: cut at the quietest place, batched, and joined."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TypeVar

import numpy as np

from ..base.arrays import RATE, Float32s
from ..base.errors import shortened
from ..base.logs import log
from . import SpeechClip, Transcript, Word, _words

Item = TypeVar("Item")
Result = TypeVar("Result")
#: What engines raise for a batch; anything else is a bug and stays loud.
REFUSALS = (RuntimeError, ValueError, MemoryError)
_NO_MEMORY = re.compile(r"out of memory|bad_alloc|alloc_failed|(failed to|cannot) allocate", re.I)
_DEVICE = re.compile("cuda|cublas|cudnn", re.I)


def batches(items: Sequence[Item], seconds: Callable[[Item], float], most: int) -> list[list[Item]]:
    """Items, longest first, in batches of at most `most`: an engine pads a batch to its longest
    clip, and beam search ends with the longest text."""
    order = sorted(items, key=lambda item: -seconds(item))
    return [order[start : start + most] for start in range(0, len(order), most)]


class Limit:
    """The largest batch that has fitted into this process's memory."""

    def __init__(self) -> None:
        self.most: int | None = None
        self.refused = 0  # batches
        #: Whether the engine has just refused a batch for lack of memory. On a GPU the call after
        #: that one may fail with the error that it left behind (CTranslate2 4.8 on an H100:
        #: "cudaErrorInvalidDevice"), and the one after works again.
        self.echoes = False

    def lower(self, most: int) -> None:
        """Lower the limit for good: what ran out of memory once would do so again."""
        if self.most is None or most < self.most:
            self.most = most
            log.warning("the recogniser ran out of memory; batch size reduced to %d", most)


def halved(
    items: Sequence[Item],
    compute: Callable[[list[Item]], list[Result]],
    failed: Callable[[Exception], Result],
    limit: Limit,
) -> list[Result]:
    """Results of a batch, in order. A batch that the engine refuses is halved until it accepts the
    parts; `failed` makes the result of an item that is refused alone. A lost device raises, because
    it would fail for every later clip; an error left behind by a lack of memory does not count as
    one."""
    results: list[Result] = []
    while len(results) < len(items):
        part = list(items[len(results) :][: limit.most])
        try:
            results += compute(part)
            limit.echoes = False
            continue
        except REFUSALS as error:
            if device_lost(error):
                if not limit.echoes:
                    raise
                limit.echoes = False
                continue
            limit.refused += 1
            short = limit.echoes = out_of_memory(error)
            if len(part) == 1:
                results.append(failed(error))
                continue
        half, before = (len(part) + 1) // 2, limit.refused
        for piece in (part[:half], part[half:]):
            results += halved(piece, compute, failed, limit)
        if short and limit.refused == before:  # else a clip is to blame, or a half has lowered it
            limit.lower(half)
    return results


def engine_fault(error: Exception) -> str:
    """An engine's error, as a transcript reports it."""
    return shortened(f"{type(error).__name__}: {error}")


def out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def device_lost(error: Exception) -> bool:
    """Whether a GPU failed for another reason than lack of memory."""
    return bool(_DEVICE.search(str(error))) and not out_of_memory(error)


QUIET = RATE // 10  # samples over which quietness is measured


def cut(samples: Float32s, longest: int) -> list[Float32s]:
    """Consecutive pieces of at most `longest` samples at 16 kHz, cut at the quietest 0.1 s of the
    last third of each; together they are the clip."""
    pieces = []
    while len(samples) > longest:
        low = longest * 2 // 3
        frames = samples[low : low + (longest - low) // QUIET * QUIET].reshape(-1, QUIET)
        power = np.square(frames, dtype=np.float64).sum(axis=1)
        edge = low + int(power.argmin()) * QUIET + QUIET // 2
        pieces.append(samples[:edge])
        samples = samples[edge:]
    return [*pieces, samples]


def padded(samples: Float32s, shortest: int) -> Float32s:
    """The clip, with silence added up to `shortest` samples."""
    return np.pad(samples, (0, max(shortest - len(samples), 0)))


@dataclass(frozen=True, slots=True)
class EngineResult:
    """An engine's result for a piece: `words` with times in the piece, None if unknown;
    log-probabilities of its tokens, if any; the language, if it detects one."""

    text: str
    words: tuple[Word, ...] | None = None
    logprobs: tuple[float, ...] = ()
    language: str | None = None
    error: str | None = None


Piece = tuple[Float32s, str | None]  # float32 [n] at 16 kHz, and its language
Hear = Callable[[list[Piece]], list[EngineResult]]  # in order; all pieces have one language


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine takes clips: pieces of at most `longest` samples, at most `most` at once and in
    one language. `timed`: the words' times are wanted."""

    hear: Hear
    longest: int
    most: int
    timed: bool
    limit: Limit = field(default_factory=Limit)

    def transcripts(
        self,
        clips: Sequence[SpeechClip],
        languages: Sequence[str | None],
        refusals: Iterable[str | None] = repeat(None),
    ) -> Iterator[Transcript]:
        """One transcript per clip, in order; `refusals`: why the engine refuses its language."""
        faults = [one or fault(clip) for clip, one in zip(clips, refusals, strict=False)]
        pieces: list[list[Piece]] = []
        for clip, language, wrong in zip(clips, languages, faults, strict=True):
            cuts = [] if wrong or not len(clip.samples) else cut(clip.samples, self.longest)
            pieces.append([(samples, language) for samples in cuts])
        heard = iter(self._all([piece for cuts in pieces for piece in cuts]))
        for language, wrong, own_pieces in zip(languages, faults, pieces, strict=True):
            results = [next(heard) for _ in own_pieces]
            if error := wrong or next((one.error for one in results if one.error), ""):
                yield Transcript("", error=error)
            else:
                lengths = [len(samples) / RATE for samples, _ in own_pieces]
                yield self._joined(results, lengths, language)

    def _all(self, pieces: list[Piece]) -> list[EngineResult]:
        results: dict[int, EngineResult] = {}
        for language in sorted({language or "" for _, language in pieces}):
            indices = [i for i, piece in enumerate(pieces) if (piece[1] or "") == language]
            for batch in batches(indices, lambda i: len(pieces[i][0]), self.most):
                shared = halved([pieces[i] for i in batch], self.hear, failed, self.limit)
                results.update(zip(batch, shared, strict=True))
        return [results[i] for i in range(len(pieces))]

    def _joined(
        self, results: list[EngineResult], lengths: list[float], language: str | None
    ) -> Transcript:
        """The pieces' texts, joined by spaces, and their words with times in the clip."""
        words: list[Word] = []
        offset = 0.0
        for one, length in zip(results, lengths, strict=True):
            for number, word in enumerate(one.words or ()):
                space = " " if words and not number else ""
                start, end = word.start + offset, word.end + offset
                words.append(Word(space + word.word, start, end, word.probability))
            offset += length
        complete = all(one.words is not None for one in results)
        detected = next((one.language for one in results if one.language), None)
        return Transcript(
            text=" ".join(one.text for one in results if one.text),
            language=language or detected,
            avg_logprob=_words.mean([logprob for one in results for logprob in one.logprobs]),
            words=tuple(words) if self.timed and complete else None,
            text_end=words[-1].end if words and complete else None,
            detected_language=None if language else detected,
        )


def failed(error: Exception) -> EngineResult:
    return EngineResult("", error=engine_fault(error))


def fault(clip: SpeechClip) -> str:
    """Why no engine can transcribe a clip; empty if nothing is wrong."""
    return "" if np.isfinite(clip.samples).all() else "samples are NaN or infinite"
