"""Audiobooks aligned with their books: sentences found, boundaries, wrong pairs, time, memory.

    UTTERMILL_CORPUS=… python -m tests.bench.align [--minutes 120] [--words 100000] [--seed 0]
        [--heard FOLDER] [--json]

A made audiobook has the LibriSpeech and LJ Speech clips of the corpus in their order, again
and again with other noise until it is `--minutes` long, with pauses of 0.3 to 1.2 s. One sentence
in twenty is left out of the audio, and one in twenty out of the text. Where a clip's speech begins
and ends is known by its level, not by the voice detector: somewhere between where anything is
audible in the clip (`_sentences.active_frames`: at most 30 dB below its loud part) and where its
loud part begins or ends. The error of an edge is its distance from that range, the 0.1 s of pause
that the segmenter leaves on purpose included. The clips of one reader have clicks in their pauses
that are as loud as speech, so that level does not tell: their sentences count, their edges do not.
Wrong: a sentence that was kept (alignment of at least 0.7) where another was said, or none.

A book longer than the corpus (8 minutes) repeats it word for word, which is harder than a real one:
no run of words occurs only once.

`--heard` keeps what was heard in a folder, and takes it from there the next time.

Then a text of `--words` words against as many heard ones, a tenth of them wrong, without audio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from tasks.filters import alignment
from tasks.json_types import JsonObject
from tasks.plugins.contracts.segmenters import Heard
from tasks.recording import TimedWord
from tasks.segmenters import aligned
from tasks.segmenters.aligned import Settings, start_heard
from tests.bench import _heard, corpus_speech
from tests.bench._sentences import active_frames

RATE = corpus_speech.RATE
SETS = ("en/librispeech/", "en/ljspeech/")
NOISY = "en/librispeech/1688-"
LEFT_OUT = 0.05
TOLERANCE = 0.2  # s
MOSTLY = 0.7  # of a span, in which its sentence must be said
NOISE = 1e-3

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence of the audiobook; `start` and `end` of its loud part in s, None: it is not said;
    `written`: whether the text has it; `audible`: where anything of it is heard, s; None: level
    does not tell."""

    text: str
    start: float | None
    end: float | None
    written: bool
    audible: tuple[float, float] | None = None


def book(corpus: Path, minutes: float, seed: int, path: Path) -> tuple[int, list[Line]]:
    """Writes the audiobook at `RATE`; its number of samples, and the lines in order."""
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
    """First and last sample of frames of 20 ms that are louder than the middle, in dB, between the
    clip's quiet and its loud ones."""
    frames = clip[: len(clip) // 320 * 320].reshape(-1, 320)
    level = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
    quiet, full = np.quantile(level, (0.05, 0.95))
    loud = np.flatnonzero(level > (quiet + full) / 2)
    return int(loud[0]) * 320, (int(loud[-1]) + 1) * 320


def aligned_book(corpus: Path, minutes: float, seed: int, kept: Path | None) -> JsonObject:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.flac"
        samples, lines = book(corpus, minutes, seed, path)
        text = "\n".join(line.text for line in lines if line.written)
        began = time.process_time()
        heard = _heard.heard(path, Settings().backend, "en", kept)
        hearing_seconds = time.process_time() - began
    began = time.process_time()
    segmenter = start_heard(Settings(), RATE, text, heard)
    matching_seconds = time.process_time() - began
    spans = segmenter.push(np.broadcast_to(np.zeros((1, 1), np.float32), (samples, 1)))
    spans += segmenter.finish()
    least = alignment.Settings().min or 0.0
    found = [s for s in spans if s.text and s.end > s.start and (s.match or 0.0) >= least]
    both = [line for line in lines if line.written and line.start is not None]
    edges: list[float] = []
    wrong = 0
    hits: set[int] = set()
    for span in found:
        start, end = span.start / RATE, span.end / RATE
        true = [
            line for line in both
            if (span.text or "") in line.text and _share(line, start, end) > MOSTLY
        ]  # fmt: skip
        if not true:
            wrong += 1
            print(f"wrong: {start:.2f} to {end:.2f} s: {span.text}", file=sys.stderr)
            continue
        hits.add(lines.index(true[0]))
        line = true[0]
        if span.text == line.text and line.audible:  # a long sentence is found in parts
            loud = line.start or 0.0, line.end or 0.0
            for edge, one, other in zip((start, end), loud, line.audible, strict=True):
                low, high = sorted((one, other))
                edges.append(max(low - edge, edge - high, 0.0))
    near = np.array(edges)
    return {
        "minutes": round(samples / RATE / 60, 1),
        "sentences_in_both": len(both),
        "only_in_text": sum(line.start is None for line in lines),
        "only_in_audio": sum(not line.written for line in lines),
        "found_percent": round(100 * len(hits) / len(both), 2),
        "wrong": wrong,
        "edges": len(edges),
        "edges_within_0.2_s_percent": round(100 * float((near <= TOLERANCE).mean()), 2),
        "edge_error_median": round(float(np.median(near)), 3),
        "edge_error_p95": round(float(np.quantile(near, 0.95)), 3),
        "hearing_cpu_seconds": round(hearing_seconds, 1),
        "matching_cpu_seconds": round(matching_seconds, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _share(line: Line, start: float, end: float) -> float:
    """Share of a span in which a line is said."""
    first, last = line.start or 0.0, line.end or 0.0
    return max(0.0, min(end, last) - max(start, first)) / max(end - start, 1e-9)


def scale(words: int, seed: int) -> JsonObject:
    """A text of so many words against a transcript of it, a tenth of which is wrong."""
    chance = np.random.default_rng(seed)
    # Word frequencies fall as in speech (Zipf): most are among the commonest few hundred.
    drawn = np.minimum(chance.zipf(1.3, words), 40_000)
    spelled = [_spelled(int(n)) for n in drawn]
    ends = set(np.cumsum(chance.integers(4, 25, words)).tolist())
    text = " ".join(w + ("." if n in ends else "") for n, w in enumerate(spelled))
    said = [_spelled(int(n)) if bad else w for w, n, bad in zip(
        spelled, chance.integers(1, 40_000, words), chance.random(words) < 0.1, strict=True
    )]  # fmt: skip
    said = said[: words // 2] + said[words // 2 + words // 20 :]  # a twentieth is not said
    timed = tuple(TimedWord(f" {w}", 0.4 * n, 0.4 * n + 0.3) for n, w in enumerate(said))
    began = time.process_time()
    segmenter = aligned.start_heard(Settings(), RATE, text, Heard(timed, (), "de"))
    spent = time.process_time() - began
    segmenter.push(np.broadcast_to(np.zeros((1, 1), np.float32), (int(RATE * 0.4 * words), 1)))
    return {
        "words": words,
        "cpu_seconds": round(spent, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _spelled(number: int) -> str:
    """A word of letters for a number."""
    letters = []
    while number:
        number, rest = divmod(number, 20)
        letters.append("bcdfghjklmnpqrstvwxz"[rest] + "aeiou"[rest % 5])
    return "".join(letters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=os.environ.get("UTTERMILL_CORPUS"))
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--words", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--heard", type=Path, help="folder that keeps what was heard")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: JsonObject = {}
    if args.words:
        found["scale"] = scale(args.words, args.seed)
    if args.minutes:
        if args.corpus is None:
            parser.error("give UTTERMILL_CORPUS or --corpus, or --minutes 0")
        found["book"] = aligned_book(args.corpus, args.minutes, args.seed, args.heard)
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
