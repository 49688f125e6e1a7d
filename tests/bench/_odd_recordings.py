"""Makes difficult recordings with known texts and times.

They consist of the corpus's sentences and of espeak-ng's. Each kind is one difficulty of real
recordings: alternating languages, turns without a pause, tempo, level, telephone, room, music,
figures, single words, capture faults, repetition. The same code gives the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from tests.bench import _odd_sounds as sounds
from tests.bench import speech_mixtures
from tests.bench.corpus_speech import RATE, Floats, read, transcribed
from tests.bench.speech_mixtures import Mixture, Sentence, joined, levelled
from uttermill.flows.demo.corpus import Line, speak
from uttermill.flows.demo.voice import RATE as VOICE_RATE

LANGUAGES = ("en", "de", "es", "zh")
MUSIC = "noise/moh_manolo_camp.wav"
EDGE_DB = 35.0  # below its loud frames, the edge of a sentence is silence
FRAME = RATE // 100
QUIET, LOUD = -45.0, -18.0  # dBFS

FIGURES = (
    "The number is four one five, two seven three, eight eight oh six.",
    "That is spelled M, A, C, H, I, N, E.",
    "The meeting is on Wednesday, the seventeenth of September, nineteen ninety four.",
    "It cost twelve thousand three hundred and forty five dollars and sixty cents.",
    "Please call one eight hundred, five five five, zero one nine nine.",
    "My name is Kowalski, spelled K, O, W, A, L, S, K, I.",
    "The population was one million two hundred and six thousand.",
    "The train leaves at six forty five from platform nine.",
    "Her birthday is the third of May, two thousand and one.",
    "The code is B, seven, X, four, four, Q, nine.",
)


@dataclass(frozen=True, slots=True)
class Odd:
    """A recording, [samples] or [samples, channels] at `rate`, and its sentences with times."""

    truth: Mixture
    samples: NDArray[np.float32]
    rate: int = RATE


Random = np.random.Generator
Make = Callable[[Path, Random], Odd]


def made(corpus: Path, only: Sequence[str] = ()) -> Iterator[Odd]:
    """One recording of each kind, by the kind's name; `only`: these kinds."""
    for number, (name, make) in enumerate(KINDS.items()):
        if not only or name in only:
            odd = make(corpus, np.random.default_rng(number))
            yield replace(odd, truth=replace(odd.truth, name=name))


