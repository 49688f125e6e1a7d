"""Makes meetings with an exact ground truth, as recorded by a microphone on the table.

Four people take turns, which begin up to 2.5 s before the previous one ends, and say words of
assent during other turns, so that a fifth to a quarter of the time has several voices. Each voice
has its own level and room response (an exponential decay stronger than the direct sound, since
nobody is near the microphone), and there is noise.
"""

from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve

from tests.helpers.conversations import FRAME, Conversation, Floats, Piece
from tests.helpers.conversations import Asked as Wish
from uttermill.tasks.base.arrays import RATE


@dataclass(frozen=True, slots=True)
class Room:
    """A room. `decay`: RT60, s, 0: no room; `direct`: direct to reverberant ratio, dB; `snr`:
    speech to noise, dB."""

    decay: float
    direct: float
    snr: float


NEAR, FAR = Room(0.0, 60.0, 30.0), Room(0.7, -6.0, 10.0)


def made(seed: int, seconds: float, room: Room, voices: dict[str, list[Piece]]) -> Conversation:
    rng = np.random.default_rng(seed)
    names = sorted(name for name, own in voices.items() if sum(len(p.active) for p in own) > 600)
    chosen = tuple(names[i] for i in rng.permutation(len(names))[:4])
    frames = round(seconds * 100)
    truth = np.zeros((frames, len(chosen)), bool)
    dry = np.zeros((len(chosen), frames * FRAME), np.float32)
    used = [0] * len(chosen)

    def say(who: int, at: int, most: int) -> int:
        """Put the next piece of a voice at a frame, cut after `most`; returns its end."""
        pieces = voices[chosen[who]]
        piece = pieces[used[who] % len(pieces)]
        used[who] += 1
        size = max(min(len(piece.active), most, frames - at), 0)
        dry[who, at * FRAME : (at + size) * FRAME] += piece.samples[: size * FRAME]
        truth[at : at + size, who] |= piece.active[:size]
        return at + size

    at, who = 20, int(rng.integers(len(chosen)))
    while at < frames:
        begin = at
        for _ in range(int(rng.integers(1, 4))):
            at = say(who, at, int(rng.uniform(60, 500))) + int(rng.uniform(5, 40))
        for place in np.arange(begin + 100, at - 50, 250):
            if rng.random() < 0.6:
                other = (who + int(rng.integers(1, len(chosen)))) % len(chosen)
                say(other, int(place + rng.uniform(0, 200)), int(rng.uniform(30, 150)))
        who = (who + int(rng.integers(1, len(chosen)))) % len(chosen)
        at = max(at + int(rng.uniform(-250, 60)), begin + 100)
    gains = 10 ** (rng.uniform(-6, 6, len(chosen)) / 20)
    heard = sum(g * _in_room(track, room, rng) for g, track in zip(gains, dry, strict=True))
    noise = _pink(rng, len(heard))
    noise *= np.sqrt(np.mean(np.square(heard)) / 10 ** (room.snr / 10))
    wish = Wish(len(chosen), seconds, float((truth.sum(axis=1) > 1).mean()), room.snr, seed=seed)
    return Conversation(wish, (heard + noise).astype(np.float32), truth, chosen)


def _in_room(dry: Floats, room: Room, rng: np.random.Generator) -> Floats:
    if not room.decay:
        return dry
    count = int(room.decay * RATE)
    tail = rng.standard_normal(count) * 10 ** (-3 * np.arange(count) / count)
    tail *= np.sqrt(1 / np.sum(np.square(tail)) / 10 ** (room.direct / 10))
    response = np.concatenate([[1.0], tail])
    wet = fftconvolve(dry, response / np.sqrt(np.sum(np.square(response))))[: len(dry)]
    return np.asarray(wet, np.float32)


def _pink(rng: np.random.Generator, count: int) -> Floats:
    spectrum = np.fft.rfft(rng.standard_normal(count))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0
    noise = np.fft.irfft(spectrum, count)
    return np.asarray(noise / np.sqrt(np.mean(np.square(noise))), np.float32)
