"""Decode a recording once, in blocks, and yield each span with its samples once it is final."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from tasks import audio
from tasks.audio.beside import Beside
from tasks.audio.types import Weights
from tasks.base.arrays import Float32s
from tasks.base.schema import RecordingRow
from tasks.recording import Locator, unreachable
from tasks.recording.faults import Fault
from tasks.recording.guard import UNPROVEN
from tasks.recording.limits import Limits
from tasks.segmenters import Segmenter, Span
from tasks.stages.shared_decode import Readers
from tasks.storage import urls

HELD_SECONDS = 120.0  # longest utterance that is kept in memory; longer ones are decoded again


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
    long: Readers | None = None  # of the utterance that is too long to be held, while it arrives


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
    which nothing is wanted, where the format can seek exactly, else 0. Raises ItemError when the
    recording cannot be decoded to its end, or is beyond the limits.

    The clip of an utterance longer than HELD_SECONDS is decoded again when it is read. If it lasts
    to the end of the recording, as `whole` cuts it, `readers(start)` may read it while it arrives;
    `facts.long` has them then.
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
                    facts.long.close()  # the utterance has ended in the middle
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


def as_hashed(locator: Locator, recording: RecordingRow) -> bool:
    """Whether a recording has the bytes of its digest; ask before they are decoded. They are read
    only where no guard vouches for them."""
    if not recording["guard"].endswith(UNPROVEN):
        return True
    with unreachable.listed():
        return bool(audio.digest(locator)[0] == recording["content"])


def unchanged(locator: Locator, guard: str) -> bool:
    """Whether a recording's file is still the one that was hashed; ask when it has been decoded.
    ItemError `unreachable` where that cannot be told."""
    with unreachable.listed():
        return urls.guard(locator.path) == guard.removesuffix(UNPROVEN)
