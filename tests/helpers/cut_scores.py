"""Scores a segmentation of a recording with known words: lost and clipped words, accepted noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from tests.helpers.cut_mixture import Recording
from tests.helpers.cut_sentences import FRAME, Flags, levels

MOST_CHARACTERS = 200  # WeNet's token_max_length, where tokens are characters
CLIPPED = 4  # frames of 10 ms with speech that a clipped word lacks
NEAR = 50  # frames around a sentence that do not count as accepted pause

Range = tuple[int, int]


@dataclass(slots=True)
class Score:
    """Counts, or seconds if the name says so. `+` adds the scores of recordings."""

    sentences: int = 0
    sentences_lost: int = 0  # hardly a tenth of the speech is left
    starts_clipped: int = 0  # sentences whose first word is clipped or lost
    ends_clipped: int = 0
    words: int = 0
    words_lost: int = 0  # more than half of the speech is missing
    words_clipped: int = 0  # 40 ms of speech or more are missing
    words_parted: int = 0  # two utterances meet inside
    speech_seconds: float = 0.0
    speech_lost_seconds: float = 0.0
    sound_seconds: float = 0.0  # of music and noise
    sound_let_in_seconds: float = 0.0
    pause_let_in_seconds: float = 0.0  # further than 0.5 s from speech
    utterances: int = 0
    utterances_long: int = 0  # of more than 200 characters, which WeNet's reader drops

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def words_hurt(self) -> float:
        """The share of words that are clipped or lost."""
        return (self.words_lost + self.words_clipped) / max(self.words, 1)

    @property
    def speech_lost(self) -> float:
        return self.speech_lost_seconds / max(self.speech_seconds, 1e-9)


def covered_frames(utterances: Sequence[Range], frames: int) -> Flags:
    """Frames whose middle lies inside an utterance; ranges are samples at 16 kHz."""
    inside = np.zeros(frames, bool)
    for start, end in utterances:
        inside[max((start + FRAME // 2) // FRAME, 0) : max((end + FRAME // 2) // FRAME, 0)] = True
    return inside


def score(recording: Recording, utterances: Sequence[Range], from_frame: int = 0) -> Score:
    """Score of the sentences and sounds that begin at `from_frame` or later."""
    inside = covered_frames(utterances, recording.frames)
    met = {b // FRAME for (_, b), (c, _) in pairwise(utterances) if b == c}
    found = Score(utterances=sum(start >= from_frame * FRAME for start, _ in utterances))
    near = np.zeros(recording.frames, bool)
    characters = np.zeros(recording.frames)
    for placed in recording.sentences:
        near[max(placed.start - NEAR, 0) : placed.end + NEAR] = True
        if placed.start < from_frame or placed.sentence is None:
            continue
        sentence = placed.sentence
        characters[placed.start : placed.start + len(sentence.active)] = (
            sentence.active * len(sentence.text) / max(sentence.active.sum(), 1)
        )
        held = inside[placed.start : placed.start + len(sentence.active)]
        # Speech that the noise covers counts neither as speech nor as lost.
        heard = sentence.active & (
            levels(sentence.samples) + 20 * np.log10(placed.gain) > recording.noise_db
        )
        missing = heard & ~held
        found.sentences += 1
        found.sentences_lost += int(missing.sum() >= 0.9 * heard.sum())
        found.speech_seconds += float(heard.sum()) / 100
        found.speech_lost_seconds += float(missing.sum()) / 100
        for number, (start, end) in enumerate(sentence.words):
            gone, whole = int(missing[start:end].sum()), int(heard[start:end].sum())
            lost = gone > whole / 2
            found.words += 1
            found.words_lost += lost
            found.words_clipped += gone >= CLIPPED and not lost
            found.starts_clipped += number == 0 and (lost or gone >= CLIPPED)
            found.ends_clipped += number == len(sentence.words) - 1 and (lost or gone >= CLIPPED)
            where = np.flatnonzero(heard[start:end]) + placed.start + start
            found.words_parted += (
                any(where[0] + 3 < m < where[-1] - 3 for m in met) if len(where) else 0
            )
    for placed in recording.sounds:
        if placed.start >= from_frame:
            part = (inside & ~near)[placed.start : placed.end]
            found.sound_seconds += len(part) / 100
            found.sound_let_in_seconds += float(part.sum()) / 100
            near[placed.start : placed.end] = True
    found.utterances_long = sum(
        bool(characters[start // FRAME : end // FRAME].sum() > MOST_CHARACTERS)
        for start, end in utterances
    )
    found.pause_let_in_seconds = float((inside & ~near)[from_frame:].sum()) / 100
    return found
