"""C50 and RT60 of speech in simulated rooms, and of real recordings, whose rooms are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soxr
from scipy import signal

from tests.bench import corpus_speech
from tests.bench._language_sentences import SENTENCES
from tests.bench._voice_errors import Measured, Sum, errors, measured, percent_errors
from tests.helpers import rooms, timed_speech
from tests.helpers.timed_speech import Floats, Line
from uttermill.tasks.filters import reverberation

RATE = corpus_speech.RATE
LANGUAGES = ("en", "de", "fr", "it", "es", "nl", "pl", "tr", "ru", "pt", "el", "hi")
RT60 = (0.25, 0.35, 0.45, 0.6, 0.8, 1.0, 1.3)  # s
EACH = 4  # rooms that a clip is put into
NOISES = (20, 10)  # dB, white
DRY = 25.0  # dB; beyond that nothing is told apart
REAL = ("ljspeech", "kerstin", "librispeech", "librivox", "aishell", "ami", "asterisk", "cards")


def made_rooms(chance: np.random.Generator) -> list[tuple[str, rooms.Wide]]:
    made = []
    for seconds in RT60:
        made += [("image sources", rooms.shoebox(seconds, chance)) for _ in range(2)]
        direct = chance.uniform(-4, 10)
        made += [("decaying noise", rooms.decaying_noise(seconds, direct, chance))]
    return made


def report(corpus: Path | None) -> Iterator[str]:
    chance = np.random.default_rng(77)
    responses, cost = made_rooms(chance), Sum()
    early: dict[str, list[Measured]] = {}
    late: dict[str, list[Measured]] = {}
    for speech, samples in [*_made(), *(_dry(corpus) if corpus else ())]:
        for number in chance.permutation(len(responses))[:EACH]:
            kind, response = responses[number]
            clip = signal.fftconvolve(samples, response)[: len(samples) + RATE // 5]
            true = min(rooms.c50(response), DRY), rooms.rt60(response)
            noises = [clip + _noise(clip, snr, chance) for snr in NOISES]
            named = zip((f"{speech}, {kind}", *(f"{speech}, {kind}, noise at {snr} dB"
                        for snr in NOISES), f"{speech}, {kind}, 3 s of it"),
                        (clip, *noises, clip[: 3 * RATE]), strict=True)  # fmt: skip
            for name, heard in named:
                measures = measured(reverberation, heard.astype(np.float32), RATE, cost)
                c50 = measures["reverberation_c50"]
                early.setdefault(name, []).append((None if c50 is None else min(c50, DRY), true[0]))
                late.setdefault(name, []).append((measures["reverberation_rt60"], true[1]))
    yield f"reverberation: {cost}"
    for name in early:
        yield f"  C50, {name}: {errors(early[name], 'dB')}"
        yield f"  RT60, {name}: {percent_errors(late[name])}"
    if corpus:
        yield from _real(corpus, cost)


def _made() -> Iterator[tuple[str, Floats]]:
    """Two sentences of each language, on none of which the lines were fitted."""
    lines = [
        Line(" ".join(SENTENCES[name][2][3:5]), SENTENCES[name][0] + ("", "+f3")[number % 2], 150)
        for number, name in enumerate(LANGUAGES)
    ]
    for spoken in timed_speech.speak(lines):
        samples = soxr.resample(spoken.samples, timed_speech.RATE, RATE, "HQ")
        yield "espeak-ng", np.asarray(samples, np.float32)


def _dry(corpus: Path) -> Iterator[tuple[str, Floats]]:
    """Real speech close to the microphone; its own slight reverberation adds to the room's."""
    for name in ("kerstin", "ljspeech"):
        rows = [row for row in corpus_speech.transcribed(corpus) if name in row["path"]]
        for row in [row for row in rows if row["seconds"] >= 4][1:18:3]:
            yield "real speech", corpus_speech.read(corpus / row["path"])


def _real(corpus: Path, cost: Sum) -> Iterator[str]:
    for name in REAL:
        found = []
        for row in corpus_speech.listed(corpus):
            if f"/{name}" in row["path"] and row["kind"] == "speech" and row["seconds"] < 60:
                samples = corpus_speech.read(corpus / row["path"])
                measures = measured(reverberation, samples, RATE, cost)
                if measures["reverberation_c50"] is not None:
                    found.append([measures[column] or 0.0 for column in reverberation.COLUMNS])
        if found:
            c50, rt60 = np.median(np.array(found), axis=0)
            yield f"  real, {name}: {len(found)} clips, medians {c50:.1f} dB and {rt60:.2f} s"


def _noise(clip: rooms.Wide, snr: float, chance: np.random.Generator) -> rooms.Wide:
    power = np.square(clip).mean() / 10 ** (snr / 10)
    return chance.standard_normal(len(clip)) * float(np.sqrt(power))
