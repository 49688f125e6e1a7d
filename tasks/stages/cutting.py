"""Decode a recording once, in blocks, and yield each span with its samples once it is final."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from .. import audio
from ..audio import Clip
from ..audio.beside import Beside
from ..audio.types import Samples, Weights
from ..base.arrays import Float32s
from ..recording import Locator, unreachable
from ..recording.faults import Fault
from ..recording.limits import Limits
from ..segmenters import Segmenter, Span
from ..storage import urls

# A long clip, decoded once while several readers consume it.
#
# A clip in memory can be read any number of times. A longer one would be decoded again by every
# measure and by the conversion to PCM. Here each reader has its own thread, but only one runs at
# a time: `push` hands a block to each reader in turn and waits until it asks for the next. So the
# numbers equal those of a reader that decodes by itself, and a worker uses one CPU.
#
# The length is not known before the last block. A reader that asks for it earlier, or that reads
# twice, is left out, and decodes the clip later.


class TooEarly(Exception):
    """A reader needed something that is unknown until the clip has arrived."""


class _Stopped(BaseException):
    """The clip will not arrive; ends its reader, whatever errors that handles."""


class Arriving(Clip):
    """A clip whose blocks come only once; its length is known after the last one."""

    @property
    def num_samples(self) -> int:
        reader: _Reader = self.__dict__["reader"]
        if reader.length is None:
            raise TooEarly
        return reader.length

    @num_samples.setter
    def num_samples(self, value: int) -> None:
        """Clip's own `__init__` sets it."""

    @property
    def is_lazy(self) -> bool:
        return True

    def samples(self) -> Samples:
        raise TooEarly

    def blocks(self, frames: int = 0) -> Iterator[Samples]:
        reader: _Reader = self.__dict__["reader"]
        return reader.blocks()


@dataclass
class _Reader:
    """One reader in its thread; the decoding thread calls `push` and `end`."""

    work: Callable[[Clip], Any]
    result: Any = None
    error: BaseException | None = None
    length: int | None = None
    begun: bool = False
    ended: bool = False
    stopped: bool = False
    block: Samples | None = None
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self, rate: int, channels: int, weights: Weights | None, size: int) -> None:
        clip = Arriving(rate, channels, 0, None, size, weights=weights)
        clip.__dict__["reader"] = self
        thread = threading.Thread(target=self._run, args=(clip,), name="reader", daemon=True)
        thread.start()
        self.back.acquire()  # until it needs its first block, or has ended

    def _run(self, clip: Clip) -> None:
        try:
            self.result = self.work(clip)
        except BaseException as error:  # raised again by `results`
            self.error = error
        finally:
            self.ended = True
            self.back.release()

    def blocks(self) -> Iterator[Samples]:
        if self.begun:
            raise TooEarly
        self.begun = True
        while True:
            self.back.release()
            self.turn.acquire()
            if self.stopped:
                raise _Stopped
            if self.block is None:
                return
            yield self.block

    def push(self, block: Samples | None) -> None:
        if not self.ended:
            self.block = block
            self.turn.release()
            self.back.acquire()

    def end(self, length: int) -> None:
        """Signal the end of the clip."""
        self.length = length
        self.push(None)

    def stop(self) -> None:
        self.stopped = True
        self.push(None)


class Readers:
    """The readers of one clip, which begins at sample `start` of its recording."""

    def __init__(
        self,
        start: int,
        rate: int,
        channels: int,
        size: int,
        works: Mapping[str, Callable[[Clip], Any]],
        weights: Weights | None = None,
    ) -> None:
        self.start = start
        self._readers = {name: _Reader(work) for name, work in works.items()}
        for reader in self._readers.values():
            reader.start(rate, channels, weights, size)

    def push(self, block: Samples) -> None:
        for reader in self._readers.values():
            reader.push(block)

    def end(self, length: int) -> None:
        """Fix the clip's length: all samples were pushed."""
        for reader in self._readers.values():
            reader.end(length)

    def close(self) -> None:
        """End all readers, also in the middle of the clip."""
        for reader in self._readers.values():
            reader.stop()

    def results(self) -> dict[str, object]:
        """After `end`: the result of each reader, without those that raised TooEarly. Raises the
        first error of the others."""
        values = {}
        for name, reader in self._readers.items():
            if isinstance(reader.error, TooEarly):
                continue
            if reader.error is not None:
                raise reader.error
            values[name] = reader.result
        return values


