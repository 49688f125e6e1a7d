"""Speech regions of a stream, by Silero's probabilities and by level, and their settings.

In: probability, level and samples of each 32 ms window. Out: regions as (start, end) in windows.

1. Hysteresis between `threshold` and `neg_threshold`, with pauses of `min_silence_ms`.
2. A second opinion on doubtful sounds in the pauses. Silero carries its state along; after minutes
   of silence, noise or music it may doubt a word that it detects when run on it alone. Only sounds
   well above the level around them are run again, from an empty state. A sound that is still
   doubtful is speech if it is as loud as the speech that ended shortly before: whispering, and
   telephone lines with clicks, leave Silero in doubt in the middle of a sentence.
3. Both edges of a region move outwards as far as the level shows speech (`edge_shift`).
4. A region shorter than `min_speech_ms` after that is dropped.

Memory: levels and samples at 16 kHz of about the last 20 s.
"""

from typing import Self

import numpy as np
from pydantic import Field, model_validator

from ..base.arrays import RATE, Float32s, Float64s
from ..settings import StageSettings
from ..speech import silero as _silero
from ..speech.silero import WINDOW, Hysteresis


class SpeechSettings(StageSettings):
    """Where speech begins and ends, and how long utterances are."""

    min_seconds: float = Field(0.3, ge=0, description="Shortest utterance, s.")
    target_seconds: float = Field(
        10.0,
        ge=0.5,
        le=3600,
        description="Neighbouring speech is joined up to about this length, s, and split at the "
        "longest pause. Speech without a pause may be longer, up to max_seconds.",
    )
    max_seconds: float = Field(30.0, ge=1, le=3600, description="Longest utterance, s.")
    max_gap_seconds: float = Field(
        1.0, ge=0.1, le=60, description="Longest pause inside an utterance, s."
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="Speech begins at this probability.")
    neg_threshold: float = Field(
        0.35, gt=0, lt=1, description="Speech ends below this probability."
    )
    min_silence_ms: int = Field(
        100, ge=0, le=5000, description="Shortest pause that ends speech, ms."
    )
    min_speech_ms: int = Field(200, ge=0, le=5000, description="Shorter bursts are not speech, ms.")
    speech_pad_ms: int = Field(
        100, ge=0, le=1000, description="Audio kept on each side of an utterance, ms."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.neg_threshold > self.threshold:
            raise ValueError("neg_threshold must not be above threshold")
        if 2 * self.min_seconds + self.speech_pad_ms / 250 > self.max_seconds:
            raise ValueError("max_seconds must be more than twice min_seconds, else nothing fits")
        return self

    def hysteresis(self, threshold: float | None = None) -> Hysteresis:
        """A new detector of speech regions with these thresholds, or with `threshold` and half of
        it to end speech."""
        pause_windows = -(-self.min_silence_ms * RATE // (1000 * WINDOW))
        if threshold is None:
            return Hysteresis(self.threshold, self.neg_threshold, pause_windows)
        return Hysteresis(threshold, threshold / 2, pause_windows)


# The voice detector needs evidence before it is sure, so its start is often the second syllable
# or even the second word. Speech, however, stands out in level above the noise of the pause,
# which is measured anew beside each edge.

SECOND = RATE / WINDOW  # windows
MAX_SHIFT = round(1.44 * SECOND)  # windows that an edge may move
BEYOND = round(2 * SECOND)  # further windows that serve to measure the pause's noise
CONTEXT = MAX_SHIFT + BEYOND
MIN_PAUSE = round(0.256 * SECOND)  # windows below the threshold that stop an edge; over a plosive
ABOVE_NOISE_DB = 4.0  # steady noise strays less than this from its mean over 32 ms
BELOW_SPEECH_DB = 35.0  # sound further below the speech is not part of it
# Quantiles of the pause's levels taken as its noise. The first is used unless the edge would then
# run on without end, so that the noise itself must vary more; then the next one is tried.
NOISE_QUANTILES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
SHORT = round(SECOND)  # windows of a pause that may consist of speech alone
SHORT_BELOW_SPEECH_DB = 10.0  # in so short a pause, sound within this of the speech is speech
LOWEST_DB = -100.0  # level of digital silence


def levels(windows: Float32s) -> Float64s:
    """Level of each window in dBFS, from float32 [n, samples]."""
    power = np.mean(windows.astype(np.float64) ** 2, axis=1)
    return np.asarray(10 * np.log10(np.maximum(power, 10 ** (LOWEST_DB / 10))))


def speech_level(region: Float64s) -> float:
    """Level of a region's louder windows, dBFS."""
    return float(np.percentile(region, 75))


def edge_shift(pause: Float64s, speech: float) -> int:
    """Number of windows by which an edge moves into the adjacent pause.

    `pause`: levels from the edge outwards, at most the first `CONTEXT` windows. `speech`: level of
    the speech at the edge. All in dBFS.
    """
    if not len(pause):
        return 0
    near = pause[:MAX_SHIFT]
    for noise in np.quantile(pause, NOISE_QUANTILES):
        loud = np.flatnonzero(near >= _threshold(pause, noise, speech))
        steps = np.diff(loud, prepend=-1)
        stops = np.flatnonzero(steps > MIN_PAUSE)
        if len(stops):
            loud = loud[: stops[0]]
        shift = int(loud[-1]) + 1 if len(loud) else 0
        if len(pause) <= MAX_SHIFT or len(near) - shift >= MIN_PAUSE:
            return shift
    return 0


def quietest_stretch(pause: Float64s, speech: float) -> tuple[int, int]:
    """The longest stretch of a pause that is quiet, as (start, end) in windows; of equal ones the
    last. Its end twice if nothing in it is quiet.

    Both edges of a pause may move all the way through it, over quiet too short to stop them; they
    then stop here. Neither may take the sound at the other end, which is part of another word.
    """
    threshold = _threshold(pause, np.quantile(pause, NOISE_QUANTILES[0]), speech)
    turns = np.flatnonzero(np.diff(np.r_[0, pause < threshold, 0]))
    if not len(turns):
        return len(pause), len(pause)
    starts, ends = turns[::2], turns[1::2]
    longest = len(starts) - 1 - int(np.argmax((ends - starts)[::-1]))
    return int(starts[longest]), int(ends[longest])


def _threshold(pause: Float64s, noise: float, speech: float) -> float:
    """From this level on, sound in a pause is part of the speech beside it."""
    threshold = max(noise + ABOVE_NOISE_DB, speech - BELOW_SPEECH_DB)
    return min(threshold, speech - SHORT_BELOW_SPEECH_DB) if len(pause) <= SHORT else threshold


LEVEL_WINDOWS = round(SECOND)  # windows next to an edge that give the level of its speech

# Second opinion, all but the first three in windows.
DOUBT = 0.3  # least probability of a doubtful window in a pause
BACKGROUND_QUANTILE = 0.2  # of the levels around a sound: the level without it
RISE_DB = 12.0  # by which a doubtful sound must exceed the background
LEAD_IN = round(0.5 * SECOND)  # run again before the sound
TAIL = round(0.4 * SECOND)  # and after it
SURROUNDINGS = round(2 * SECOND)  # before the sound, for the background level
ONSET = 8  # doubt this close before speech is how speech always begins: no second opinion
LONGEST = round(10 * SECOND)  # a longer doubtful sound is judged in pieces
MIN_FOUND = 6  # least speech that a second opinion must find

# A doubtful sound goes on from the speech before it, by its distance and its level.
SOON = round(2 * SECOND)  # most windows after the speech
BELOW_DB = 12.0  # most below the level of the speech

KEPT = LONGEST + CONTEXT + SURROUNDINGS + TAIL + LEAD_IN  # windows of history


class SpeechDetector:
    """Regions are in order and do not overlap, but may touch.

    `final` collects final regions; the caller empties it. `open_start` is the start of the region
    under way once it is final, and `open_until` a window that this region surely reaches.
    """

    def __init__(self, settings: SpeechSettings) -> None:
        self._settings = settings
        self._hysteresis = settings.hysteresis()
        self._min_speech = max(-(-settings.min_speech_ms * RATE // (1000 * WINDOW)), 1)
        self._min_known = max(LEVEL_WINDOWS, self._min_speech)  # before a start is moved
        self.final: list[tuple[int, int]] = []
        self.open_start: int | None = None
        self._at = 0  # windows seen
        self._first = 0  # first window of the history
        self._levels: list[float] = []
        self._windows: list[Float32s] = []
        self._probabilities: list[float] = []
        self._pause_start = 0  # end of the last region before its edge is moved
        self._doubtful: tuple[int, int] | None = None  # the sound that needs a second opinion
        self._last: tuple[int, int] | None = None  # last region: start final, end not yet moved
        self._final_until = 0  # no region begins before this window, but for those in `final`

    @property
    def open_until(self) -> int:
        return self._hysteresis.until

    @property
    def earliest_pending(self) -> int:
        """No region that is not yet in `final` starts before this window."""
        if self._last is not None:
            return self._last[0]
        if self.open_start is not None:
            return self.open_start
        if self._hysteresis.start is not None:
            start = self._hysteresis.start
        else:
            start = (self._at if self._doubtful is None else self._doubtful[0]) - LEAD_IN
        return max(start - MAX_SHIFT, self._pause_start, self._final_until)

    def push(self, probability: float, level: float, samples: Float32s) -> None:
        """The next window: its speech probability, its level in dBFS, its samples at 16 kHz."""
        self._levels.append(level)
        self._probabilities.append(probability)
        self._windows.append(samples)
        was_open = self._hysteresis.start is not None
        region = self._hysteresis.push(probability)
        start = self._hysteresis.start
        self._at += 1
        if start is not None and not was_open:
            if self._doubtful is not None and self._doubtful[0] >= start - ONSET:
                self._doubtful = None
            self._second_opinion(start)
            self._finalise(start, followed=True)
        if region is not None:
            self._close(*region)
        elif start is None:
            self._push_pause(probability)
        elif self.open_start is None and self.open_until - start >= self._min_known:
            self.open_start = self._moved_start(start, start + LEVEL_WINDOWS)
        if len(self._levels) >= 2 * KEPT:
            del self._levels[:-KEPT], self._windows[:-KEPT], self._probabilities[:-KEPT]
            self._first = self._at - KEPT

    def finish(self) -> None:
        for region in self._hysteresis.finish():
            self._close(*region)
        self._second_opinion(self._at)
        self._finalise(self._at)

    def _push_pause(self, probability: float) -> None:
        """Handle a window outside speech: collect doubtful sounds, settle the last region."""
        if probability >= DOUBT:
            start = self._at - 1 if self._doubtful is None else self._doubtful[0]
            self._doubtful = (start, self._at)
        if self._doubtful is not None:
            start, end = self._doubtful
            if self._at - end >= TAIL or end - start >= LONGEST:
                self._second_opinion(self._at)
        needed_until = self._pause_start + CONTEXT
        waits = self._doubtful is not None and self._doubtful[0] < needed_until
        if not waits and self._at >= needed_until:
            self._finalise(self._at)

    def _second_opinion(self, until: int) -> None:
        """Run the model afresh on the doubtful sound, up to the window `until`."""
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is None:
            return
        start, end = doubtful
        around = self._levels_between(max(start - SURROUNDINGS, self._pause_start), until)
        loudest = max(self._levels_between(start, end))
        if loudest < np.quantile(around, BACKGROUND_QUANTILE) + RISE_DB:
            return
        first = max(start - LEAD_IN, self._first)
        samples = np.stack(self._windows[first - self._first : until - self._first])
        fresh = _silero.fresh_probabilities(samples)
        regions = self._found(fresh, self._settings.hysteresis(), first, until)
        if not regions and self._goes_on(start, end):
            carried = np.array(self._probabilities[start - self._first : until - self._first])
            regions = self._found(carried, self._settings.hysteresis(DOUBT), start, until)
        for begin, stop in regions:
            self._finalise(begin, followed=True)
            self._close(begin, stop)

    def _found(
        self, probabilities: Float32s, hysteresis: Hysteresis, first: int, until: int
    ) -> list[tuple[int, int]]:
        """Regions in a pause by the probabilities of the windows from `first` to `until`."""
        regions = [
            (max(begin + first, self._pause_start), min(stop + first, until))
            for begin, stop in (*hysteresis.regions(probabilities), *hysteresis.finish())
        ]
        return [(begin, stop) for begin, stop in regions if stop - begin >= MIN_FOUND]

    def _goes_on(self, start: int, end: int) -> bool:
        """Whether a sound is as loud as the speech that ended shortly before it."""
        if self._last is None or start - self._last[1] > SOON:
            return False
        first, last = self._last
        before = self._levels_between(max(first, last - LEVEL_WINDOWS), last)
        sound = self._levels_between(start, end)
        return speech_level(sound) >= speech_level(before) - BELOW_DB

    def _close(self, start: int, end: int) -> None:
        """A region ended at `end`, before that edge is moved."""
        first = self.open_start if self.open_start is not None else self._moved_start(start, end)
        self.open_start, self._last, self._pause_start = None, (first, end), end

    def _moved_start(self, start: int, known_until: int) -> int:
        """The start moved outwards; speech up to `known_until` gives its level."""
        region = self._levels_between(start, min(known_until, start + LEVEL_WINDOWS))
        pause = self._levels_between(max(self._pause_start, start - CONTEXT), start)
        shift = edge_shift(pause[::-1], speech_level(region))
        return max(start - shift, self._final_until)

    def _finalise(self, until: int, followed: bool = False) -> None:
        """Move the end of the last region and settle it; its pause is known up to the window
        `until`, where speech follows if `followed`."""
        if self._last is None:
            return
        (start, end), self._last = self._last, None
        region = self._levels_between(max(start, end - LEVEL_WINDOWS), end)
        pause = self._levels_between(end, min(until, end + CONTEXT))
        speech = speech_level(region)
        stop = next_start = end + edge_shift(pause, speech)
        if followed and end < stop == until:
            quiet, sound = quietest_stretch(pause, speech)
            stop, next_start = end + quiet, end + sound
        if stop - start >= self._min_speech:
            self.final.append((start, stop))
            self._final_until = next_start

    def _levels_between(self, start: int, end: int) -> Float64s:
        return np.array(self._levels[max(start - self._first, 0) : end - self._first])
