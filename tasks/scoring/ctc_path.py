"""The likeliest path of a text through the emissions of a CTC model, over hours.

States are those of CTC (Graves et al. 2006, "Connectionist Temporal Classification"): a blank
before, between and after the tokens, which may be skipped between two that differ. The blank
between two sentences is a *star* (after Pratap et al. 2023, "Scaling Speech Technology to 1,000+
Languages"): it also accepts any other sound, at `STAR` a frame, and so absorbs audio that is not in
the text. A step from one star to a later one takes no frame and costs `SKIP` a sentence: it skips
text that is not in the audio.

Only states within `BEAM` of the best are followed, a window that moves along the text, so time
grows linearly with the audio. So does memory, with a small factor: scores are kept every `BLOCK`
frames, and the choices within a block are recomputed from them on the way back (Grice et al. 1997,
"Reduced space sequence alignment").
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Bools, Float32s, Int64s, UInt8s

STAR = 1.0  # nats a frame below the likeliest token, between sentences
SKIP = 1.0  # nats a sentence
BEAM = 150.0  # nats
STRIDE = 32  # frames between two moves of the window
BLOCK = 32 * STRIDE


class Costs(NamedTuple):
    """In nats: a frame of another sound, below the likeliest token; a skipped part."""

    star: float
    skip: float


USUAL = Costs(STAR, SKIP)


@dataclass(frozen=True, slots=True)
class Path:
    """Frames [start, end) of each token, both -1 if its sentence is skipped."""

    starts: Int64s
    ends: Int64s


def align(
    emissions: NDArray[np.floating],
    tokens: Int64s,
    sentences: Int64s,
    blank: int,
    costs: Costs = USUAL,
) -> Path:
    """The path of `tokens` [L] through log-probabilities [T, V]. `sentences`: index of each
    sentence's first token, ascending from 0; none is empty. They may be other parts of a text, with
    other `costs`."""
    lattice = _Lattice(tokens, np.append(sentences, len(tokens)), blank, costs)
    path = Path(np.full(len(tokens), -1), np.full(len(tokens), -1))
    if not len(tokens) or not len(emissions):
        return path
    kept = []
    for begin in range(0, len(emissions), BLOCK):
        kept.append(lattice.snapshot())
        for frame in emissions[begin : begin + BLOCK]:
            lattice.step(frame)
    blank_state, index = lattice.last()
    for number in reversed(range(len(kept))):
        begin = number * BLOCK
        lattice.restore(kept.pop())
        choices = [lattice.step(frame, True) for frame in emissions[begin : begin + BLOCK]]
        for frame in reversed(range(begin, begin + len(choices))):
            choice = choices[frame - begin]
            assert choice is not None
            if not blank_state:
                path.starts[index] = frame
                path.ends[index] = max(path.ends[index], frame + 1)
            blank_state, index = choice.before(blank_state, index)
    return path


@dataclass(frozen=True, slots=True)
class _Choice:
    """Where the states of a window came from in one frame. `token`: 0 itself, 1 the blank before
    it, 2 the token before it; `blank`: from the token before it; `stars`: indices of the window's
    stars; `origin`: for each, the position among them of the star it came from after the frame."""

    low: int
    token: UInt8s
    blank: Bools
    stars: Int64s
    origin: Int64s

    def before(self, is_blank: bool, index: int) -> tuple[bool, int]:
        """The previous frame's state for the state (whether it is a blank, its index) after this
        one."""
        if not is_blank:
            came = int(self.token[index - self.low])
            return (True, index) if came == 1 else (False, index - came // 2)
        place = int(np.searchsorted(self.stars, index))
        if place < len(self.stars) and self.stars[place] == index:
            index = int(self.stars[self.origin[place]])
        return (False, index - 1) if self.blank[index - self.low] else (True, index)


class _Lattice:
    """Scores of all states after a frame; -inf outside of the window.

    Blank i precedes token i, so L tokens have L + 1 blanks; the window has tokens [low, high), and
    blanks [low, high].
    """

    def __init__(self, tokens: Int64s, sentences: Int64s, blank: int, costs: Costs) -> None:
        self._ids, self._stars, self._blank, self._costs = tokens, sentences, blank, costs
        equal = np.concatenate(([True], tokens[1:] == tokens[:-1]))
        self._twice = np.where(equal, -np.inf, 0.0).astype(np.float32)  # never over the blank
        self._tokens = np.full(len(tokens), -np.inf, np.float32)
        self._blanks = np.full(len(tokens) + 1, -np.inf, np.float32)
        self._blanks[0] = 0.0
        self._low, self._high, self._frame = 0, min(1, len(tokens)), 0
        self._prepare(self._low, self._high)

    def snapshot(self) -> tuple[int, int, int, Float32s, Float32s]:
        low, high = self._low, self._high
        scores = self._blanks[low : high + 1].copy(), self._tokens[low:high].copy()
        return low, high, self._frame, *scores

    def restore(self, kept: tuple[int, int, int, Float32s, Float32s]) -> None:
        self._blanks[:], self._tokens[:] = -np.inf, -np.inf
        self._low, self._high, self._frame, blanks, tokens = kept
        self._blanks[self._low : self._high + 1] = blanks
        self._tokens[self._low : self._high] = tokens

    def step(self, frame: NDArray[np.floating], choosing: bool = False) -> _Choice | None:
        """Process a frame of log-probabilities [V]; with `choosing`, return where states came
        from."""
        if self._frame % STRIDE == 0:
            self._move()
        self._frame += 1
        heard = frame.astype(np.float32)
        low, high = self._low, self._high
        token, blank = self._tokens[low:high], self._blanks[low : high + 1]
        passed = token[:-1] + self._apart  # from the previous token, skipping the blank
        after = np.maximum(token, blank[:-1])
        came = None
        if choosing:
            came = (blank[:-1] > token).astype(np.uint8)
            came[1:][passed > after[1:]] = 2
        np.maximum(after[1:], passed, out=after[1:])
        after += heard[self._heard]
        moved = token > blank[1:] if choosing else None
        np.maximum(blank[1:], token, out=blank[1:])
        blank += heard[self._blank]
        star = float(heard.max()) - self._costs.star - float(heard[self._blank])
        rest = blank[self._places] + (max(star, 0.0) + self._cost)
        best = np.maximum.accumulate(rest)
        blank[self._places] = best - self._cost
        token[:] = after
        if came is None or moved is None:
            return None
        origin = np.maximum.accumulate(np.where(rest == best, np.arange(len(rest)), 0))
        return _Choice(low, came, np.concatenate(([False], moved)), self._places + low, origin)

    def _move(self) -> None:
        """Move the window for the next frames: states within `BEAM` of the best, and those they can
        reach. The best score becomes 0, which keeps float32 exact enough over hours."""
        low, high = self._low, self._high
        token, blank = self._tokens[low:high], self._blanks[low : high + 1]
        best = max(token.max(initial=-np.inf), blank.max())
        token -= best
        blank -= best
        live = np.flatnonzero((blank > -BEAM) | np.append(token > -BEAM, False))
        self._low = low + int(live[0])
        self._tokens[low : self._low] = -np.inf
        self._blanks[low : self._low] = -np.inf
        first, last = np.searchsorted(self._stars, (self._low, high + 1))
        reach = low + int(live[-1])
        scores = self._blanks[self._stars[first:last]]
        if len(scores) and scores.max() > -BEAM:
            far = np.arange(first, last) + (scores + BEAM) / self._costs.skip
            star = min(int(far.max()), len(self._stars) - 1)
            reach = max(reach, int(self._stars[star]))
        self._high = max(high, min(reach + STRIDE + 1, len(self._ids)))
        self._low = min(self._low, self._high - 1)
        self._prepare(self._low, self._high)

    def _prepare(self, low: int, high: int) -> None:
        """Precompute what a step needs of a window."""
        self._heard = self._ids[low:high]
        self._apart = self._twice[low + 1 : high]
        first, last = np.searchsorted(self._stars, (low, high + 1))
        self._places = self._stars[first:last] - low
        self._cost = np.float32(self._costs.skip) * np.arange(last - first, dtype=np.float32)

    def last(self) -> tuple[bool, int]:
        """The best state to end in: a star, or the last token of a sentence."""
        ends = self._stars[1:] - 1
        tokens = self._tokens[ends]
        stars = self._blanks[self._stars]
        if tokens.max() > stars.max():
            return False, int(ends[tokens.argmax()])
        return True, int(self._stars[stars.argmax()])


def confidence(emissions: NDArray[np.floating], tokens: Int64s, path: Path) -> Iterator[float]:
    """The highest probability of each token within its frames; 0 for skipped ones."""
    for token, start, end in zip(tokens, path.starts, path.ends, strict=True):
        yield float(np.exp(emissions[start:end, token].max())) if start >= 0 else 0.0