def trimmed(sentence: Sentence) -> Sentence:
    """Without the silence at its edges."""
    whole = sentence.samples[: len(sentence.samples) // FRAME * FRAME]
    level = 10 * np.log10(np.square(whole.reshape(-1, FRAME)).mean(axis=1) + 1e-10)
    loud = np.flatnonzero(level > np.quantile(level, 0.95) - EDGE_DB)
    return replace(sentence, samples=whole[loud[0] * FRAME : (loud[-1] + 1) * FRAME])


def drawn(corpus: Path, rng: Random, language: str = "en", speaker: str = "") -> list[Sentence]:
    """Sentences of 2 to 12 s in random order; `speaker`: prefix of the speaker's name."""
    every = [
        s
        for s in speech_mixtures.sentences(corpus)
        if s.language == language and s.speaker.startswith(speaker) and 2.0 <= s.seconds <= 12.0
    ]
    return [trimmed(every[i]) for i in rng.permutation(len(every))]


def until(minutes: float, chosen: Sequence[Sentence]) -> list[Sentence]:
    seconds = np.cumsum([s.seconds for s in chosen])
    return list(chosen[: int(np.searchsorted(seconds, minutes * 60)) + 1])


def readers(corpus: Path, rng: Random, minutes: float = 1.3) -> list[Sentence]:
    """Several people who read English."""
    return until(minutes, drawn(corpus, rng, speaker="ls-"))


def spaced(
    chosen: Sequence[Sentence], rng: Random, low: float = 0.3, high: float = 1.0, first: float = 0.3
) -> Odd:
    """The sentences with pauses of `low` to `high` s between them."""
    pauses = [first, *rng.uniform(low, high, len(chosen) - 1), first]
    mixture = joined("", chosen, pauses, rng)
    return Odd(mixture, mixture.samples)


def switching(each: int, minutes: float) -> Make:
    """`each` sentences in one language, then in the next."""

    def make(corpus: Path, rng: Random) -> Odd:
        pools = {code: cycle(drawn(corpus, rng, code)) for code in LANGUAGES}
        said = [s for _ in range(12) for code in LANGUAGES for s in islice(pools[code], each)]
        return spaced(until(minutes, said), rng, 0.3, 0.8)

    return make


def turns(corpus: Path, rng: Random) -> Odd:
    """Two people, each of whom begins when the other ends."""
    first, second = (drawn(corpus, rng, speaker=f"ls-{who}") for who in ("1688", "2609"))
    both = [s for pair in zip(first, second, strict=False) for s in pair]
    return spaced(until(2, both), rng, 0.0, 0.0)


def each(change: Callable[[Floats, Random], Floats]) -> Make:
    """Readers whose sentences are changed one by one."""

    def make(corpus: Path, rng: Random) -> Odd:
        chosen = [replace(s, samples=change(s.samples, rng)) for s in readers(corpus, rng)]
        return spaced(chosen, rng)

    return make


def all_of(change: Callable[[Floats, Random], NDArray[np.float32]], rate: int = RATE) -> Make:
    """Readers; the whole recording is changed, and then has `rate`."""

    def make(corpus: Path, rng: Random) -> Odd:
        odd = spaced(readers(corpus, rng), rng)
        return Odd(odd.truth, change(odd.samples, rng), rate)

    return make


def loud_and_quiet(corpus: Path, rng: Random) -> Odd:
    chosen = [
        replace(s, samples=levelled(s.samples, (QUIET, LOUD)[n % 2]))
        for n, s in enumerate(readers(corpus, rng, 2))
    ]
    mixture = joined("", chosen, [0.3, *rng.uniform(0.3, 2.0, len(chosen))], rng)
    floor = rng.standard_normal(len(mixture.samples)) * 10 ** (-80 / 20)
    for sentence, (start, end) in zip(chosen, mixture.bounds, strict=True):
        floor[start:end] += sentence.samples
    return Odd(mixture, floor.astype(np.float32))


def music(corpus: Path, seconds: float, dbfs: float) -> Floats:
    bed = levelled(read(corpus / MUSIC), dbfs)
    return np.resize(bed, round(seconds * RATE))


def with_music(corpus: Path, rng: Random) -> Odd:
    odd = spaced(readers(corpus, rng, 1.5), rng, 0.5, 3.0)
    level = speech_mixtures.LEVEL_DBFS - 15
    return Odd(odd.truth, odd.samples + music(corpus, odd.truth.seconds, level))


def after_music(corpus: Path, rng: Random) -> Odd:
    odd = spaced(readers(corpus, rng, 1.0), rng)
    before = music(corpus, 180, speech_mixtures.LEVEL_DBFS)
    bounds = tuple((start + len(before), end + len(before)) for start, end in odd.truth.bounds)
    samples = np.concatenate([before, odd.samples])
    return Odd(replace(odd.truth, samples=samples, bounds=bounds), samples)


def voiced(texts: Sequence[str], voice: str, speed: int = 150) -> list[Sentence]:
    """Sentences of espeak-ng."""
    said = speak([Line(text, voice, speed) for text in texts])
    return [
        Sentence(levelled(soxr.resample(s, VOICE_RATE, RATE, "HQ")), text, "en", voice)
        for s, text in zip(said, texts, strict=True)
    ]


def figures(corpus: Path, rng: Random) -> Odd:
    return spaced(voiced(FIGURES * 2, "en-us"), rng)


def single_words(prefix: str, language: str) -> Make:
    """Words with 3 to 10 s of faint noise between them."""

    def make(corpus: Path, rng: Random) -> Odd:
        rows = [r for r in transcribed(corpus) if r["path"].startswith(prefix)]
        chosen = [
            trimmed(Sentence(levelled(read(corpus / r["path"])), r["text"], language, ""))
            for r in (rows[i] for i in rng.permutation(len(rows))[:18])
        ]
        return spaced(chosen, rng, 3.0, 10.0)

    return make


def to_the_end(corpus: Path, rng: Random) -> Odd:
    """Exactly 30 s, with speech from the first sample to the last."""
    odd = spaced(readers(corpus, rng, 0.8), rng, 0.2, 0.5, first=0.0)
    ends = [end for _, end in odd.truth.bounds if end > 30 * RATE]
    inside = [n for n, (_, end) in enumerate(odd.truth.bounds) if end <= 30 * RATE]
    last = odd.truth.bounds[inside[-1]][1] if ends else odd.truth.bounds[-1][1]
    samples = odd.samples[:last]
    samples = np.concatenate([np.zeros(30 * RATE - last, np.float32), samples])
    shift = 30 * RATE - last
    bounds = tuple((a + shift, b + shift) for a, b in odd.truth.bounds[: len(inside)])
    truth = replace(odd.truth, sentences=odd.truth.sentences[: len(inside)], bounds=bounds)
    return Odd(replace(truth, samples=samples), samples)


def repeated(corpus: Path, rng: Random) -> Odd:
    """One sentence 50 times."""
    shortest = min(drawn(corpus, rng), key=lambda s: s.seconds)
    return spaced([shortest] * 50, rng, 0.4, 0.8)


def stereo(other: float) -> Callable[[Floats, Random], NDArray[np.float32]]:
    """The speech on the left, and `other` times it on the right."""
    return lambda samples, rng: np.stack([samples, other * samples], axis=1)


KINDS: dict[str, Make] = {
    "switch-3": switching(3, 4),
    "switch-1": switching(1, 2),
    "turns": turns,
    "slow": each(lambda s, rng: sounds.stretched(s, 0.6)),
    "fast": each(lambda s, rng: sounds.stretched(s, 1.7)),
    "levels": loud_and_quiet,
    "whisper": each(lambda s, rng: levelled(sounds.whispered(s, rng), -30)),
    "telephone": all_of(sounds.telephoned, sounds.TELEPHONE),
    "room": all_of(sounds.in_a_room),
    "music": with_music,
    "figures": figures,
    "words": single_words("zh/hsk_words/", "zh"),
    "clipped": all_of(lambda s, rng: sounds.clipped(s)),
    "left": all_of(stereo(0.0)),
    "opposed": all_of(stereo(-1.0)),
    "to-the-end": to_the_end,
    "hold": after_music,
    "repeated": repeated,
}
