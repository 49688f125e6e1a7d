"""Windows of a recording through segmentation 3.0: up to three local speakers in each, and their
voices.

A window is 10 s long and starts `hop_seconds` after the one before it. Its zone is the
`hop_seconds` in its middle (the first zone begins with the recording, the last ends with it), so
that zones cover the recording once. A local speaker's voice is embedded from the frames in the zone
where it speaks alone, or if there are too few, from those in the whole window. Log mel energies are
computed once for all windows of a batch.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..base.arrays import RATE, Bools, Float32s, Float64s, Int64s, UInt8s
from ..models import onnx_session, registry
from ..speech import embedding
from ..speech.embedding import BINS, FBANK, fbank

WINDOW = 160_000  # samples
FRAMES, LOCAL = 589, 3  # of a window: frames, and speakers
MELS = 998  # of a window: frames of log mel energies, 10 ms each
FIRST_S, STEP_S = 0.03097, 0.016875  # centre of the first frame, and from frame to frame
BATCH = 4  # windows; fixed, so that results do not depend on the blocks pushed
SETS = np.array(
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], np.bool_
)
SILENT, BOTH = 0.7, 0.4  # least probabilities of silence, and of two voices
LEAST_S = 0.8  # least speech of one voice alone that is embedded
WEAK_S = 0.25  # least speech of a voice that is embedded, if not `sure`
MOST_S = 3.0  # most speech of a voice that is embedded
PIECE_S = 0.5  # shorter runs are ignored if there are longer ones


@dataclass(frozen=True, slots=True)
class Voice:
    """A local speaker's embedding [192], from `seconds` of speech. Not `sure` if others speak at
    the same time or it is very short: it is then assigned to a speaker, but does not make one.

    Embeddings stay until the recording ends. Two pieces of less than 512 bytes lie in Python's own
    arenas; on the heap they would fragment what the models have freed, which then stays with the
    process (1.2 MB a minute).
    """

    local: int
    halves: tuple[bytes, bytes]
    seconds: float
    sure: bool

    @property
    def vector(self) -> Float32s:
        return np.frombuffer(b"".join(self.halves), np.float32)


@dataclass(frozen=True, slots=True)
class Window:
    """`packed`: Boolean activity [589, 3] as bits; `voices`: those that could be embedded; `both`:
    probability of two voices, uint8 of 255 for every two frames [295]."""

    number: int
    packed: bytes
    voices: tuple[Voice, ...]
    both: bytes = b""

    @property
    def activity(self) -> Bools:
        bits = np.unpackbits(np.frombuffer(self.packed, np.uint8), count=FRAMES * LOCAL)
        return bits.reshape(FRAMES, LOCAL).astype(np.bool_)


class Windows:
    """Samples at 16 kHz in, windows out, each `hop` samples after the one before. Holds the samples
    of one batch."""

    def __init__(self, folder: str | None, hop: int) -> None:
        self._folder, self._hop = folder, hop
        self._beside = round(FRAMES * (WINDOW - hop) / 2 / WINDOW)  # frames on each side of a zone
        asked_by = "segmentation of speakers"
        self._session = onnx_session.known(registry.SEGMENTATION, asked_by, folder, arena=False)
        self._held: list[Float32s] = []
        self._count = 0  # samples held, from the start of window `_next` on
        self._next = 0

    def push(self, samples: Float32s) -> Iterator[Window]:
        self._held.append(samples)
        self._count += len(samples)
        hop, whole = self._hop, (BATCH - 1) * self._hop + WINDOW
        while self._count > whole:  # more: so the last window is never in here
            samples_held = np.concatenate(self._held)
            yield from self._run(samples_held[:whole], last=False)
            self._held, self._count = [samples_held[BATCH * hop :]], self._count - BATCH * hop

    def finish(self) -> Iterator[Window]:
        """The remaining windows; the last one is filled up with zeros."""
        samples = np.concatenate(self._held) if self._held else np.empty(0, np.float32)
        if not len(samples):
            return
        count = 1 + max(-(-(len(samples) - WINDOW) // self._hop), 0)
        yield from self._run(samples, last=True, count=count)

    def _run(self, samples: Float32s, last: bool, count: int = BATCH) -> Iterator[Window]:
        hop = self._hop
        length = (count - 1) * hop + WINDOW
        padded = np.pad(samples, (0, length - len(samples)))
        stack = np.stack([padded[i * hop : i * hop + WINDOW] for i in range(count)])
        scores = self._session.run(None, {"x": stack[:, None]})[0]
        active: Bools = SETS[_likeliest(scores)]  # [count, 589, 3]
        both = np.rint(255 * np.exp(scores[..., 4:]).sum(-1).clip(0, 1)).astype(np.uint8)
        features = fbank(padded) if active.any() else np.empty((0, BINS), np.float32)
        for i in range(count):
            end = len(samples) - i * hop if last and i == count - 1 else WINDOW
            activity = active[i].copy()
            activity[frame_of(end / RATE) :] = False  # no speech in the padding
            heard = features[i * hop // FBANK.hop :][:MELS]
            voices = self._voices(heard, activity, self._next == 0, last and i == count - 1)
            packed = np.packbits(activity).tobytes()
            yield Window(self._next, packed, tuple(voices), both[i, ::2].tobytes())
            self._next += 1

    def _voices(
        self, features: Float32s, activity: Bools, first: bool, last: bool
    ) -> Iterator[Voice]:
        """`features`: log mel energies of the window, [998, 80]."""
        solo = activity & (activity.sum(axis=1, keepdims=True) == 1)
        if not solo.any():
            return
        low, high = (0 if first else self._beside), (FRAMES if last else FRAMES - self._beside)
        for local in range(LOCAL):
            zone = solo[:, local].copy()
            zone[:low] = zone[high:] = False
            choices = ((zone, LEAST_S), (solo[:, local], LEAST_S), (activity[:, local], WEAK_S))
            for where, least in choices:
                if where.sum() * STEP_S >= least:
                    chosen = _feature_frames(where)
                    vector = embedding.embed(features[chosen], self._folder)
                    raw = vector.tobytes()
                    halves = raw[: len(raw) // 2], raw[len(raw) // 2 :]
                    yield Voice(local, halves, len(chosen) * 0.01, least == LEAST_S)
                    break


def _likeliest(logs: Float32s) -> Int64s:
    """Each frame's index into SETS, from log probabilities [..., 7]. Favours speech, and two
    voices, since the model misses them more often than it invents them."""
    likely = np.exp(logs)
    alone = np.where(likely[..., 0] > SILENT, 0, 1 + likely[..., 1:4].argmax(axis=-1))
    both = likely[..., 4:]
    return np.where(both.sum(-1) > BOTH, 4 + both.argmax(axis=-1), alone)


def _feature_frames(where: Bools) -> Int64s:
    """Indices of frames of 10 ms in the runs of a mask [589], the longest runs first, up to
    MOST_S; in order of time."""
    edges = np.flatnonzero(np.diff(np.r_[0, where.astype(np.int8), 0])).reshape(-1, 2)
    lengths = edges[:, 1] - edges[:, 0]
    most = int(MOST_S * 100)
    taken: list[Int64s] = []
    taken_frames = 0
    for number in np.lexsort((edges[:, 0], -lengths)):
        if taken and lengths[number] * STEP_S < PIECE_S and taken_frames >= LEAST_S * 100:
            break
        start, end = (int((FIRST_S + STEP_S * (e - 0.5)) * 100) for e in edges[number])
        run = np.arange(max(start, 0), min(end, MELS))[: most - taken_frames]
        taken.append(run)
        taken_frames += len(run)
        if taken_frames >= most:
            break
    return np.sort(np.concatenate(taken))


def frame_of(seconds: float) -> int:
    """The first frame of a window whose centre is not before a time."""
    return min(max(-int(-(seconds - FIRST_S) // STEP_S), 0), FRAMES)


# From windows with assigned speakers to the turns of the recording, in one pass over frames.
#
# Windows are overlap-added with Hamming weights. That gives for each frame (16.875 ms) how many
# speak: the rounded mean of the windows' counts, at most two; who: those with the largest weighted
# votes; and the mean probability of two voices, from which `doubts` makes that of a second voice.

AT_ONCE = 2  # most speakers of a frame
LONGEST_GAP_S = 0.15  # in a turn
SHORTEST_S = 0.1  # of a turn
WEIGHTS = np.hamming(FRAMES)
AROUND_S = 3.5  # over which the model's usual odds of two voices are taken
USUAL = 0.7  # share of these odds that is the room's, not a second voice's
LEAST_USUAL = -3.0  # log odds: where the model is surer of one voice, less is no sign of a second
SCALE, SHIFT = 1.5, -1.0  # of log odds, to probabilities that are right in simulated meetings


@dataclass(slots=True)
class Stretch:
    """Frames `first` to `last` (exclusive) of the recording in which a speaker speaks."""

    speaker: int
    first: int
    last: int

    @property
    def start(self) -> float:
        """Seconds; half a frame before the first one's centre."""
        return max(FIRST_S + (self.first - 0.5) * STEP_S, 0.0) if self.first else 0.0

    @property
    def end(self) -> float:
        return FIRST_S + (self.last - 0.5) * STEP_S


