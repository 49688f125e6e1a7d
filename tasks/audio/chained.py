"""Joined Ogg files (chained streams), each decoded by itself and converted to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from tasks.audio.damage.ogg_pages import MOST_LINKS
from tasks.audio.match_first_part import LikeFirst
from tasks.audio.types import Decoder, Header, Samples
from tasks.recording.container import Window
from tasks.recording.faults import Fault


class Chained(Decoder):
    """Decodes links (offset, length) in order, resampled to the rate of the first one and mixed to
    its channels. `opened` gives the decoder of a link."""

    def __init__(
        self,
        file: BinaryIO,
        links: Sequence[tuple[int, int]],
        opened: Callable[[BinaryIO, int], Decoder],
    ) -> None:
        self._file, self._links, self._opened = file, links, opened
        self.faults: list[Fault] = []
        self._current = self._open(0)
        first = self._current.header
        self.header = Header(first.rate, first.channels, None, first.format, first.decoder)

    def _open(self, index: int) -> Decoder:
        offset, length = self._links[index]
        return self._opened(Window(self._file, offset, length), length)  # type: ignore[arg-type]

    def read(self, frames: int) -> Iterator[Samples]:
        rate, channels = self.header.rate, self.header.channels
        at = 0
        for index in range(len(self._links)):
            if index:
                self._current.close()
                self._current = self._open(index)
            own = self._current.header
            begins = at
            same = (own.rate, own.channels) == (rate, channels)
            like_first = None if same else LikeFirst(own.rate, own.channels, rate, channels)
            try:
                for block in self._current.read(frames):
                    for ready in [block] if like_first is None else like_first.push(block):
                        at += len(ready)
                        yield ready
                for ready in [] if like_first is None else like_first.rest():
                    at += len(ready)
                    yield ready
            finally:
                self.faults += [f.moved(begins, rate / own.rate) for f in self._current.faults]
        if len(self._links) >= MOST_LINKS:
            what = (
                f"it joins more than {MOST_LINKS} files, of which no more are read; split the file"
            )
            self.faults.append(Fault(at, at, what))

    def close(self) -> None:
        self._current.close()
