"""Makes long recordings from sentences, pauses and other sounds, with the time of every word.

A recording is laid out first (`plan`) and rendered piece by piece (`Recording.blocks`), so that two
hours need no two hours of memory. The same seed gives the same samples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.helpers.corpus_speech import RATE, Floats, read
from tests.helpers.cut_sentences import FRAME, Sentence

FLOOR_DB = -72.0  # dBFS, of the noise in recordings called clean


@dataclass(frozen=True, slots=True)
class Made:
    """Parameters of a recording. Levels of active speech in dBFS; SNR in dB against their mean."""

    name: str
    minutes: float = 12.0
    levels: tuple[float, float] = (-26.0, -26.0)
    snr: float | None = None
    pauses: tuple[float, float] = (0.3, 6.0)
    sounds: float = 0.0  # share of the pauses that hold another sound
    shortest: float = 0.4  # s of speech
    longest: float = 10.0
    count: int | None = None  # so many sentences, instead of minutes
    seed: int = 0
    room: bool = True  # False: pauses are digital silence
    bed: str | None = None  # music that plays under everything
    bed_snr: float = 15.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A sentence or another sound from frame `start` on (10 ms), scaled by `gain`."""

    start: int
    samples: Floats
    gain: float
    sentence: Sentence | None = None

    @property
    def end(self) -> int:
        return self.start + -(-len(self.samples) // FRAME)


@dataclass(slots=True)
class Recording:
    """Frames of 10 ms. Sentences and sounds never overlap."""

    made: Made
    placed: list[Placed] = field(default_factory=list)
    frames: int = 0
    bed: Floats | None = None  # scaled, repeated without end

    @property
    def noise_db(self) -> float:
        """dBFS of the noise throughout the recording."""
        made, speech = self.made, float(np.mean(self.made.levels))
        floor = FLOOR_DB if made.snr is None else speech - made.snr
        return max(floor, speech - made.bed_snr) if made.bed else floor

    @property
    def sentences(self) -> list[Placed]:
        return [p for p in self.placed if p.sentence is not None]

    @property
    def sounds(self) -> list[Placed]:
        return [p for p in self.placed if p.sentence is None]

    def blocks(self) -> Iterator[Floats]:
        """Mono blocks of one second, float32 [n], clipped at full scale."""
        made = self.made
        floor = FLOOR_DB if made.snr is None else float(np.mean(made.levels)) - made.snr
        rng = np.random.default_rng(made.seed + 7)
        waiting = list(reversed(self.placed))
        open_: list[Placed] = []
        for at in range(0, self.frames, 100):
            end = min(at + 100, self.frames)
            block = rng.standard_normal((end - at) * FRAME).astype(np.float32)
            block *= np.float32(10 ** (floor / 20)) if made.room or made.snr is not None else 0
            if self.bed is not None:
                block += np.resize(np.roll(self.bed, -at * FRAME), len(block))
            while waiting and waiting[-1].start < end:
                open_.append(waiting.pop())
            for each in open_:
                low, high = max(each.start, at), min(each.end, end)
                part = each.samples[(low - each.start) * FRAME : (high - each.start) * FRAME]
                block[(low - at) * FRAME :][: len(part)] += np.float32(each.gain) * part
            open_ = [each for each in open_ if each.end > end]
            yield np.clip(block, -1, 1)


def plan(made: Made, sentences: Sequence[Sentence], sounds: dict[str, Floats]) -> Recording:
    """Sentences in random order, each with a level of its own, until the length is reached."""
    rng = np.random.default_rng(made.seed)
    found, at, every = Recording(made), 50, list(sounds.values())
    if made.bed:
        bed = sounds[made.bed]
        power = float(np.mean(bed.astype(np.float64) ** 2))
        found.bed = bed * np.float32(10 ** (found.noise_db / 20) / np.sqrt(power))
    usable = [s for s in sentences if made.shortest <= s.spoken_seconds <= made.longest]
    order: list[int] = []
    said = 0
    while (said < made.count) if made.count is not None else (at < made.minutes * 6000):
        if not order:
            order = list(rng.permutation(len(usable)))
        sentence = usable[order.pop()]
        gain = 10 ** (rng.uniform(*made.levels) / 20) / np.sqrt(sentence.power)
        found.placed.append(Placed(at, sentence.samples, float(gain), sentence))
        said += 1
        # Speech has 150 ms of its own pause on either side.
        at = found.placed[-1].end + max(round(100 * (rng.uniform(*made.pauses) - 0.3)), 0)
        if rng.random() < made.sounds:
            sound = _piece(every[rng.integers(len(every))], rng)
            level = rng.uniform(*made.levels) + rng.uniform(-10, 3)
            scale = 10 ** (level / 20) / np.sqrt(np.mean(sound.astype(np.float64) ** 2) + 1e-12)
            start = at + round(100 * rng.uniform(0.0, 1.0))
            found.placed.append(Placed(start, sound, float(scale)))
            at = found.placed[-1].end + round(100 * rng.uniform(0.0, 1.0))
    found.frames = at + 50
    return found


def sounds_alone(sounds: dict[str, Floats]) -> Recording:
    """Each sound for 30 s at -26 dBFS and again at -46, and no speech at all."""
    found, at = Recording(Made("sounds alone")), 200
    for level in (-26, -46):
        for sound in sounds.values():
            piece = np.resize(sound, 30 * RATE)
            power = float(np.mean(piece.astype(np.float64) ** 2))
            found.placed.append(Placed(at, piece, 10 ** (level / 20) / np.sqrt(power)))
            at = found.placed[-1].end + 200
    found.frames = at
    return found


def after(prelude: Recording, recording: Recording) -> Recording:
    """The prelude, and then the recording, with the recording's noise throughout."""
    moved = [replace(p, start=p.start + prelude.frames) for p in recording.placed]
    return replace(
        recording, placed=prelude.placed + moved, frames=prelude.frames + recording.frames
    )


def _piece(sound: Floats, rng: np.random.Generator) -> Floats:
    """2 to 15 s of a sound, faded in and out within 20 ms, in whole frames."""
    length = min(round(rng.uniform(2, 15) * 100) * FRAME, len(sound) // FRAME * FRAME)
    start = int(rng.integers(len(sound) - length + 1))
    piece = sound[start : start + length].copy()
    fade = np.linspace(0, 1, 2 * FRAME, dtype=np.float32)
    piece[: len(fade)] *= fade
    piece[-len(fade) :] *= fade[::-1]
    return piece


def other_sounds(corpus: Path) -> dict[str, Floats]:
    """Sounds without speech: the corpus's, and made ones; 16 kHz, mono."""
    found = {path.stem: read(path) for path in sorted((corpus / "noise").iterdir())
             if path.stem.startswith(("moh", "sb_noise", "esc10", "dtmf", "three"))}  # fmt: skip
    return {**found, **{name: make() for name, make in MADE.items()}}


def _coloured(slope: float) -> Callable[[], Floats]:
    def make() -> Floats:
        count = 20 * RATE
        spectrum = np.fft.rfft(np.random.default_rng(3).standard_normal(count))
        spectrum[1:] /= np.arange(1, len(spectrum)) ** (slope / 2)
        spectrum[0] = 0
        return _scaled(np.fft.irfft(spectrum, count))

    return make


def _tones(*hertz: float) -> Callable[[], Floats]:
    at = np.arange(20 * RATE) / RATE
    return lambda: _scaled(np.sum([np.sin(2 * np.pi * h * at) / (n + 1)
                                   for n, h in enumerate(hertz)], axis=0))  # fmt: skip


def _clicks() -> Floats:
    out = np.zeros(20 * RATE)
    rng = np.random.default_rng(4)
    for start in rng.integers(0, len(out) - 400, 60):
        out[start : start + 400] += rng.standard_normal(400) * np.exp(-np.arange(400) / 60)
    return _scaled(out)


def _melody() -> Floats:
    """Plucked notes of half a second: music with sharp onsets and no voice."""
    rng = np.random.default_rng(5)
    at = np.arange(RATE // 2) / RATE
    notes = []
    for step in rng.integers(0, 25, 40):
        hertz = 110 * 2 ** (step / 12)
        notes.append(sum(np.sin(2 * np.pi * hertz * k * at) / k for k in range(1, 7))
                     * np.exp(-4 * at))  # fmt: skip
    return _scaled(np.concatenate(notes))


def _scaled(samples: NDArray[np.float64]) -> Floats:
    return np.asarray(0.1 * samples / np.sqrt(np.mean(samples**2)), np.float32)


MADE: dict[str, Callable[[], Floats]] = {
    "white": _coloured(0), "pink": _coloured(1), "brown": _coloured(2),
    "hum": _tones(50, 100, 150, 200), "tone": _tones(1000), "clicks": _clicks, "melody": _melody,
}  # fmt: skip
