"""Speech regions by the rules of Silero's `get_speech_timestamps`, computed in a stream.

In: one probability per 32 ms window. Out: regions as (start, end) in samples at 16 kHz.

1. Hysteresis between `threshold` and `neg_threshold`, with pauses of `min_silence_ms`.
2. A region that is not longer than `min_speech_ms` is dropped.
3. Both ends are padded by `speech_pad_ms`; two pads that would meet share the pause equally.

Silero VAD 5 and 6 apply these rules to the whole recording; the regions here are the same.
"""

from __future__ import annotations

from tasks.base.arrays import RATE
from tasks.segmenters._speech_settings import SpeechSettings
from tasks.speech.silero import WINDOW


class SileroTimestamps:
    """`final` collects final regions in order; the caller empties it."""

    def __init__(self, settings: SpeechSettings) -> None:
        self._hysteresis = settings.hysteresis()
        self._min_speech = settings.min_speech_ms * RATE // 1000
        self._pad = settings.speech_pad_ms * RATE // 1000
        self.final: list[tuple[int, int]] = []
        #: Padded start of the open region, once it is long enough to count.
        self.open_start: int | None = None
        #: Samples of the audio, if known; to be set before the last window is pushed.
        self.length: int | None = None
        self._at = 0  # samples seen
        self._last: tuple[int, int] | None = None  # last region: start padded, end not yet

    @property
    def open_until(self) -> int:
        """The open region lasts at least up to this sample."""
        pause = self._hysteresis.pause
        if pause is not None:
            return pause * WINDOW
        return self._at if self.length is None else min(self._at, self.length)

    @property
    def earliest_pending(self) -> int:
        """No region that is not yet in `final` starts before this sample."""
        if self.open_start is not None:
            return self.open_start
        if self._last is not None:
            return self._last[0]
        start = self._hysteresis.start
        return max((self._at if start is None else start * WINDOW) - self._pad, 0)

    def push(self, probability: float) -> None:
        """Take the next window."""
        region = self._hysteresis.push(probability)
        if region is not None:
            self._close(region[0] * WINDOW, region[1] * WINDOW)
        self._at += WINDOW
        start = self._hysteresis.start
        if start is None:
            self._settle_after_pause()
        elif self.open_start is None and self.open_until - start * WINDOW > self._min_speech:
            self._open(start * WINDOW)

    def finish(self) -> None:
        """The audio ended after `length` samples; speech that is still open ends there."""
        length = self._at if self.length is None else self.length
        region = self._hysteresis.finish()
        if region is not None:
            self._close(region[0] * WINDOW, length)
        if self._last is not None:
            start, end = self._last
            self.final.append((start, min(end + self._pad, length)))
            self._last = None
        self._at = length

    def _close(self, start: int, end: int) -> None:
        if end - start > self._min_speech:
            if self.open_start is None:
                self._open(start)
            assert self.open_start is not None
            self._last = (self.open_start, end)
        self.open_start = None

    def _open(self, start: int) -> None:
        """Accept a region: pad its start, and settle the previous one."""
        pad = self._pad
        if self._last is not None:
            last_start, last_end = self._last
            pause = start - last_end
            pad = pad if pause >= 2 * pad else pause // 2
            self.final.append((last_start, last_end + pad))
            self._last = None
        self.open_start = max(start - pad, 0)

    def _settle_after_pause(self) -> None:
        """After a pause of two pads, the end of the last region no longer depends on the next."""
        if self._last is not None and self._at - self._last[1] >= 2 * self._pad:
            start, end = self._last
            self.final.append((start, end + self._pad))
            self._last = None
