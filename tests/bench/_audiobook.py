"""Makes audiobooks with known times of their sentences, and harder texts for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import soundfile as sf

from tests.bench import corpus_speech
from tests.bench._sentences import active_frames
from tests.bench.corpus_speech import RATE, Floats

SETS = ("en/librispeech/", "en/ljspeech/")
NOISY = "en/librispeech/1688-"
LEFT_OUT = 0.05
NOISE = 1e-3


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of the audiobook. `start`, `end`: of its loud part, s, None: not spoken;
    `written`: whether the text contains it; `audible`: span in which any of it is audible, s, None:
    the level does not show it."""

    text: str
    start: float | None
    end: float | None
    written: bool
    audible: tuple[float, float] | None = None


def book(corpus: Path, minutes: float, seed: int, path: Path) -> tuple[int, list[Line]]:
    """Write the audiobook at `RATE`; returns its number of samples, and the lines in order."""
    rows = [r for r in corpus_speech.transcribed(corpus) if r["path"].startswith(SETS)]
    chance = np.random.default_rng(seed)
    lines: list[Line] = []
    file = sf.SoundFile(path, "w", RATE, 1, "PCM_16")
    at = number = 0
    while at < minutes * 60 * RATE:
        row = rows[number % len(rows)]
        number += 1
        text = row["text"].capitalize() + "."
        drawn = chance.random()
        if drawn < LEFT_OUT:
            lines.append(Line(text, None, None, True))
            continue
        clip = corpus_speech.read(corpus / row["path"])
        first, last = _speech(clip)
        written = drawn >= 2 * LEFT_OUT
        audible = None
        if not row["path"].startswith(NOISY):
            heard = np.flatnonzero(active_frames(clip))
            audible = at / RATE + heard[0] / 100, at / RATE + (heard[-1] + 1) / 100
        lines.append(Line(text, (at + first) / RATE, (at + last) / RATE, written, audible))
        pause = round(chance.uniform(0.3, 1.2) * RATE)
        piece = np.concatenate([clip, np.zeros(pause, np.float32)])
        file.write(piece + NOISE * chance.standard_normal(len(piece), np.float32))
        at += len(piece)
    file.close()
    return at, lines


def _speech(clip: Floats) -> tuple[int, int]:
    """First and last sample of the 20 ms frames that are louder than the mean, in dB, of the clip's
    quiet and loud frames."""
    frames = clip[: len(clip) // 320 * 320].reshape(-1, 320)
    level = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
    quiet, full = np.quantile(level, (0.05, 0.95))
    loud = np.flatnonzero(level > (quiet + full) / 2)
    return int(loud[0]) * 320, (int(loud[-1]) + 1) * 320


def other_text(lines: list[Line], draw: int) -> list[Line]:
    """A harder text for the audio: without 5 to 30 % of the sentences, and with as many insertions
    that are not spoken there: three in ten are whole sentences, the others phrases."""
    chance = np.random.default_rng(1000 + draw)
    share = (0.05, 0.1, 0.2, 0.3)[draw % 4]
    found = []
    for line in lines:
        said = line.start is not None
        found.append(replace(line, written=chance.random() > share) if said else line)
        if chance.random() < share:
            words = lines[int(chance.integers(len(lines)))].text.strip(".").split()
            count = int(chance.integers(2, 7))
            at = int(chance.integers(0, max(1, len(words) - count)))
            part = words[at : at + count] if chance.random() < 0.7 else words
            found.append(Line(" ".join(part).capitalize() + ".", None, None, True))
    return found