def stretches(
    windows: Iterable[Window], owners: Mapping[int, Mapping[int, int]], speakers: int, hop: int
) -> tuple[list[Stretch], UInt8s]:
    """Where each speaker speaks, in order of time; and for each frame of the recording, the
    probability of a second voice, of 255. `owners`: for each window, the speaker of each local
    speaker; `hop`: in samples."""
    open_runs: dict[int, Stretch] = {}
    runs: list[Stretch] = []
    likely = bytearray()
    gap = round(LONGEST_GAP_S / STEP_S)
    for step, (who, both) in enumerate(_speaking(windows, owners, speakers, hop)):
        likely.append(both)
        for speaker in who:
            run = open_runs.get(speaker)
            if run is None or step - run.last >= gap:
                if run is not None:
                    runs.append(run)
                run = open_runs[speaker] = Stretch(speaker, step, step)
            run.last = step + 1
    runs += open_runs.values()
    runs = [one for one in runs if (one.last - one.first) * STEP_S >= SHORTEST_S]
    runs.sort(key=lambda one: (one.first, one.last, one.speaker))
    return runs, doubts(np.frombuffer(likely, np.uint8))


def doubts(likely: UInt8s) -> UInt8s:
    """The probability of a second voice in each frame, of 255, from the model's of two voices.

    Far from the microphone the model is seldom sure: what its odds are for seconds on end says
    little, and a voice that begins and ends shows in how they rise and fall.
    """
    from scipy.ndimage import uniform_filter1d

    shares = (likely / 255).clip(1 / 510, 1 - 1 / 510)
    odds = np.log(shares / (1 - shares))
    usual = uniform_filter1d(odds, round(AROUND_S / STEP_S), mode="nearest")
    over = SCALE * (odds - USUAL * usual.clip(LEAST_USUAL)) + SHIFT
    probabilities: UInt8s = np.rint(255 / (1 + np.exp(-over))).astype(np.uint8)
    return probabilities


