"""Impulse responses of made rooms, whose C50 and RT60 are known from themselves."""

import numpy as np
from numpy.typing import NDArray

RATE = 16_000  # Hz
SOUND = 343.0  # m/s

Wide = NDArray[np.float64]


def decaying_noise(rt60: float, direct_db: float, chance: np.random.Generator) -> Wide:
    """The direct sound, and 1 to 6 ms later noise that decays by 60 dB in `rt60` s; its energy is
    `direct_db` below that of the direct sound."""
    places = np.arange(int(1.3 * rt60 * RATE)) / RATE
    tail = chance.standard_normal(len(places)) * 10 ** (-3 * places / rt60)
    tail[: int(RATE * chance.uniform(0.001, 0.006))] = 0
    response: Wide = tail / np.sqrt(np.square(tail).sum()) * 10 ** (-direct_db / 20)
    response[0] = 1
    return response


def shoebox(rt60: float, chance: np.random.Generator) -> Wide:
    """Image sources (Allen and Berkley 1979) in a room of 17 to 220 m³ whose walls absorb what
    Eyring's formula asks for; signs of images are random, so that no echoes sweep."""
    size = np.array([chance.uniform(low, high) for low, high in ((3, 9), (3, 7), (2.4, 3.5))])
    surface = 2 * (size[0] * size[1] + size[0] * size[2] + size[1] * size[2])
    reflected = np.exp(-0.161 * size.prod() / (surface * rt60) / 2)
    source, ear = size * chance.uniform(0.2, 0.8, 3), size * chance.uniform(0.2, 0.8, 3)
    samples = int(1.2 * rt60 * RATE)
    counts = np.minimum(np.ceil(SOUND * 1.2 * rt60 / (2 * size)).astype(int), (14, 16, 22))
    response = np.zeros(samples + 1)
    for mirrored in np.ndindex(2, 2, 2):
        away, walls = [], []
        for axis, side in enumerate(mirrored):
            images = np.arange(-counts[axis], counts[axis] + 1)
            away.append((1 - 2 * side) * source[axis] + 2 * images * size[axis] - ear[axis])
            walls.append(np.abs(images - side) + np.abs(images))
        metres = np.sqrt(sum(np.square(part) for part in np.ix_(*away)))
        bounces = sum(np.ix_(*walls))
        signs = np.where(bounces == 0, 1, np.where(chance.random(metres.shape) < 0.5, -1, 1))
        place = np.rint(metres / SOUND * RATE).astype(int)
        near = place <= samples
        np.add.at(response, place[near], (signs * reflected**bounces / metres)[near])
    response = response[np.flatnonzero(response)[0] :]
    return np.asarray(response / response[0])


def c50(response: Wide) -> float:
    """Energy of the first 50 ms after the direct sound over that of the rest, dB."""
    energy = np.square(response)
    edge = int(0.05 * RATE)
    return float(10 * np.log10(energy[:edge].sum() / max(energy[edge:].sum(), 1e-12)))


def rt60(response: Wide) -> float:
    """From the decay between -5 and -25 dB (T20), s."""
    left = np.cumsum(np.square(response)[::-1])[::-1]
    levels = 10 * np.log10(left / left[0] + 1e-12)
    first, last = int(np.argmax(levels < -5)), int(np.argmax(levels < -25))
    slope = np.polyfit(np.arange(first, last) / RATE, levels[first:last], 1)[0]
    return float(-60 / slope)
