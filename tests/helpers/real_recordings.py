"""The corpus's long recordings: where speech is comes from their segments, not from words."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.helpers import cut_sentences
from tests.helpers.corpus_speech import RATE, Floats, read
from tests.helpers.cut_mixture import Made, Placed, Recording
from tests.helpers.cut_sentences import FRAME, Sentence

EDGE = 30  # frames at each end of a real segment that stand for its first and last word


class Decoded(Recording):
    """A real recording."""

    def __init__(self, name: str, samples: Floats, placed: list[Placed]) -> None:
        super().__init__(Made(name), placed, len(samples) // FRAME)
        self.samples = samples

    def blocks(self) -> Iterator[Floats]:
        for at in range(0, len(self.samples), RATE):
            yield self.samples[at : at + RATE]


def real(path: Path) -> Decoded:
    """A long recording of the corpus with its segments."""
    samples = read(path)
    placed = []
    for row in map(json.loads, path.with_suffix(".segments.jsonl").read_text().splitlines()):
        start = round(row["start"] * 100)
        piece = samples[start * FRAME : round(row["end"] * 100) * FRAME]
        active = cut_sentences.active_frames(piece)
        where = np.flatnonzero(active)
        first, end = int(where[0]), int(where[-1]) + 1
        words = ((first, first + EDGE), (end - EDGE, end))
        sentence = Sentence(row["source"], "", row["text"] or "", piece, active, words)
        placed.append(Placed(start, piece, 1.0, sentence))
    return Decoded(path.name, samples, placed)