def _speaking(
    windows: Iterable[Window], owners: Mapping[int, Mapping[int, int]], speakers: int, hop: int
) -> Iterator[tuple[tuple[int, ...], int]]:
    """For each frame of the recording, its speakers and the probability of two voices, of 255."""
    sums = np.zeros((0, speakers + 3))  # votes, number of speakers, probability, weight
    base = 0  # the frame of the recording that they start with
    for window in windows:
        first = frame_of_window(window.number, hop)
        if len(sums):
            yield from _chosen(sums[: first - base])
            sums = sums[first - base :]
        base = first
        sums = np.pad(sums, ((0, FRAMES - len(sums)), (0, 0)))
        activity = window.activity
        heard = np.zeros((FRAMES, speakers), np.bool_)
        for local, speaker in owners.get(window.number, {}).items():
            heard[:, speaker] |= activity[:, local]
        likely = np.zeros(FRAMES)
        if window.both:
            likely = np.frombuffer(window.both, np.uint8).repeat(2)[:FRAMES].astype(float)
        one = np.column_stack([heard, heard.sum(axis=1), likely, np.ones(FRAMES)])
        sums += one * WEIGHTS[:, None]
    yield from _chosen(sums)


def frame_of_window(number: int, hop: int) -> int:
    """The frame of the recording at which a window begins."""
    return round(number * hop / RATE / STEP_S)


def _chosen(sums: Float64s) -> Iterator[tuple[tuple[int, ...], int]]:
    votes, (counts, both, weights) = sums[:, :-3], sums[:, -3:].T
    weights = np.maximum(weights, 1e-9)
    many = np.minimum(np.floor(counts / weights + 0.5), AT_ONCE).astype(int)
    likely = np.rint(both / weights).astype(int).tolist()
    order = np.argsort(-votes, axis=1, kind="stable")[:, :AT_ONCE]
    for number, row, ranked, two in zip(many.tolist(), votes, order.tolist(), likely, strict=True):
        yield tuple(speaker for speaker in ranked[:number] if row[speaker] > 0), two
