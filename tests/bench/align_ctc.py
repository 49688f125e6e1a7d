"""Aligns hours of synthetic emissions with their text by the engine `ctc`: sentences found, time,
memory.

    python -m tests.bench.align_ctc [--hours 10] [--seed 0] [--json]

Tokens are letters, at 50 frames a second and 150 words a minute. One sentence in twenty is not
spoken, and as many spoken sentences are missing from the text. Scores are random, with a standard
deviation of 2 nats, and 7 nats higher for the right token, so that about one frame in ten is wrong.
This measures the search, not a model.
"""

from __future__ import annotations

import argparse
import json
import string
import time

import numpy as np
import psutil

from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins.contracts.asr import Alphabet
from uttermill.tasks.plugins.contracts.segmenters import Emissions, RecordingTranscript
from uttermill.tasks.segmenters._aligned import forced

TOKENS = ("<blk>", "|", *string.ascii_lowercase)
STEP = 0.02  # s
PIECE = 1000  # frames that are heard at once
SURE, SPREAD = 7.0, 2.0  # nats
TOLERANCE = 0.2  # s


def book(hours: float, seed: int) -> tuple[list[str], list[tuple[str, bool]]]:
    """Sentences of the text; what is said in order, and whether the text has it."""
    chance = np.random.default_rng(seed)
    written: list[str] = []
    said: list[tuple[str, bool]] = []
    letters = np.array(list(string.ascii_lowercase))
    lexicon = ["".join(chance.choice(letters, chance.integers(2, 9))) for _ in range(5000)]
    words = 0
    while words < hours * 9000:
        drawn = np.minimum(chance.zipf(1.3, chance.integers(5, 25)), len(lexicon)) - 1
        sentence = " ".join(lexicon[n] for n in drawn).capitalize() + "."
        words += len(drawn)
        kind = chance.random()
        if kind >= 0.05:
            said.append((sentence, kind >= 0.1))
        if kind < 0.05 or kind >= 0.1:
            written.append(sentence)
    return written, said


def emitted(
    said: list[tuple[str, bool]], seed: int
) -> tuple[Emissions, list[tuple[float, float]], float]:
    """The emissions, where each sentence is said, s, and the share of frames that are misheard."""
    chance = np.random.default_rng(seed)
    numbers = {token: n for n, token in enumerate(TOKENS)}
    frames: list[int] = []
    places = []
    for sentence, _ in said:
        frames += [0] * int(chance.integers(15, 60))
        begin = len(frames)
        for letter in sentence.lower().strip(".").replace(" ", "|"):
            frames += [numbers[letter]] + [0] * int(chance.integers(1, 4))
        places.append((begin * STEP, len(frames) * STEP))
    pieces, misheard = [], 0
    for at in range(0, len(frames), PIECE):
        right = np.array(frames[at : at + PIECE])
        scores = chance.normal(0, SPREAD, (len(right), len(TOKENS)))
        scores[np.arange(len(right)), right] += SURE
        misheard += int((scores.argmax(axis=1) != right).sum())
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        pieces.append((at * STEP, len(right) * STEP, scores.astype(np.float16)))
    return Emissions(Alphabet(TOKENS, 0), tuple(pieces)), places, misheard / len(frames)


def found(hours: float, seed: int) -> JsonObject:
    written, said = book(hours, seed)
    emissions, places, misheard = emitted(said, seed)
    heard = RecordingTranscript((), tuple(places), "xx", emissions)
    before = psutil.Process().memory_info().rss
    began = time.process_time()
    sentences = forced.spoken("\n\n".join(written), heard)
    spent = time.process_time() - began
    known = [(text, at) for (text, there), at in zip(said, places, strict=True) if there]
    spans = [(s.text, s.span) for s in sentences if s.span]
    by_text: dict[str, list[tuple[float, float]]] = {}
    for text, place in known:
        by_text.setdefault(text, []).append(place)
    edges: list[float] = []
    wrong = 0
    for text, span in spans:
        assert span is not None
        near = min(by_text.get(text, []), key=lambda p: abs(p[0] - span[0]), default=None)
        if near is None or near[1] < span[0] or near[0] > span[1]:
            wrong += 1
            continue
        edges += [abs(span[0] - near[0]), abs(span[1] - near[1])]
    return {
        "hours": round(sum(seconds for _, seconds, _ in emissions.pieces) / 3600, 2),
        "words": sum(len(text.split()) for text in written),
        "sentences_in_both": len(known),
        "found_percent": round(100 * len(edges) / 2 / len(known), 2),
        "wrong": wrong,
        "edges_within_0.2_s_percent": round(100 * float((np.array(edges) <= TOLERANCE).mean()), 2),
        "misheard_frames_percent": round(100 * misheard, 1),
        "cpu_seconds": round(spent, 1),
        "emissions_mb": round(sum(scores.nbytes for _, _, scores in emissions.pieces) / 1e6),
        "peak_mb_beside": round((_peak() - before) / 1e6),
    }


def _peak() -> int:
    """The most resident memory of this process, bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    print(json.dumps(found(args.hours, args.seed), indent=None if args.json else 2))


if __name__ == "__main__":
    main()