HELD_SECONDS = 120.0  # longest utterance kept in memory; longer ones are decoded again


@dataclass(slots=True)
class StreamFacts:
    """Facts from decoding a recording; filled in while `spans` is iterated."""

    rate: int = 0
    channels: int = 0
    weights: Weights | None = None  # of the channels in their mix; None: the plain mean
    decoded: int = 0
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    beside: Beside | None = None  # levels of the file's other channels; None: they are mixed
    long: Readers | None = None  # readers of an utterance too long to hold, while it arrives


@dataclass(slots=True)
class _Tail:
    """The last blocks of a stream: samples `start` to `end` of the recording."""

    start: int = 0
    end: int = 0
    blocks: deque[Float32s] = field(default_factory=deque)

    def push(self, block: Float32s) -> None:
        self.blocks.append(block)
        self.end += len(block)

    def release(self, before: int) -> None:
        while self.blocks and self.start + len(self.blocks[0]) <= before:
            self.start += len(self.blocks.popleft())

    def cut(self, start: int, end: int) -> list[Float32s]:
        """Samples `start` to `end`, as pieces of the blocks; nothing is copied."""
        pieces, position = [], self.start
        for block in self.blocks:
            low, high = max(start - position, 0), min(end - position, len(block))
            if low < high:
                pieces.append(block[low:high])
            position += len(block)
        return pieces


def spans(
    locator: Locator,
    facts: StreamFacts,
    begin: Callable[[int, int], Segmenter],
    first: int = 0,
    readers: Callable[[int], Readers] | None = None,
    limits: Limits | None = None,
) -> Iterator[tuple[Span, audio.Clip | None]]:
    """Decode once; yield every span as soon as it is final, utterances with their clip.

    `begin(rate, start)` makes the segmenter; decoding starts at sample `start`: `first`, before
    which nothing is wanted, if the format can seek exactly, else 0. ItemError if the recording
    cannot be decoded to its end, or is beyond the limits.

    The clip of an utterance longer than HELD_SECONDS is decoded again when it is read. If it lasts
    to the end of the recording, as with `whole`, `readers(start)` may read it while it arrives;
    `facts.long` then holds them.
    """
    tail = _Tail()
    with audio.open_stream(locator, limits) as stream:
        facts.rate, facts.channels = stream.rate, stream.channels
        facts.weights, facts.beside = stream.weights, stream.beside
        listened = stream.listened()
        start = first if first and stream.skip_to(first) else 0
        tail.start = tail.end = facts.decoded = start
        segmenter = begin(stream.rate, start)
        tail_samples = int(HELD_SECONDS * stream.rate)
        try:
            for block in stream.blocks():
                tail.push(block)
                facts.decoded += len(block)
                if facts.long is not None:
                    facts.long.push(block)
                heard = listened.push(block)
                for span in segmenter.push(heard) if len(heard) else ():
                    yield span, _clip(span, tail, facts, locator)
                needed = segmenter.needed_from
                if readers is not None and tail.start <= needed < tail.end - tail_samples:
                    facts.long, readers = readers(needed), None  # once a recording
                    for piece in tail.cut(needed, tail.end):
                        facts.long.push(piece)
                elif facts.long is not None and needed > facts.long.start:
                    facts.long.close()  # the utterance ended before the recording
                    facts.long = None
                tail.release(max(needed, tail.end - tail_samples))
            facts.faults, facts.notes = stream.faults, stream.notes
            if facts.long is not None:
                facts.long.end(facts.decoded - facts.long.start)
            rest = listened.finish()
            last = [] if rest is None else segmenter.push(rest)
            for span in chain(last, segmenter.finish()):
                yield span, _clip(span, tail, facts, locator)
        finally:
            if facts.long is not None:
                facts.long.close()


def _clip(span: Span, tail: _Tail, facts: StreamFacts, locator: Locator) -> audio.Clip | None:
    if span.kind != "utterance" or span.end <= span.start:
        return None
    if span.start >= tail.start:
        return audio.Clip.of_pieces(tail.cut(span.start, span.end), facts.rate, facts.weights)
    native = facts.rate, facts.channels, facts.weights
    return audio.Clip.lazy(locator, span.start, span.end, *native)


def unchanged(locator: Locator, guard: str) -> bool:
    """Whether a recording's file is still the one that was hashed; call it after decoding.
    ItemError `unreachable` if that cannot be determined."""
    with unreachable.listed():
        return urls.guard(locator.path) == guard
