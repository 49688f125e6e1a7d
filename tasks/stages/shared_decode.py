"""A long clip, decoded once while several readers consume it.

A clip in memory can be read any number of times. A longer one would be decoded again by every
measure and by the conversion to PCM. Here each reader has its own thread, but only one runs at a
time: `push` hands a block to each reader in turn and waits until it asks for the next. So the
numbers equal those of a reader that decodes by itself, and a worker uses one CPU.

The length is not known before the last block. A reader that asks for it earlier, or that reads
twice, is left out, and decodes the clip later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.audio import Clip
from tasks.audio.types import Samples, Weights


class TooEarly(Exception):
    """A reader asked for something unknown until the clip has arrived."""


class _Stopped(BaseException):
    """The clip will not arrive; ends its reader, whatever errors that handles."""


class Arriving(Clip):
    """A clip whose blocks come once; its length is known after the last one."""

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
    """One reader in its thread; `push` and `end` are called by the thread that decodes."""

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
        self.back.acquire()  # until it asks for its first block, or has ended

    def _run(self, clip: Clip) -> None:
        try:
            self.result = self.work(clip)
        except BaseException as error:  # raised again where the result is asked for
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
        """That was the last block."""
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
        """After `end`: what each reader returned, without those that asked too early. Raises the
        first error of the others."""
        values = {}
        for name, reader in self._readers.items():
            if isinstance(reader.error, TooEarly):
                continue
            if reader.error is not None:
                raise reader.error
            values[name] = reader.result
        return values
