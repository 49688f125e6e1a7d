"""Windows whose local speakers are known to the turns of the recording, in one pass over frames.

Windows are overlap-added with Hamming weights: for each frame (16.875 ms) how many speak, as the
rounded mean of the windows' counts, at most two, and who, as those with the largest weighted votes.
So is the probability of two voices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from tasks.base.arrays import RATE, Float64s, UInt8s
from tasks.diarizers._windows import FIRST_S, FRAMES, LOCAL, STEP_S, Window

AT_ONCE = 2  # most speakers of a frame
LONGEST_GAP_S = 0.15  # in a turn
SHORTEST_S = 0.1  # of a turn
WEIGHTS = np.hamming(FRAMES)


@dataclass(slots=True)
class Stretch:
    """Frames `first` to `last` (exclusive) of the recording in which a speaker speaks; `both`: the
    probability of two voices in each, of 255."""

    speaker: int
    first: int
    last: int
    both: bytearray = field(default_factory=bytearray)

    @property
    def start(self) -> float:
        """Seconds; half a frame before the first one's centre."""
        return max(FIRST_S + (self.first - 0.5) * STEP_S, 0.0) if self.first else 0.0

    @property
    def end(self) -> float:
        return FIRST_S + (self.last - 0.5) * STEP_S


def stretches(
    windows: Iterable[Window], owners: Mapping[int, Mapping[int, int]], speakers: int, hop: int
) -> list[Stretch]:
    """Where each speaker speaks, in order of time. `owners`: of each window, the speaker of each
    local speaker; `hop`: samples from window to window."""
    open_runs: dict[int, Stretch] = {}
    runs: list[Stretch] = []
    gap = round(LONGEST_GAP_S / STEP_S)
    for step, (who, both) in enumerate(_speaking(windows, owners, speakers, hop)):
        for speaker in who:
            run = open_runs.get(speaker)
            if run is None or step - run.last >= gap:
                if run is not None:
                    runs.append(run)
                run = open_runs[speaker] = Stretch(speaker, step, step)
            run.both += bytes(step - run.last)
            run.both.append(both)
            run.last = step + 1
    runs += open_runs.values()
    runs = [one for one in runs if (one.last - one.first) * STEP_S >= SHORTEST_S]
    return sorted(runs, key=lambda one: (one.first, one.last, one.speaker))


def _speaking(
    windows: Iterable[Window], owners: Mapping[int, Mapping[int, int]], speakers: int, hop: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The speakers of each frame of the recording, and the probability of two voices, of 255."""
    votes = np.zeros((0, speakers))
    counts, both, weights = np.zeros(0), np.zeros(0), np.zeros(0)
    base = 0  # the frame of the recording that the arrays start with
    for window in windows:
        first = frame_of_window(window.number, hop)
        if first > base and len(weights):
            final = first - base
            yield from _chosen(votes[:final], counts[:final], both[:final], weights[:final])
            votes, counts = votes[final:], counts[final:]
            both, weights = both[final:], weights[final:]
        base = first
        lacking = FRAMES - len(weights)
        votes = np.pad(votes, ((0, lacking), (0, 0)))
        counts, both = np.pad(counts, (0, lacking)), np.pad(both, (0, lacking))
        weights = np.pad(weights, (0, lacking))
        activity = window.activity
        of = owners.get(window.number, {})
        heard = np.zeros((FRAMES, speakers), np.bool_)
        for local in range(LOCAL):
            if local in of:
                heard[:, of[local]] |= activity[:, local]
        votes += heard * WEIGHTS[:, None]
        counts += heard.sum(axis=1) * WEIGHTS
        if window.both:
            likely: UInt8s = np.frombuffer(window.both, np.uint8).repeat(2)[:FRAMES]
            both += likely * WEIGHTS
        weights += WEIGHTS
    yield from _chosen(votes, counts, both, weights)


def frame_of_window(number: int, hop: int) -> int:
    """The frame of the recording at which a window begins."""
    return round(number * hop / RATE / STEP_S)


def _chosen(
    votes: Float64s, counts: Float64s, both: Float64s, weights: Float64s
) -> Iterator[tuple[tuple[int, ...], int]]:
    weights = np.maximum(weights, 1e-9)
    many = np.minimum(np.floor(counts / weights + 0.5), AT_ONCE).astype(int)
    likely = np.rint(both / weights).astype(int).tolist()
    order = np.argsort(-votes, axis=1, kind="stable")[:, :AT_ONCE]
    for number, row, ranked, two in zip(many.tolist(), votes, order.tolist(), likely, strict=True):
        yield tuple(speaker for speaker in ranked[:number] if row[speaker] > 0), two
