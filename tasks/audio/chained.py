"""Joined Ogg files (chained streams), each decoded by itself and converted to the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from tasks.audio.damage.ogg_pages import MOST_LINKS
from tasks.audio.frames import PartConverter
from tasks.audio.types import Decoder, Samples
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
        self.header = replace(first, frames=None)

    def _open(self, index: int) -> Decoder:
        offset, length = self._links[index]
        return self._opened(Window(self._file, offset, length), length)  # type: ignore[arg-type]

    def read(self, frames: int) -> Iterator[Samples]:
        rate, channels = self.header.rate, self.header.channels
        position = 0
        for index in range(len(self._links)):
            if index:
                self._current.close()
                self._current = self._open(index)
            header = self._current.header
            start = position
            form = header.rate, header.channels
            same = form == (rate, channels)
            converter = None if same else PartConverter(*form, rate, channels, header.weights)
            try:
                for block in self._current.read(frames):
                    for ready in [block] if converter is None else converter.push(block):
                        position += len(ready)
                        yield ready
                for ready in [] if converter is None else converter.rest():
                    position += len(ready)
                    yield ready
            finally:
                self.faults += [f.moved(start, rate / header.rate) for f in self._current.faults]
        if len(self._links) >= MOST_LINKS:
            what = f"it joins more than {MOST_LINKS} files; the rest is not read: split the file"
            self.faults.append(Fault(position, position, what))

    def close(self) -> None:
        self._current.close()
