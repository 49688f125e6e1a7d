"""Makes calls, and stereo recordings that are not calls, which `channels: auto` has to distinguish.

Two speakers take turns of one or two pieces of speech, with pauses, and with overlap in one turn of
eight. Each kind of recording makes two channels from the two sides. Noise is white, at -65 dBFS
unless the kind's name says otherwise; speech is at about -26 dBFS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from tests.helpers.conversations import Floats, Piece
from uttermill.tasks.base.arrays import RATE

Rng = np.random.Generator
Stereo = NDArray[np.float32]
Sides = tuple[Floats, Floats]
QUIET = 10 ** (-65 / 20)


@dataclass(frozen=True, slots=True)
class Made:
    """A recording, float32 [n, 2] at 16 kHz; `apart`: whether its channels have different
    voices."""

    kind: str
    samples: Stereo
    apart: bool


def sides(turns: Sequence[Sequence[Floats]], rng: Rng, seconds: float, first: float = 0.5) -> Sides:
    """The two sides of a conversation; `first`: share of the turns of the first speaker."""
    size = round(seconds * RATE)
    both = np.zeros((2, size), np.float32)
    used, position = [0, 0], round(rng.uniform(0.1, 1) * RATE)
    speaker = 0
    while position < size:
        for _ in range(int(rng.integers(1, 3))):
            piece = turns[speaker][used[speaker] % len(turns[speaker])]
            used[speaker] += 1
            end = min(position + len(piece), size)
            both[speaker, position:end] += piece[: max(end - position, 0)]
            position = end + round(rng.uniform(0.1, 0.4) * RATE)
        back = 1.5 if rng.random() < 1 / 8 else -rng.uniform(0.1, 0.8)
        position = max(position - round(back * RATE), 0)
        other = rng.random() < (1 - first if speaker == 0 else first) * 2 or first == 0.5
        speaker = 1 - speaker if other else speaker
    return both[0], both[1]


def delayed(samples: Floats, seconds: float, decibels: float) -> Floats:
    """The signal delayed and attenuated."""
    shift = round(seconds * RATE)
    moved = np.concatenate([np.zeros(shift, np.float32), samples[: len(samples) - shift]])
    return (moved * 10 ** (decibels / 20)).astype(np.float32)


def softer(samples: Floats) -> Floats:
    return delayed(samples, 0.0, -18)


def noisy(channels: Sequence[Floats], rng: Rng, level: float = QUIET) -> Stereo:
    grid = np.stack(channels, 1)
    return (grid + rng.normal(0, level, grid.shape)).astype(np.float32)


def crossed(both: Sides, decibels: float, seconds: float) -> Sides:
    """Each side with cross-talk from the other."""
    return (
        both[0] + delayed(both[1], seconds, decibels),
        both[1] + delayed(both[0], seconds, decibels),
    )


def room(both: Sides, rng: Rng, apart: float) -> Sides:
    """Two microphones in a room with a response of 0.3 s; `apart`: time of sound between them,
    s."""
    mics = [np.zeros(len(both[0]), np.float32) for _ in range(2)]
    for number, voice in enumerate(both):
        for mic in range(2):
            shift = apart if mic != number else 0.0
            softer = -rng.uniform(1, 5) if mic != number else 0.0
            mics[mic] += delayed(voice, 0.003 + shift, softer)
            tail = rng.normal(0, 1, round(0.3 * RATE)) * np.exp(-np.arange(round(0.3 * RATE)) / 900)
            tail *= 0.25 / np.sqrt(np.square(tail).sum())
            mics[mic] += fftconvolve(voice, tail)[: len(voice)].astype(np.float32)
    return mics[0], mics[1]


def panned(both: Sides, decibels: float) -> Sides:
    """A panned stereo image: each voice is attenuated in the other channel, without a delay."""
    return crossed(both, -decibels, 0.0)


def band(rng: Rng, size: int, music: Floats) -> Sides:
    """Stereo music: different parts left and right, each also faintly in the other channel."""
    left, right = np.resize(music, size), np.resize(np.roll(music, len(music) // 3), size)
    beat = (np.arange(size) // (RATE // 2)) % 2
    drums = rng.normal(0, 0.05, size) * np.exp(-(np.arange(size) % (RATE // 2)) / 1500)
    return (
        (left + 0.3 * right + drums * beat).astype(np.float32),
        (right + 0.3 * left + drums * (1 - beat)).astype(np.float32),
    )


def telephone(samples: Stereo) -> Stereo:
    """300 to 3,400 Hz, in 8 bits by the mu-law."""
    spectrum = np.fft.rfft(samples, axis=0)
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    spectrum[(hertz < 300) | (hertz > 3400)] = 0
    narrow = np.clip(np.fft.irfft(spectrum, len(samples), axis=0), -1, 1)
    code = np.round(np.sign(narrow) * np.log1p(255 * np.abs(narrow)) / np.log(256) * 127) / 127
    heard: Stereo = (np.sign(code) * (256 ** np.abs(code) - 1) / 255).astype(np.float32)
    return heard


Kind = Callable[[Sides, Rng, Floats], Stereo]


def _held(both: Sides, music: Floats, in_both: bool) -> Sides:
    """The call with music on hold in the middle, half as long as the speech."""
    middle = len(both[0]) // 2
    wait = np.resize(music, middle)
    waits = wait, wait if in_both else 0 * wait
    first, second = (
        np.concatenate([side[:middle], music_in, side[middle:]]).astype(np.float32)
        for side, music_in in zip(both, waits, strict=True)
    )
    return first, second


CALLS: dict[str, Kind] = {
    "clean": lambda both, rng, music: noisy(both, rng),
    "cross-talk -20 dB": lambda both, rng, music: noisy(crossed(both, -20, 0.002), rng),
    "cross-talk -20 dB, no delay": lambda both, rng, music: noisy(crossed(both, -20, 0.0), rng),
    "cross-talk -14 dB, 5 ms": lambda both, rng, music: noisy(crossed(both, -14, 0.005), rng),
    "echo -20 dB, 150 ms": lambda both, rng, music: noisy(crossed(both, -20, 0.15), rng),
    "music in one, waiting": lambda both, rng, music: noisy(_held(both, music, False), rng),
    "music in both, waiting": lambda both, rng, music: noisy(_held(both, music, True), rng),
    "noise at -45 dBFS": lambda both, rng, music: noisy(both, rng, 10 ** (-45 / 20)),
    "telephone band, mu-law": lambda both, rng, music: telephone(noisy(both, rng)),
    "one side 18 dB softer": lambda both, rng, music: noisy((both[0], softer(both[1])), rng),
    "digital silence": lambda both, rng, music: np.stack(both, 1),
}
ROOMS: dict[str, Kind] = {
    "a room, microphones 20 cm apart": lambda both, rng, music: noisy(room(both, rng, 6e-4), rng),
    "a room, microphones 2 m apart": lambda both, rng, music: noisy(room(both, rng, 6e-3), rng),
    "voices panned by 6 dB": lambda both, rng, music: noisy(panned(both, 6), rng),
    "voices panned by 12 dB": lambda both, rng, music: noisy(panned(both, 12), rng),
    "the same in both": lambda both, rng, music: np.stack([both[0] + both[1]] * 2, 1),
    "one channel silent": lambda both, rng, music: noisy((both[0] + both[1], 0 * both[0]), rng),
    "one side and its echo": lambda both, rng, music: noisy(
        (both[0], delayed(both[0], 0.15, -20)), rng
    ),
    "music": lambda both, rng, music: noisy(band(rng, len(both[0]), music), rng),
    "a voice over music": lambda both, rng, music: noisy(
        [part + 2 * both[0] for part in band(rng, len(both[0]), music)], rng
    ),
    "out of phase": lambda both, rng, music: noisy((both[0] + both[1], -both[0] - both[1]), rng),
}


def made(
    voices: dict[str, list[Piece]], music: Floats, each: int, seconds: float, seed: int
) -> Iterator[Made]:
    """`each` recordings of every kind."""
    names = sorted(name for name, pieces in voices.items() if len(pieces) > 1)
    for kinds, apart in ((CALLS, True), (ROOMS, False)):
        for number, (kind, make) in enumerate(kinds.items()):
            for turn in range(each):
                rng = np.random.default_rng([seed, apart, number, turn])
                pair = [names[n] for n in rng.permutation(len(names))[:2]]
                turns = [[piece.samples for piece in voices[name]] for name in pair]
                first = (0.5, 0.5, 0.8)[turn % 3]
                both = sides(turns, rng, seconds * (0.75, 1, 2)[turn % 3], first)
                yield Made(kind, make(both, rng, music), apart)
