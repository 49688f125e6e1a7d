"""Decodes a recording block by block, or one span of it."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from math import isfinite
from typing import NoReturn

import numpy as np

from ..base.counting import counted
from ..base.errors import ItemError
from ..recording import Locator
from ..recording.container import as_file, failure, size_of
from ..recording.faults import Fault, merged
from ..recording.limits import Limits
from ..recording.tracks import NOT_READ, PEAK
from ..recording.unreachable import item_error
from .channels import Beside, Listened, Unleaked, mean
from .damage.promise import lost_since, promise
from .decoders import BROKEN, opened, words_of
from .types import AGAIN, BLOCK_FRAMES, BLOCK_VALUES, Header, Samples

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz
LOUDEST = 1.01  # of full scale: lossy codecs overshoot it a little


class Stream(AbstractContextManager["Stream"]):
    """A recording, decoded once, in order, up to its limits. `decoded`: samples so far. ItemError:
    `missing`, `empty`, `unreadable`, `bad_sample_rate`."""

    def __init__(
        self, locator: Locator, limits: Limits | None = None, header_only: bool = False
    ) -> None:
        self._file, self._limits = as_file(locator), limits
        self._silenced = bool(locator.silenced)
        self.decoded = 0
        try:
            self._size = size_of(self._file)
            if not self._size:
                raise ItemError("empty", f"the file has no bytes; {AGAIN}")
            result = opened(self._file, self._size, header_only, locator.track, locator.headerless)
            self._decoder, self._audio, notes = result.decoder, result.file, result.notes
            if failed := failure(self._file):  # the decoder took the failure for the end
                self._decoder.close()
                raise failed
        except BaseException as error:
            self._file.close()
            failed = error if isinstance(error, OSError) else failure(self._file)
            if failed is not None:
                raise item_error(failed) from failed
            raise
        try:
            header, only = self._decoder.header, locator.or_only
            asked = None if only and header.channels == 1 else locator.channels
            self.header = header if asked is None else picked(header, *asked)
        except ItemError:
            self.close()
            raise
        self.rate, self.channels = self.header.rate, self.header.channels
        self.format, self.weights = self.header.format, self.header.weights
        one = self.header.picked if self.channels == 1 else None
        self.beside = None if one is None else Beside(self.rate, one[0])
        if locator.every_track:
            notes = [note for note in notes if not note.startswith(NOT_READ)]
        self.notes = notes  # oddities that cost no audio
        self._lost: list[Fault] = []
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            self.close()
            readable = f"only {LOWEST_RATE} to {HIGHEST_RATE} Hz can be read"
            what = f"its header says {self.rate} Hz, but {readable}; correct its header"
            raise ItemError("bad_sample_rate", what)

    @property
    def faults(self) -> list[Fault]:
        """Damage that decoder and container report, by start; complete once `blocks` has ended."""
        return merged([*self._decoder.faults, *self._lost])

    def blocks(self, frames: int = BLOCK_FRAMES) -> Iterator[Samples]:
        """float32 [n, channels], n at most `frames`. From a block with a NaN on, samples are
        counted but not delivered, unless the locator silences them.

        ItemError `decode_error`, `truncated`, `non_finite`, `empty`, `unreachable`, or that of a
        limit, with the number of samples decoded.
        """
        channels = self.header.picked
        decoded_channels = max(self._decoder.header.channels, 1)
        frames = max(min(frames, BLOCK_VALUES // decoded_channels), 1)
        bad: int | None = None  # the first sample that is not finite
        zeroed, peak = 0, 0.0
        limits = self._limits
        most = limits.most(self.rate, self.channels, self._size) if limits else sys.maxsize
        try:
            for block in self._decoder.read(frames):
                if self.beside is not None:
                    self.beside.push(block)
                if channels is not None:
                    block = np.ascontiguousarray(block[:, channels])
                high, low = float(block.max(initial=0)), float(block.min(initial=0))
                if bad is None and not (isfinite(high) and isfinite(low)):
                    finite = np.isfinite(block)
                    if self._silenced:
                        zeroed += int((~finite.all(axis=1)).sum())
                        block = np.where(finite, block, np.float32(0))
                        high, low = float(block.max(initial=0)), float(block.min(initial=0))
                    else:
                        bad = self.decoded + int(finite.all(axis=1).argmin())
                self.decoded += len(block)
                if self.decoded > most:
                    self._refuse()
                if bad is None:
                    peak = max(peak, high, -low)
                    yield block
        except ItemError as error:
            self._check_reads()
            raise self._error(error.code, error.detail) from error
        except BROKEN as error:
            self._check_reads()
            raise self._error("decode_error", f"{words_of(error)}; {AGAIN}") from error
        self._check_reads()
        if bad is not None:
            self._check_promise()  # missing bytes may be the cause
            what = f"a sample at {bad / self.rate:.2f} s is NaN or infinite; convert the file again"
            remedy = "or take such samples as zero with filter.non_finite=silence"
            raise self._error("non_finite", f"{what}, {remedy}")
        if zeroed:
            self.notes.append(f"{zeroed} samples are NaN or infinite: they were taken as zero")
        if peak > LOUDEST:
            what = f"{PEAK} {peak:.3g} times full scale, and what lies beyond is cut off"
            self.notes.append(f"{what}, unless resample.levels=[{{use: peak}}] brings it down")
        if not self.decoded:
            raise self._error("empty", f"it decodes to no samples; {AGAIN}")
        self._check_promise()

    def _refuse(self) -> NoReturn:
        assert self._limits is not None
        no = self._limits.of_decoded(self.rate, self.channels, self._size, self.decoded)
        assert no is not None
        self.decoded = no.decoded
        raise ItemError(no.code, no.detail)

    def _check_reads(self) -> None:
        """ItemError `unreachable` if a read has failed, whatever the decoder made of it."""
        if failed := failure(self._file):
            error = item_error(failed)
            raise self._error(error.code, error.detail) from failed

    def _check_promise(self) -> None:
        audio = promise(self._audio)
        if audio is None:
            return
        missing = audio.promised - audio.held
        since = lost_since(self._audio, audio) if missing > 0 else None
        if missing >= max(audio.frame, 1) or (since is not None and audio.floats):
            what = f"its header promises {audio.promised} bytes of audio, but it has {audio.held}"
            raise self._error("truncated", f"{what}; {AGAIN}")
        if since is not None:
            what = (
                f"{missing} of {audio.promised} bytes fell out and what follows is misread; {AGAIN}"
            )
            self._lost.append(Fault(since, self.decoded, what, shifts=True))
        elif audio.after:
            self._lost.append(Fault(self.decoded, self.decoded, audio.after))
        elif audio.half_frame:
            self.notes.append(f"its last frame has {audio.half_frame} of {audio.frame} bytes")

    def listened(self) -> Listened:
        return Listened(self.weights) if self.beside is None else Unleaked(self.beside)

    def skip_to(self, sample: int) -> bool:
        """Seek to a sample and return True; False, without moving, if seeking is not exact."""
        moved = self._decoder.skip_to(sample)
        if moved and self.beside is not None:
            self.beside.start = sample
        return moved

    def _error(self, code: str, detail: str) -> ItemError:
        return ItemError(code, detail, self.decoded, self.rate)

    def close(self) -> None:
        self._decoder.close()
        self._file.close()

    def __exit__(self, *exc: object) -> None:
        self.close()


def picked(header: Header, *channels: int) -> Header:
    """The header of these channels, in order, of a file with `header`. ItemError `unreadable` if
    one is missing."""
    if channels == (*range(header.channels),):
        return header
    if lacking := [number for number in channels if number >= header.channels]:
        what = f"it has {counted(header.channels, 'channel')}, and no channel {lacking[0]}"
        raise ItemError("unreadable", f"{what}, counted from 0; correct the channel in the source")
    return replace(header, channels=len(channels), weights=None, picked=channels)


open_stream = Stream


def probe(locator: Locator) -> Header:
    """Only the header. ItemError as of `Stream`, and `empty` if it promises no audio."""
    with Stream(locator, header_only=True) as stream:
        if stream.header.frames == 0:
            what = f"the header says that there is no audio; {AGAIN}"
            raise ItemError("empty", what, 0, stream.rate)
        return stream.header


def read_span(locator: Locator, start: int, stop: int) -> Samples:
    """Samples `start` to `stop` of a recording, float32 [stop - start, channels].

    Exact to the sample for every codec: unless seeking is exact, it decodes from the beginning.
    """
    pieces = list(span_blocks(locator, start, stop))
    return np.concatenate(pieces) if len(pieces) != 1 else pieces[0]


def read_mix(locator: Locator, start: int, stop: int) -> Samples:
    """`read_span` mixed to one channel, float32 [stop - start]."""
    with open_stream(locator) as stream:
        blocks = _span(stream, start, stop)
        return np.concatenate([mean(block, np.float32, stream.weights) for block in blocks])


def span_blocks(locator: Locator, start: int, stop: int) -> Iterator[Samples]:
    """`read_span` block by block. ItemError `decode_error` if the recording ends before `stop`."""
    with open_stream(locator) as stream:
        yield from _span(stream, start, stop)


def _span(stream: Stream, start: int, stop: int) -> Iterator[Samples]:
    position = start if stream.skip_to(start) else 0
    for block in stream.blocks():
        low, high = max(start - position, 0), min(stop - position, len(block))
        if low < high:
            yield block[low:high]
        position += len(block)
        if position >= stop:
            return
    what = f"it ends at sample {position}, before {stop}"
    raise ItemError("decode_error", what, position, stream.rate)
