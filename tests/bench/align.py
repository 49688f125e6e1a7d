"""Audiobooks aligned with their books: sentences found, boundaries, wrong pairs, time, memory.

    UTTERMILL_CORPUS=… python -m tests.bench.align [--minutes 120] [--words 100000] [--seed 0]
        [--heard FOLDER] [--texts 60] [--json]

A synthetic audiobook has the LibriSpeech and LJ Speech clips of the corpus in order, repeated with
other noise until it is `--minutes` long, with pauses of 0.3 to 1.2 s. One sentence in twenty is
missing from the audio, and one in twenty from the text. A clip's level shows where its speech
begins and ends, without the voice detector: somewhere between the first audible frame
(`_sentences.active_frames`: at most 30 dB below its loud part) and the beginning of the loud part,
and likewise at the end. The error of an edge is its distance from that range, including the 0.1 s
of pause that the segmenter leaves on purpose. One reader's clips have clicks in their pauses that
are as loud as speech, so their sentences count, but not their edges. A pair is wrong if a sentence
was kept (alignment of at least 0.7) where another one or none is spoken.

A book longer than the corpus (8 minutes) repeats it word for word, which is harder than a real one:
no run of words occurs only once.

`--heard` caches the transcripts in a folder. `--texts` also aligns this many harder texts
(`other_text`); a wrong pair of these may have the same words, if a sentence was removed from the
text and inserted elsewhere.

Last, a text of `--words` words is aligned with as many recognised words, a tenth of them wrong,
without audio.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench import _heard
from tests.bench._audiobook import Line, book, other_text
from tests.bench.corpus_speech import RATE
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.filters import alignment
from uttermill.tasks.plugins.contracts.segmenters import RecordingTranscript
from uttermill.tasks.recording import TimedWord
from uttermill.tasks.segmenters import aligned
from uttermill.tasks.segmenters.aligned import Settings, start_heard

TOLERANCE = 0.2  # s
MOSTLY = 0.7  # of a span, in which its sentence must be said


def aligned_book(
    corpus: Path, minutes: float, seed: int, kept: Path | None, texts: int
) -> JsonObject:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.flac"
        samples, lines = book(corpus, minutes, seed, path)
        began = time.process_time()
        heard = _heard.heard(path, Settings().backend, "en", kept)
        hearing_seconds = time.process_time() - began
    began = time.process_time()
    judged = Judged(samples, lines, heard)
    matching_seconds = time.process_time() - began
    for start, end, text in judged.wrong:
        print(f"wrong: {start:.2f} to {end:.2f} s: {text}", file=sys.stderr)
    found: JsonObject = {
        "minutes": round(samples / RATE / 60, 1),
        "only_in_text": sum(line.start is None for line in lines),
        "only_in_audio": sum(not line.written for line in lines),
        **summed([judged]),
        "hearing_cpu_seconds": round(hearing_seconds, 1),
        "matching_cpu_seconds": round(matching_seconds, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    if texts:
        found["harder_texts"] = summed(
            [Judged(samples, other_text(lines, draw), heard) for draw in range(texts)]
        )
    return found


class Judged:
    """An alignment beside the truth: sentences kept, wrong ones, errors of edges in s."""

    def __init__(self, samples: int, lines: list[Line], heard: RecordingTranscript) -> None:
        text = "\n".join(line.text for line in lines if line.written)
        segmenter = start_heard(Settings(), RATE, text, heard)
        spans = segmenter.push(np.broadcast_to(np.zeros((1, 1), np.float32), (samples, 1)))
        spans += segmenter.finish()
        least = alignment.Settings().min or 0.0
        found = [s for s in spans if s.text and s.end > s.start and (s.match or 0.0) >= least]
        said = [line for line in lines if line.start is not None]
        self.both = sum(line.written for line in said)
        self.wrong: list[tuple[float, float, str]] = []
        self.same_words = 0  # of the wrong ones
        self.edges: list[float] = []
        hits: set[int] = set()
        for span in found:
            start, end, text = span.start / RATE, span.end / RATE, span.text or ""
            there = [n for n, line in enumerate(said) if _share(line, start, end) > MOSTLY]
            true = [n for n in there if said[n].written and text in said[n].text]
            if not true:
                self.wrong.append((start, end, text))
                self.same_words += any(text.rstrip(".") == said[n].text.rstrip(".") for n in there)
                continue
            hits.add(true[0])
            line = said[true[0]]
            if text == line.text and line.audible:  # a long sentence is found in parts
                loud = line.start or 0.0, line.end or 0.0
                for edge, one, other in zip((start, end), loud, line.audible, strict=True):
                    low, high = sorted((one, other))
                    self.edges.append(max(low - edge, edge - high, 0.0))
        self.kept = len(hits)


def summed(judged: list[Judged]) -> JsonObject:
    near = np.array([edge for each in judged for edge in each.edges])
    both = sum(each.both for each in judged)
    return {
        "sentences_in_both": both,
        "found_percent": round(100 * sum(each.kept for each in judged) / both, 2),
        "wrong": sum(len(each.wrong) for each in judged),
        "wrong_with_the_same_words": sum(each.same_words for each in judged),
        "edges": len(near),
        "edges_within_0.2_s_percent": round(100 * float((near <= TOLERANCE).mean()), 2),
        "edge_error_median": round(float(np.median(near)), 3),
        "edge_error_p95": round(float(np.quantile(near, 0.95)), 3),
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
    segmenter = aligned.start_heard(Settings(), RATE, text, RecordingTranscript(timed, (), "de"))
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
    parser.add_argument("--texts", type=int, default=0, help="harder texts over the same hearing")
    parser.add_argument("--heard", type=Path, help="folder that keeps what was heard")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found: JsonObject = {}
    if args.words:
        found["scale"] = scale(args.words, args.seed)
    if args.minutes:
        if args.corpus is None:
            parser.error("give UTTERMILL_CORPUS or --corpus, or --minutes 0")
        found["book"] = aligned_book(args.corpus, args.minutes, args.seed, args.heard, args.texts)
    print(json.dumps(found, indent=None if args.json else 2))


if __name__ == "__main__":
    main()
