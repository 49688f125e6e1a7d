"""Makes dialogues with an exact ground truth: turns with gaps, overlaps and backchannels.

The people are espeak's voices, or readers of the corpus's LibriSpeech, whom a diarizer can tell
apart.

A dialogue has two to four people. A turn is one to three sentences; the next one begins after a
gap, or before the previous one ends (`overlap`: share of such turns). During a long turn, somebody
else may say a word of assent (`backchannels`: share of such turns). Sometimes there is a long
silence. Each person has a channel, and the recording is their sum; the noise is white, at -70 dBFS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import soxr
from numpy.typing import NDArray

from tests.helpers import conversations
from uttermill.flows.demo.corpus import ENGLISH, STORY, Line, speak
from uttermill.flows.demo.corpus import RATE as VOICE_RATE
from uttermill.tasks.base.arrays import RATE

Floats = NDArray[np.float32]
#: Voice, pitch and speed of each person.
VOICES = (("en-us", 45, 150), ("en-us+f2", 60, 145), ("en+m3", 25, 140), ("en-us+f5", 75, 155))
ASSENT = ("Yeah.", "Right.", "Okay.", "I see.", "Sure.")
SENTENCES = tuple(dict.fromkeys((*ENGLISH, *STORY)))
NOISE = 10 ** (-70 / 20)
LEAST_AUDIBLE = 3e-3  # of the largest sample; softer ends of espeak's output are cut off


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """A turn, in s of the recording; `backchannel`: whether it is inside another's turn;
    `stretches`: its spans of speech, without pauses of 0.2 s and more."""

    speaker: int
    start: float
    end: float
    text: str
    backchannel: bool
    stretches: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """Parameters of a dialogue; `gaps`: shortest and longest, s."""

    speakers: int = 2
    seconds: float = 240.0
    overlap: float = 0.15
    backchannels: float = 0.3
    gaps: tuple[float, float] = (0.2, 0.9)
    silence: float = 0.04  # share of turns before which nobody speaks for 4 to 8 s
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Dialogue:
    """`channels`: float32 [people, n] at 16 kHz, each person's own; `turns` in order of starts."""

    asked: Asked
    channels: Floats
    turns: tuple[SaidTurn, ...]

    @property
    def mix(self) -> Floats:
        return np.asarray(self.channels.sum(axis=0), np.float32)

    def anybody(self) -> NDArray[np.bool_]:
        """Whether somebody speaks, for each millisecond; bool."""
        return np.asarray(self.spoken(1000).any(axis=1))

    def spoken(self, rate: int = 100) -> NDArray[np.bool_]:
        """Who speaks: bool [frames, people], at `rate` frames a second."""
        frames = np.zeros((self.channels.shape[1] * rate // RATE, len(self.channels)), bool)
        for turn in self.turns:
            for start, end in turn.stretches:
                frames[round(start * rate) : round(end * rate), turn.speaker] = True
        return frames


@dataclass(frozen=True, slots=True)
class Person:
    """A person's sentences: (float32 at 16 kHz, without silence at the ends; text)."""

    sentences: tuple[tuple[Floats, str], ...]
    assents: tuple[tuple[Floats, str], ...]


@lru_cache(maxsize=1)
def synthetic() -> tuple[Person, ...]:
    """espeak's voices."""
    texts = (*SENTENCES, *ASSENT)
    lines = [Line(text, voice, speed, pitch) for voice, pitch, speed in VOICES for text in texts]
    said = [_trimmed(soxr.resample(clip, VOICE_RATE, RATE, "HQ")) for clip in speak(lines)]
    people = []
    for number in range(len(VOICES)):
        start = number * len(texts)
        pairs = list(zip(said[start : start + len(texts)], texts, strict=True))
        people.append(Person(tuple(pairs[: len(SENTENCES)]), tuple(pairs[len(SENTENCES) :])))
    return tuple(people)


def _trimmed(clip: Floats) -> Floats:
    loud = np.flatnonzero(np.abs(clip) > LEAST_AUDIBLE * np.abs(clip).max())
    voiced = clip[loud[0] : loud[-1] + 1]
    return np.asarray(voiced * (0.05 / np.sqrt(np.square(voiced).mean())), np.float32)


def _speech(clip: Floats) -> Iterator[tuple[float, float]]:
    """The spans of speech in a clip, s; the clip begins and ends with speech."""
    active = conversations.activity(clip)
    active[0] = active[-1] = True
    edges = np.flatnonzero(np.diff(np.r_[0, active.astype(np.int8), 0])).reshape(-1, 2)
    yield from ((low / 100, (high + (high == len(active))) / 100) for low, high in edges.tolist())


def made(asked: Asked, people: Sequence[Person]) -> Dialogue:
    """The dialogue with these parameters and this seed."""
    rng = np.random.default_rng(asked.seed)
    chosen = [people[int(n)] for n in rng.permutation(len(people))[: asked.speakers]]
    size = round(asked.seconds * RATE)
    channels = np.zeros((asked.speakers, size), np.float32)
    turns: list[SaidTurn] = []

    def say(who: int, at: float, what: tuple[Floats, str], assent: bool = False) -> float | None:
        """Put a clip at a time; returns its end, or None if it would not fit into the recording."""
        clip, text = what
        begin = round(at * RATE)
        end = begin + len(clip)
        if end > size:
            return None
        channels[who, begin:end] += clip
        at = begin / RATE
        inside = tuple((at + low, min(at + high, end / RATE)) for low, high in _speech(clip))
        turns.append(SaidTurn(who, at, end / RATE, text, assent, inside))
        return end / RATE

    at, who = float(rng.uniform(0.3, 1.0)), int(rng.integers(asked.speakers))
    while True:
        begin = end = at
        for _ in range(int(rng.integers(1, 4))):
            sentences = chosen[who].sentences
            said = say(who, at, sentences[int(rng.integers(len(sentences)))])
            if said is None:
                return _done(asked, channels, turns, rng)
            end = said
            at = end + float(rng.uniform(0.1, 0.35))
        others = [other for other in range(asked.speakers) if other != who]
        if end - begin > 4 and rng.random() < asked.backchannels:
            place = float(rng.uniform(begin + 1.5, end - 1.5))
            other = int(rng.choice(others))
            assents = chosen[other].assents
            say(other, place, assents[int(rng.integers(len(assents)))], True)
        who = int(rng.choice(others))
        if rng.random() < asked.overlap:
            at = max(end - float(rng.uniform(0.3, 1.2)), begin + 1.0)
        elif rng.random() < asked.silence:
            at = end + float(rng.uniform(4, 8))
        else:
            at = end + float(rng.uniform(*asked.gaps))


def _done(
    asked: Asked, channels: Floats, turns: list[SaidTurn], rng: np.random.Generator
) -> Dialogue:
    room = rng.normal(0, NOISE, channels.shape).astype(np.float32)
    return Dialogue(asked, channels + room, tuple(sorted(turns, key=lambda t: (t.start, t.end))))
