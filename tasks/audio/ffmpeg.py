"""Decoding with FFmpeg (PyAV): samples in blocks, holes filled with silence, and the faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import BinaryIO

import av
import numpy as np

from tasks.audio.damage import adts, matroska, mp4
from tasks.audio.damage.flac_md5 import Md5, flac_info
from tasks.audio.damage.mp3 import has_frame_count
from tasks.audio.frames import Assembler
from tasks.audio.opening import CHECKED, audio_stream, header_of, open_container
from tasks.audio.packets import LOOSE_END, Gap, Packets
from tasks.audio.timeline import Timeline
from tasks.audio.types import AGAIN, Decoder, Samples
from tasks.base.errors import ItemError
from tasks.recording.faults import Fault

#: The length that an ASF header states may be this much more than what is there, s.
_LATE = 1.0
_FLAC_FRAME = 4608  # most samples of a frame in the subset that nearly all encoders keep to


class FFmpeg(Decoder):
    """Decoder of the first audio stream, in one thread.

    A packet that FFmpeg rejects is left out, as the program `ffmpeg` does, and is a fault. Rate and
    channels are those of the first frame; a later part with others is resampled and mixed, as a
    player does.
    """

    def __init__(self, file: BinaryIO, size: int, check: bool = True) -> None:
        self._info = flac_info(file)
        self._wrong_clusters = matroska.damaged_spans(file, size)
        break_after = adts.first_break(file, size)
        self._container = open_container(file)
        try:
            stream = audio_stream(self._container, check)
            self._checked = stream.codec_context.name in CHECKED
            self._name = self._container.format.name.split(",")[0]
            self._joined = self._name == "mov" and mp4.is_joined(file, size)
            self._counts_frames = self._name == "mp3" and has_frame_count(file)
            self._packets = Packets(self._container, stream, self._name, break_after)
            self._frames = self._packets.frames()
            self._first, gap = next(self._frames)
            if self._first is None and gap.packets:
                what = f"none of its packets can be decoded: {gap.words}; {AGAIN}"
                raise ItemError("unreadable", what)
            if not gap.packets and not self._checked:
                gap.said.clear()  # these messages are about the header, not about samples
            self.header = header_of(self._name, stream, self._first, size)
            # With a picture, the length is that of the longer of both.
            alone = self._name == "asf" and len(self._container.streams) == 1
            self._stated = self.header.frames if alone else None
        except BaseException:
            self._container.close()
            raise
        self._before = gap
        early = bool(gap.said or gap.packets)
        tick = stream.time_base or Fraction(1, self.header.rate)
        self._timeline = Timeline(
            self._name,
            (tick.numerator, tick.denominator),
            self.header,
            self._checked,
            whole_frames=break_after is None,
            complained=early,
            expected=0.0 if early else None,  # the first frame did not decode
        )
        self.faults: list[Fault] = self._timeline.faults

    @property
    def one_place(self) -> bool:
        """Whether packets were rejected, all close together; known when all is decoded."""
        return not self._checked and self._timeline.rejected and len(self.faults) == 1

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of exactly `frames`; shorter ones at the end and before a change or a hole."""
        md5 = Md5(self._info) if self._info else None
        at = 0
        for block in self._blocks(frames):
            at += len(block)
            if md5 is not None:
                md5.add(block)
            yield block
        timeline = self._timeline
        timeline.add_clusters(self._wrong_clusters)
        if not self._checked:
            timeline.check_length(self.header.frames if self._counts_frames else None)
        if md5 is None or timeline.changed or not md5.exact:
            return
        if not md5.differs():  # the samples are right, whatever FFmpeg reported
            self.faults.clear()
            return
        promised = self._info.frames if self._info and self._info.frames else at
        if at < promised - _FLAC_FRAME or (at < promised and not self.faults):
            code = "decode_error" if self.faults else "truncated"
            raise ItemError(code, f"{promised} samples promised, {at} there; {AGAIN}")
        if at < promised:  # the last frame is damaged
            self.faults.append(Fault(at, promised, "its last frame is missing"))
            yield from self._silence(promised - at, frames)
        elif not self.faults:
            self.faults.append(Fault(0, at, "its MD5 is of other samples", shifts=True))

    def _blocks(self, frames: int) -> Iterator[Samples]:
        timeline = self._timeline
        assembler = Assembler(self.header.rate, self.header.channels, frames)
        frame, gap = self._first, self._before
        if self._name in LOOSE_END or not gap.packets:
            gap = Gap(astray=gap.astray)
        try:
            while frame is not None:
                if assembler.differs(frame):
                    yield from self._counted(assembler.change(frame))
                    timeline.changed = True
                timeline.longest = max(timeline.longest, frame.samples)
                timeline.complained = timeline.complained or bool(gap.said)
                hole = timeline.missing_before(frame)
                guess = hole is None and bool(gap.packets)
                if guess:
                    hole = self._packets.rejected_samples(gap, frame.samples)
                if hole:
                    yield from self._counted(assembler.flush())
                    yield from self._silence(timeline.fill(hole, gap, guess), frames)
                timeline.add(frame, gap, timeline.at + assembler.samples, filled=bool(hole))
                if full := assembler.push(frame):
                    yield from self._counted(full)
                frame, gap = next(self._frames)
        except (av.FFmpegError, ItemError):
            yield from self._counted(assembler.flush())
            raise
        yield from self._counted(assembler.finish())
        if self._name in LOOSE_END:
            return
        if gap.packets and self._first is not None and not self._checked:
            # The index of an MP4 also holds the length of what cannot be decoded.
            promised = (self.header.frames or 0) if self._name == "mov" else 0
            lost = self._packets.rejected_samples(gap, timeline.longest)
            hole = max(lost, promised - timeline.at)
            yield from self._silence(timeline.fill(hole, gap, guess=False), frames)
        elif gap.said:
            self.faults.append(Fault(timeline.at, timeline.at, gap.words))
        elif self._joined:
            what = "another MP4 follows in it, which is not read; split the file"
            self.faults.append(Fault(timeline.at, timeline.at, what))
        elif self._stated and self._stated - timeline.at > _LATE * self.header.rate:
            short = (self._stated - timeline.at) / self.header.rate
            self.faults.append(Fault(timeline.at, timeline.at, f"{short:.1f} s missing at its end"))

    def _counted(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        for block in blocks:
            self._timeline.at += len(block)
            yield block

    def _silence(self, count: int, frames: int) -> Iterator[Samples]:
        for at in range(0, count, frames):
            yield np.zeros((min(frames, count - at), self.header.channels), np.float32)

    def close(self) -> None:
        self._container.close()
